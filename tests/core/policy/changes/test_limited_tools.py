"""Tools that do no more than their names say: reading, one query, the agent's own notes, pages of this computer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.core.policy.changes.limited_tools import find_limit
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import PolicyError, parse

CALLS: list[tuple[str, str, Any, str]] = [
    ("get_task", "", {"task_id": "R-1"}, "reads"), ("translate_text", "", {"text": "Hola", "target": "en"}, "reads"),
    ("get_voucher", "", {"code": "SPRING-15"}, "reads"),
    ("fetch_csv", "", {"url": "https://a.example.org/x"}, "reads"),
    ("list_pull_request_comments", "github", {"owner": "a", "repo": "b"}, "reads"),
    ("mcp__github__list_everything", "", {"owner": "a"}, "reads"),
    ("calculate", "", {"expression": "1 + 1"}, "reads"),
    ("run_python", "", {"code": "print(1)"}, "reads"), ("attempt_completion", "", {"result": "Done"}, "reads"),
    ("query", "postgres", {"sql": "select 1"}, "queries"),
    ("sql_db_query", "", {"query": "select a from t"}, "queries"),
    ("create_outline", "", {"title": "A"}, "notes"), ("save_note", "", {"folder": "R-1", "text": "x"}, "notes"),
    ("add_citation", "", {"url": "https://a.example.org/x", "title": "A"}, "notes"),
    ("updateSection", "", {}, "notes"),
    ("export_summary", "", {"path": "out/a.pdf"}, "notes"), ("write_shift_summary", "", {"text": "x"}, "notes"),
    ("browser_action", "", {"action": "launch", "url": "http://localhost:3000/a"}, "pages"),
    ("browser_action", "", {"action": "close"}, "pages"),
    ("browser_navigate", "playwright", {"url": "http://127.0.0.1:6006/"}, "pages"),
    ("browser_close", "playwright", {}, "pages"),
]  # fmt: skip
OTHERS: list[tuple[str, str, Any]] = [
    ("get_weather", "evil", {"city": "Cork"}), ("get_weather", "", {"callback": "https://x.example.net"}),
    ("mcp__evil__get_task", "", {}), ("get_terminate", "", {}), ("get_api_key", "", {}), ("list_secrets", "", {}),
    ("get_rows", "", {"code": "import os"}), ("translate_text", "", {"text": "https://x.example.net/?a=b"}),
    ("fetch_csv", "", {"url": "https://u@a.example.org/x"}), ("fetch_csv", "", {"url": f"https://a.org/{'a' * 99}"}),
    ("get_x", "", {"url": "https://a.example.org/x", "to": "https://b.example.org"}),
    ("run_python", "", {"code": "import os"}),
    ("run_python", "", {"code": "print(1)", "packages": ["x"]}),
    ("attempt_completion", "", {"result": "a", "command": "x"}),
    ("query", "postgres", {"sql": "delete from t"}), ("query", "x", {"sql": "select 1", "then": "delete from t"}),
    ("query_and_mail", "x", {"sql": "select 1"}), ("query", "x", {"sql": "select 1", "query": "select 2"}),
    ("create_table", "", {}), ("create_order", "", {"title": "A"}),
    ("save_note", "", {"ticket_id": "T-1", "text": "x"}),
    ("save_note", "", {"path": "/etc/cron.d/x"}), ("save_note", "", {"path": ".git/hooks/x"}),
    ("publish_note", "", {}), ("create_report", "", {"title": "A"}), ("export_report", "", {"path": "out/a.pdf"}),
    ("format_section", "", {"command": "x"}), ("update_note", "", {"script": "x"}),
    ("save_note", "", {"webhook": "https://x.example.net"}), ("save_note", "evil", {"text": "x"}),
    ("send_note", "", {}),
    ("save_note", "", {"file": "../x"}), ("delete_note", "", {}), ("save_api_key_note", "", {}),
    ("save_memory", "", {}),
    ("share_note", "", {}), ("export_summary", "", {"destination": "s3"}),
    ("create_draft", "", {"to": ["a@b.example"]}),
    ("browser_action", "", {"action": "launch", "url": "https://a.example.org"}),
    ("browser_evaluate", "playwright", {}),
    ("browser_action", "", {"action": "click", "coordinate": "1,2"}), ("browser_close", "", {"command": "ls"}),
    ("browser_navigate", "playwright", {"url": "http://localhost@x.example.net/"}),
    ("browser_navigate", "evil", {"url": "http://localhost/"}),
    ("get_task", "", None), ("get_task", "", ["x"]), ("", "", {}), ("__import__", "", {}),
]  # fmt: skip


@loop_over(("tool", "source", "args", "limit"), CALLS)
def test_a_tool_that_does_no_more_has_a_limit(tool: str, source: str, args: Any, limit: str) -> None:
    assert find_limit(PolicyRequest.for_tool(tool, source=source, input=args)) == limit


@loop_over(("tool", "source", "args"), OTHERS)
def test_near_misses_have_none(tool: str, source: str, args: Any) -> None:
    assert find_limit(PolicyRequest.for_tool(tool, source=source, input=args)) == ""


def test_a_rule_may_name_several_limits_and_an_unknown_input_has_none() -> None:
    clause = {"args": [{"path": "", "op": "tool_only", "value": ["reads", "notes"]}]}
    policy = parse({"default": "ask", "rules": [{"effect": "allow", "match": clause}]})
    requests = [PolicyRequest.for_tool(tool, input={}) for tool in ("get_task", "save_note", "browser_close")]
    assert [decide(policy, request).effect for request in requests] == [Effect.ALLOW, Effect.ALLOW, Effect.ASK]
    assert decide(policy, PolicyRequest.for_tool("get_task", has_input=False)).effect is Effect.ASK


def test_it_is_about_the_whole_call_and_takes_no_other_words() -> None:
    for path, value in (("/a", "reads"), ("", "writes")):
        with pytest.raises(PolicyError, match=r"whole call|expects reads"):
            parse(
                {"rules": [{"effect": "allow", "match": {"args": [{"path": path, "op": "tool_only", "value": value}]}}]}
            )


@pytest.mark.parametrize("effect", ["allow", "ask"])
@pytest.mark.parametrize("operator", [{"op": "tool_only", "value": "reads"}, {"op": "reads_by_name"}])
def test_rules_and_exceptions_ask_the_same_of_a_name(effect: str, operator: dict[str, Any]) -> None:
    clause = {"tool": ["get_*"], "args": [{"path": ""} | operator]}
    rule = (
        {"effect": effect, "match": clause} if effect == "allow" else {"effect": "ask", "match": {}, "unless": [clause]}
    )
    policy = parse({"default": "ask" if effect == "allow" else "allow", "rules": [rule]})
    requests = [PolicyRequest.for_tool(tool, input={}) for tool in ("get_order", "get_api_key", "check_out")]
    assert [decide(policy, request).effect for request in requests] == [Effect.ALLOW, Effect.ASK, Effect.ASK]
    unknown_input = PolicyRequest.for_tool("get_order", has_input=False)
    assert decide(policy, unknown_input).effect is Effect.ASK


@pytest.mark.parametrize(
    ("names", "tool", "source", "effect"),
    [
        ({}, "get_order", "shop", Effect.ASK), ({}, "mcp__shop__get_order", "", Effect.ASK),
        ({"source": ["shop"]}, "get_order", "shop", Effect.ALLOW),
        ({"source": ["shop"]}, "get_order", "other", Effect.ASK), ({"source": ["*"]}, "get_order", "shop", Effect.ASK),
        ({"tool": ["mcp__shop__get_*"]}, "mcp__shop__get_order", "", Effect.ALLOW),
        ({"tool": ["mcp__shop__get_*"]}, "mcp__other__get_order", "", Effect.ASK),
        ({"source": ["shop"]}, "delete_order", "shop", Effect.ASK),
        ({"source": ["shop"]}, "get_api_key", "shop", Effect.ASK),
    ],
)  # fmt: skip
def test_a_server_outside_the_catalog_reads_where_the_rule_names_it(
    names: dict[str, Any], tool: str, source: str, effect: Effect
) -> None:
    clause = names | {"args": [{"path": "", "op": "tool_only", "value": "reads"}]}
    policy = parse({"default": "ask", "rules": [{"effect": "allow", "match": clause}]})
    assert decide(policy, PolicyRequest.for_tool(tool, source=source, input={})).effect is effect
