"""Groups of tools that one answer covers: the same kind of work, and nothing that pays, sends or ends something."""

from __future__ import annotations

from typing import Any

from tests.support.tables import loop_over
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.lasting.answers import add_rule, list_lasting_answers

POLICY = parse({"v": 1, "default": "ask", "rules": []})
Call = tuple[str, str, dict[str, Any]]
NOTE: Call = ("add_internal_note", "", {"ticket_id": "T-1", "text": "x"})
COMMENT: Call = ("add_issue_comment", "github", {"owner": "a", "repo": "b", "body": "With a fixed name it works."})
CLICK: Call = ("browser_click", "playwright", {"element": "Save", "ref": "e1"})
OUTLINE: Call = ("create_outline", "", {"title": "Ways to merge"})
GROUPS: list[tuple[Call, list[Call], list[Call]]] = [
    (NOTE, [("update_ticket", "", {"ticket_id": "T-2", "status": "open"}), ("add_tag", "", {"ticket_id": "T-2"})], [
        ("send_reply", "", {"ticket_id": "T-1", "text": "x"}), ("delete_ticket", "", {"ticket_id": "T-1"}),
        ("update_ticket", "", {"ticket_id": "T-1", "email": "a@b.example"}), ("add_credit", "", {"customer_id": "c"}),
        ("update_ticket", "evil", {"ticket_id": "T-1"}), ("add_refund", "", {"ticket_id": "T-1", "amount": 5}),
        ("mcp__x__add_tag", "", {"ticket_id": "T-1"}),
    ]),
    (COMMENT, [("create_pull_request", "github", {"owner": "a", "repo": "b", "title": "x"})], [
        ("add_issue_comment", "github", {"owner": "a", "repo": "c"}),
        ("merge_pull_request", "github", {"owner": "a", "repo": "b"}),
        ("push_files", "github", {"owner": "a", "repo": "b"}),
        ("create_pull_request", "evil", {"owner": "a", "repo": "b"}),
    ]),
    (OUTLINE, [("save_note", "", {"text": "x"}), ("tag_note", "", {"tags": ["open"]})], [
        ("save_note", "evil", {"text": "x"}), ("publish_note", "", {}), ("create_order", "", {"title": "A"}),
        ("create_report", "", {"title": "A"}), ("save_note", "", {"path": "/etc/cron.d/x"}),
        ("export_summary", "", {"destination": "s3"}),
    ]),
    (CLICK, [("browser_type", "playwright", {"ref": "e2", "text": "x"})], [
        ("browser_evaluate", "playwright", {"function": "x"}), ("browser_click", "evil", {}),
        ("browser_file_upload", "playwright", {}),
    ]),
]  # fmt: skip


def build_request(call: Call) -> PolicyRequest:
    tool, source, args = call
    return PolicyRequest.for_tool(tool, source=source, input=args, agent_path=("bot",))


@loop_over(("call", "alike", "others"), GROUPS)
def test_one_answer_covers_the_tools_of_its_group_and_no_other(
    call: Call, alike: list[Call], others: list[Call]
) -> None:
    request = build_request(call)
    answers = list_lasting_answers(POLICY, request, decide(POLICY, request))
    policy = parse(add_rule(dict(POLICY.document), answers[0].build_rule(Effect.ALLOW), ()))
    assert [decide(policy, build_request(each)).effect for each in [call, *alike]] == [Effect.ALLOW] * (1 + len(alike))
    assert [each for each in others if decide(policy, build_request(each)).effect is not Effect.ASK] == []
