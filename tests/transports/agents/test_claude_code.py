"""Claude Code's hooks, as its HTTP client sends them: what is decided, held, taken back, and what never fails open."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from channels.testing import HttpCommunicator
from django.db.models import F
from django.utils import timezone

from dashboard.cards.card_view import CardView
from tests.support.reviewers import build_policy, reply, run_model
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.gate.approvals import holds
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import Command
from toolcards.models import AgentKey, Approval, Run, ToolCall
from toolcards.models.write_guard import allow_log_writes
from toolcards.transports.agents.claude_code_hooks import NOTE_EVENTS
from toolcards.transports.background import connections
from toolcards.transports.background.connections import check_connections

pytestmark = pytest.mark.django_db(transaction=True)
HOOKS = "/api/v1/hooks/claude-code"
BASH = {"tool_name": "Bash", "tool_input": {"command": "git push"}}
CALL = {**BASH, "tool_use_id": "toolu_1"}
ALLOW = {"behavior": "allow", "updatedInput": BASH["tool_input"]}


OPEN = {"v": 1, "default": "allow", "rules": []}


def hook(event: str, **value: Any) -> dict[str, Any]:
    return {"session_id": "s-1", "hook_event_name": event, **value}


@pytest.fixture
def tell(call: Any) -> Any:
    """Give `await tell(event, …)`: the hook output."""

    async def post_hook(event: str, *, query: str = "", **value: Any) -> Any:
        status, answer, _ = await call("POST", HOOKS + query, hook(event, **value))
        assert status == 200, answer
        return answer.get("hookSpecificOutput", answer)

    return post_hook


@pytest.fixture
def under(policy: Any) -> Any:
    """Give `await under(policy)`: activates it."""
    return in_thread(policy)


async def card() -> Any:
    return (await ToolCall.objects.aget()).as_card()


async def waiting() -> ToolCall:
    async with asyncio.timeout(PATIENCE):
        while True:
            tool_call: ToolCall | None = await ToolCall.objects.filter(waiting=True).afirst()
            if tool_call:
                return tool_call
            await asyncio.sleep(0.02)


async def answer(person: Any, decision: str, **more: Any) -> None:
    row = await waiting()
    ask = row.as_card().approval
    assert ask is not None
    ballot = gate.Ballot(approval=ask.id, decision=decision, rev=row.as_card().rev, args_sha256=ask.args_sha256, **more)
    await in_thread(lambda: gate.vote(person, ballot))()


async def test_a_call_that_only_the_default_allows_gets_no_opinion(tell: Any, under: Any) -> None:
    await under("watch")
    assert await tell("PreToolUse", **CALL) == {}
    call_card = await card()
    assert (call_card.state, call_card.decision.effect, call_card.tool.kind) == ("input-available", "allow", "execute")


async def test_a_rules_yes_is_said(tell: Any, under: Any) -> None:
    await under({"default": "ask", "rules": [{"id": "ok", "effect": "allow", "match": {"tool": ["Bash"]}}]})
    assert (await tell("PreToolUse", **CALL))["permissionDecision"] == "allow"


async def test_under_follow_the_agent_work_in_the_project_gets_no_opinion(tell: Any, under: Any) -> None:
    await under("follow-the-agent")
    work = [
        ("Edit", {"file_path": "/srv/app/src/a.py", "old_string": "a", "new_string": "b"}),
        ("Bash", {"command": "cd /srv/app && pytest -q tests | tail -5"}),
        ("Bash", {"command": "git add -A && git commit -m 'Fix it'"}),
        ("Read", {"file_path": "/srv/app/README.md"}),
        ("ExitPlanMode", {"plan": "Fix it."}),
    ]
    for number, (tool, value) in enumerate(work):
        call = {"tool_name": tool, "tool_input": value, "tool_use_id": f"toolu_{number}", "cwd": "/srv/app"}
        assert await tell("PreToolUse", **call) == {}


async def test_under_follow_the_agent_what_the_agent_asks_is_asked_here(
    tell: Any, under: Any, an_approver: Any
) -> None:
    await under("follow-the-agent")
    call = {"tool_name": "Bash", "tool_input": {"command": "pytest -q"}, "cwd": "/srv/app"}
    assert await tell("PreToolUse", **call, tool_use_id="toolu_1") == {}
    hook_task = asyncio.ensure_future(tell("PermissionRequest", **call))
    await answer(an_approver, "approve")
    assert (await hook_task)["decision"] == {"behavior": "allow", "updatedInput": {"command": "pytest -q"}}


async def test_under_follow_the_agent_what_leaves_the_project_is_held(tell: Any, under: Any, an_approver: Any) -> None:
    await under("follow-the-agent")
    hook_task = asyncio.ensure_future(tell("PreToolUse", **CALL, cwd="/srv/app"))
    await answer(an_approver, "approve")
    assert (await hook_task)["permissionDecision"] == "allow"
    harm = {"tool_name": "Bash", "tool_input": {"command": "rm -rf ~"}, "tool_use_id": "toolu_2", "cwd": "/srv/app"}
    assert (await tell("PreToolUse", **harm))["permissionDecision"] == "deny"


async def test_a_rules_no_names_the_reason_and_the_way_out(tell: Any, under: Any) -> None:
    rule = {
        "id": "no",
        "effect": "deny",
        "match": {"tool": ["Bash"]},
        "public_reason": "Not here.",
        "suggest": "Open a draft.",
    }
    await under({"default": "allow", "rules": [rule]})
    result = await tell("PreToolUse", **CALL)
    assert (result["permissionDecision"], result["permissionDecisionReason"]) == ("deny", "Not here. Open a draft.")
    await tell("PostToolBatch", tool_calls=[{**CALL, "tool_response": "PreToolUse:Bash hook error: Not here."}])
    call_card = await card()
    assert (call_card.state, call_card.denied_by.kind, call_card.anomalies) == ("output-denied", "rule", ())


async def test_a_question_holds_the_hook_until_a_person_says_yes(tell: Any, under: Any, an_approver: Any) -> None:
    await under({"default": "ask"})
    hook_task = asyncio.ensure_future(tell("PreToolUse", **CALL))
    await answer(an_approver, "approve")
    value = await hook_task
    assert (value["permissionDecision"], "updatedInput" in value) == ("allow", False)
    call_card = await card()
    assert (call_card.state, call_card.approval.state) == ("approval-responded", "claimed")
    await tell("PostToolUse", **CALL, tool_response={"stdout": "pushed"})
    call_card = await card()
    assert (call_card.state, call_card.output, call_card.anomalies) == ("output-available", {"stdout": "pushed"}, ())
    assert await ToolCall.objects.acount() == 1


@pytest.mark.parametrize("verdict", ["allow", "deny"])
async def test_a_reviewer_answers_the_hook_as_a_person_would(
    tell: Any, under: Any, an_approver: Any, limits: Any, verdict: str
) -> None:
    with run_model(lambda body: reply(verdict)) as model:
        limits(webhook_private=(model.host,))
        await under(build_policy({"url": model.url}, match={"tool": "Bash"}))
        value = await tell("PreToolUse", **CALL)
    assert value["permissionDecision"] == verdict and "It is small." in value["permissionDecisionReason"]
    output = await tell("PermissionRequest", **BASH)
    assert output["decision"]["behavior"] == verdict


async def test_a_persons_no_reaches_the_model_with_its_reason(tell: Any, under: Any, an_approver: Any) -> None:
    await under({"default": "ask"})
    hook_task = asyncio.ensure_future(tell("PreToolUse", **CALL))
    await answer(an_approver, "deny", reason="not on a Friday")
    value = await hook_task
    assert value["permissionDecision"] == "deny"
    assert value["permissionDecisionReason"].startswith("A person declined: not on a Friday")
    assert (await card()).state == "output-denied"


async def test_what_a_person_edited_replaces_the_input(tell: Any, under: Any, an_approver: Any) -> None:
    ask = {"id": "ask", "effect": "ask", "match": {"tool": ["Bash"]}, "ask": {"editable": ["/command"]}}
    await under({"default": "allow", "rules": [ask]})
    hook_task = asyncio.ensure_future(tell("PreToolUse", **CALL))
    await answer(an_approver, "edit", edited_args={"command": "git push --dry-run"})
    value = await hook_task
    assert (value["permissionDecision"], value["updatedInput"]) == ("allow", {"command": "git push --dry-run"})
    await tell("PostToolUse", **CALL | {"tool_input": value["updatedInput"]}, tool_response="done")
    call_card = await card()
    assert (call_card.input, call_card.original_input) == ({"command": "git push --dry-run"}, {"command": "git push"})


async def test_no_answer_arrives_before_the_hosts_limit(tell: Any, under: Any, an_approver: Any) -> None:
    await under({"default": "ask"})
    result = await asyncio.wait_for(tell("PreToolUse", query="?limit=1", **CALL), PATIENCE)
    assert result["permissionDecision"] == "deny"
    assert result["permissionDecisionReason"].startswith("No one answered")
    call_card = await card()
    assert (call_card.state, call_card.denied_by.kind) == ("output-denied", "timeout")


async def asked_over(secret: str) -> HttpCommunicator:
    """Return a hook's request on its way in."""
    from dashboard.asgi import application

    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {secret}".encode())]
    wire = HttpCommunicator(application, "POST", HOOKS, json.dumps(hook("PreToolUse", **CALL)).encode(), headers)
    await wire.send_input({"type": "http.request", "body": wire.body})
    return wire


async def test_who_hangs_up_takes_the_question_back(secret: str, under: Any, an_approver: Any) -> None:
    await under({"default": "ask"})
    wire = await asked_over(secret)
    await waiting()
    await wire.send_input({"type": "http.disconnect"})
    await wire.wait(PATIENCE)
    call_card = await card()
    assert (call_card.waiting, call_card.cause, call_card.approval.state) == (False, "aborted", "cancelled")


class HoldUp(Command):
    """Keeps the writer busy until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.release = threading.Event(), threading.Event()

    def apply(self, tx: Any) -> None:
        self.start.set()
        assert self.release.wait(PATIENCE)


async def test_who_hangs_up_while_the_call_is_being_written_leaves_no_question(
    secret: str, under: Any, an_approver: Any, call: Any
) -> None:
    await under({"default": "ask"})
    assert (await call("GET", "/api/v1/runs"))[0] == 200  # the key's use is noted now: later the writer is busy
    holdup = HoldUp()
    hook_task = asyncio.ensure_future(group_commit.submit(holdup))
    assert await asyncio.to_thread(holdup.start.wait, PATIENCE)
    wire = await asked_over(secret)
    async with asyncio.timeout(PATIENCE):
        while not group_commit.WRITER._queue:  # until the call is to be written
            await asyncio.sleep(0.01)
    await wire.send_input({"type": "http.disconnect"})
    await asyncio.sleep(0.1)  # heard before or after the writing: no question is left
    holdup.release.set()
    await hook_task
    await wire.wait(PATIENCE)
    call_card = await card()
    assert (call_card.waiting, call_card.cause, call_card.approval.state) == (False, "aborted", "cancelled")


async def test_a_withdrawn_call_that_runs_all_the_same_is_noted(
    tell: Any, under: Any, secret: str, an_approver: Any
) -> None:
    await test_who_hangs_up_takes_the_question_back(secret, under, an_approver)
    await tell("PostToolUse", **CALL, tool_response="ran")
    assert [code for code, _ in (await card()).anomalies] == ["ran-without-approval"]


async def test_the_programs_own_question_can_be_answered_here(tell: Any, under: Any, an_approver: Any) -> None:
    await under(OPEN)
    assert await tell("PreToolUse", **CALL) == {}
    hook_task = asyncio.ensure_future(tell("PermissionRequest", **BASH))
    await answer(an_approver, "approve")
    assert (await hook_task)["decision"] == ALLOW
    call_card = await card()
    assert (call_card.approval.opener, call_card.approval.state, call_card.approval.by.name) == (
        "agent",
        "claimed",
        "ann",
    )


async def test_under_watch_the_programs_own_question_is_shown_and_stays_with_the_program(
    tell: Any, under: Any, an_approver: Any
) -> None:
    await under("watch")
    assert await tell("PreToolUse", **CALL) == {}
    assert await asyncio.wait_for(tell("PermissionRequest", **BASH), PATIENCE) == {}
    call_card = await card()
    assert (call_card.state, call_card.approval.opener, call_card.approval.votable) == (
        "approval-requested",
        "agent",
        False,
    )
    await tell("PostToolUse", **CALL, tool_response="ran")
    assert ((await card()).state, (await card()).anomalies) == ("output-available", ())


async def test_a_denial_of_the_programs_question_carries_its_reason(tell: Any, under: Any, an_approver: Any) -> None:
    await under(OPEN)
    await tell("PreToolUse", **CALL)
    hook_task = asyncio.ensure_future(tell("PermissionRequest", **BASH))
    await answer(an_approver, "deny", reason="no")
    assert (await hook_task)["decision"] == {"behavior": "deny", "message": "no"}
    assert (await card()).state == "output-denied"


async def test_the_user_at_the_terminal_may_answer_first(tell: Any, under: Any, an_approver: Any) -> None:
    await under(OPEN)
    await tell("PreToolUse", **CALL)
    hook_task = asyncio.ensure_future(tell("PermissionRequest", **BASH))
    await waiting()
    await tell("PostToolUse", **CALL, tool_response="ran")
    assert await asyncio.wait_for(hook_task, PATIENCE) == {}
    call_card = await card()
    assert (call_card.state, call_card.approval.state, call_card.approval.by.kind) == (
        "output-available",
        "approved",
        "host",
    )
    assert call_card.anomalies == ()


async def test_an_unanswered_question_of_the_program_stays_with_the_program(
    tell: Any, under: Any, an_approver: Any
) -> None:
    await under(OPEN)
    await tell("PreToolUse", **CALL)
    assert await asyncio.wait_for(tell("PermissionRequest", query="?limit=1", **BASH), PATIENCE) == {}
    assert not (await card()).waiting
    await tell("PostToolUse", **CALL, tool_response="ran")
    assert ((await card()).state, (await card()).anomalies) == ("output-available", ())


async def test_without_anybody_to_answer_the_program_is_not_kept_waiting(tell: Any, under: Any) -> None:
    await under(OPEN)
    await tell("PreToolUse", **CALL)
    assert await asyncio.wait_for(tell("PermissionRequest", **BASH), PATIENCE) == {}


async def test_a_persons_yes_answers_the_programs_question_too(tell: Any, under: Any, an_approver: Any) -> None:
    await under({"default": "ask"})
    hook_task = asyncio.ensure_future(tell("PreToolUse", **CALL))
    await answer(an_approver, "approve")
    await hook_task
    assert (await tell("PermissionRequest", **BASH))["decision"] == ALLOW


@pytest.mark.parametrize("tool_input", [{}, {"plan": "1. Look. 2. Write."}])
@pytest.mark.parametrize("is_announced", [True, False])
async def test_an_allow_of_a_permission_request_repeats_the_input(
    tell: Any, under: Any, an_approver: Any, tool_input: Any, is_announced: bool
) -> None:
    """ExitPlanMode stays blocked after an allow without it."""
    await under(OPEN)
    call = {"tool_name": "ExitPlanMode", "tool_input": tool_input, "permission_mode": "plan"}
    if is_announced:
        assert await tell("PreToolUse", **call, tool_use_id="t") == {}
    hook_task = asyncio.ensure_future(tell("PermissionRequest", **call))
    await answer(an_approver, "approve")
    decision = {"behavior": "allow", "updatedInput": tool_input}
    assert (await hook_task)["decision"] == decision
    assert (await tell("PermissionRequest", **call))["decision"] == decision  # the same request again
    assert await ToolCall.objects.acount() == 1


async def test_a_permission_request_with_an_own_reason_shows_it(tell: Any, under: Any, an_approver: Any) -> None:
    await under(OPEN)
    await tell("PreToolUse", **CALL)
    hook_task = asyncio.ensure_future(tell("PermissionRequest", **BASH, description="network-access example.com"))
    await answer(an_approver, "approve")
    assert (await hook_task)["decision"] == ALLOW
    assert ((await card()).call_id, (await card()).approval.request_reason) == ("toolu_1", "network-access example.com")


async def test_a_further_question_about_an_approved_call_is_asked_and_ends_with_the_call(
    tell: Any, under: Any, an_approver: Any
) -> None:
    await under({"default": "ask"})
    hook_task = asyncio.ensure_future(tell("PreToolUse", **CALL))
    await answer(an_approver, "approve")
    await hook_task
    requests = [{**BASH, "description": reason} for reason in ("network-access a.example", "network-access b.example")]
    for request, decision in zip(requests, ("approve", "deny"), strict=True):
        hook_task = asyncio.ensure_future(tell("PermissionRequest", **request))
        await answer(an_approver, decision)
        behavior = (await hook_task)["decision"]["behavior"]
        assert behavior == {"approve": "allow", "deny": "deny"}[decision]
        assert (await tell("PermissionRequest", **request))["decision"]["behavior"] == behavior
    assert (await tell("PermissionRequest", **BASH))["decision"] == ALLOW  # about the call itself
    await tell("PostToolUse", **CALL, tool_response="ran")
    cards = [row.as_card() async for row in ToolCall.objects.order_by("ordinal")]
    states = [(each.state, each.parent_call, each.anomalies) for each in cards]
    assert states == [
        ("output-available", "", ()),
        ("output-available", "toolu_1", ()),
        ("output-denied", "toolu_1", ()),
    ]


async def test_an_earlier_call_answers_no_permission_request_of_a_later_one(
    tell: Any, under: Any, an_approver: Any
) -> None:
    await under(OPEN)
    request = {**BASH, "description": "network-access a.example"}
    for call_id in ("toolu_1", "toolu_2"):
        await tell("PreToolUse", **BASH, tool_use_id=call_id)
        hook_task = asyncio.ensure_future(tell("PermissionRequest", **request))
        assert (await waiting()).call_id == call_id
        await answer(an_approver, "approve")
        await hook_task
        await tell("PostToolUse", **BASH, tool_use_id=call_id, tool_response="ran")


async def test_a_call_that_the_program_refused_is_tried_again_once_if_a_person_lets_it(
    tell: Any, under: Any, an_approver: Any
) -> None:
    await under(OPEN)
    assert await tell("PreToolUse", **CALL) == {}
    assert await tell("PermissionDenied", **CALL, reason="too risky") == {}
    call_card = await card()
    assert (call_card.state, call_card.denied_by.kind, call_card.denied) == ("output-denied", "host", "too risky")
    row = await ToolCall.objects.aget()
    answer_refusal = in_thread(
        lambda: gate.answer_refusal(an_approver, gate.RefusalAnswer(row.run_id, 1, True, row.rev))
    )
    await answer_refusal()
    other = BASH | {"tool_input": {"command": "git push --tags"}}
    assert await tell("PreToolUse", **other, tool_use_id="toolu_2") == {}
    assert (await tell("PreToolUse", **BASH, tool_use_id="toolu_3"))["permissionDecision"] == "allow"
    assert await tell("PreToolUse", **BASH, tool_use_id="toolu_4") == {}


async def let_it_try_again(tell: Any, person: Any, **more: Any) -> None:
    """Have the program refuse the call, and a person let it try again."""
    await tell("PreToolUse", **CALL, **more)
    await tell("PermissionDenied", **CALL, reason="too risky", **more)
    row = await ToolCall.objects.aget(call_id="toolu_1")
    retry = gate.RefusalAnswer(row.run_id, row.ordinal, True, row.rev)
    await in_thread(lambda: gate.answer_refusal(person, retry))()


@pytest.mark.parametrize("event", sorted(NOTE_EVENTS))
async def test_the_agent_hears_once_that_it_may_try_again(tell: Any, under: Any, an_approver: Any, event: str) -> None:
    await under(OPEN)
    fields = {"tool_name": "Read", "tool_input": {}, "tool_use_id": "toolu_9", "tool_response": "x", "error": "x"}
    fields = fields if "Tool" in event else {"prompt": "go"}
    assert await tell(event, **fields) == {}
    await let_it_try_again(tell, an_approver)
    output = await tell(event, **fields)
    text = output["reason"] if event == "Stop" else output["additionalContext"]
    assert '{"command": "git push"}' in text and "once" in text
    assert output.get("decision") == ("block" if event == "Stop" else None)
    assert await tell(event, **fields) == {}
    denied = (await ToolCall.objects.aget(call_id="toolu_1")).as_card()
    assert (denied.retry, denied.retry_by.name) == ("announced", "ann")
    assert (await tell("PreToolUse", **BASH, tool_use_id="toolu_3"))["permissionDecision"] == "allow"


async def test_a_sub_agent_hears_what_it_may_try_again(tell: Any, under: Any, an_approver: Any) -> None:
    await under(OPEN)
    await let_it_try_again(tell, an_approver, agent_id="sub", agent_type="helper")
    assert await tell("Stop") == {}
    read = {"tool_name": "Read", "tool_input": {}, "tool_use_id": "toolu_9", "tool_response": "x"}
    assert "additionalContext" in await tell("PostToolUse", **read, agent_id="sub")


async def test_a_dismissed_refusal_is_not_announced(tell: Any, under: Any, an_approver: Any) -> None:
    await under(OPEN)
    await tell("PreToolUse", **CALL)
    await tell("PermissionDenied", **CALL, reason="too risky")
    row = await ToolCall.objects.aget()
    await in_thread(lambda: gate.answer_refusal(an_approver, gate.RefusalAnswer(row.run_id, 1, False, row.rev)))()
    assert await tell("Stop") == {}


async def test_a_denied_call_is_denied_again_when_the_program_asks(tell: Any, under: Any) -> None:
    await under({"default": "deny"})
    await tell("PreToolUse", **CALL)
    assert (await tell("PermissionRequest", **BASH))["decision"]["behavior"] == "deny"


async def test_the_same_hook_twice_is_one_question(tell: Any, under: Any, an_approver: Any) -> None:
    await under({"default": "ask"})
    hook_tasks = [asyncio.ensure_future(tell("PreToolUse", **CALL)) for _ in range(2)]
    await answer(an_approver, "approve")
    assert [(await one)["permissionDecision"] for one in hook_tasks] == ["allow", "allow"]
    assert await Approval.objects.acount() == 1


async def test_a_deferred_call_is_evaluated_again_with_its_session(tell: Any, under: Any, an_approver: Any) -> None:
    await under("watch")
    await tell("PreToolUse", **CALL)
    await tell("SessionEnd", reason="other")
    assert (await card()).cause == "aborted"
    await under({"default": "deny"})
    assert (await tell("PreToolUse", **CALL))["permissionDecision"] == "deny"


@pytest.mark.parametrize(
    "value", [{"a": 9007199254740993}, {"a": "x" * 300_000}, {"a": json.loads("[" * 60 + "]" * 60)}],
    ids=["a number too large", "too long", "too deep"],
)  # fmt: skip
async def test_an_input_that_cannot_be_judged_is_denied_with_a_200(tell: Any, under: Any, value: Any) -> None:
    await under("watch")
    result = await tell("PreToolUse", tool_name="Bash", tool_use_id="t", tool_input=value)
    assert result["permissionDecision"] == "deny"


async def test_without_a_policy_everything_is_denied(tell: Any, db: None) -> None:
    assert (await tell("PreToolUse", **CALL))["permissionDecision"] == "deny"


async def test_a_fault_of_ours_is_a_denial_too(tell: Any, under: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolcards.gate.writer import group_commit

    await under("watch")
    monkeypatch.setattr(group_commit.WRITER, "enqueue", None)
    result = await tell("PreToolUse", **CALL)
    monkeypatch.undo()
    assert result["permissionDecision"] == "deny"
    assert "an internal error occurred" in result["permissionDecisionReason"]


async def test_a_result_too_long_to_keep_ends_its_card(tell: Any, under: Any) -> None:
    await under("watch")
    await tell("PreToolUse", **CALL)
    assert await tell("PostToolUse", **CALL, tool_response="x" * 2_000_000) == {}
    call_card = await card()
    assert (call_card.state, "too long" in call_card.output) == ("output-available", True)


async def test_an_interrupted_session_leaves_nothing_open(tell: Any, under: Any) -> None:
    await under("watch")
    await tell("PreToolUse", **CALL)
    await tell("SessionEnd", reason="other")
    assert ((await card()).state, (await card()).cause, (await Run.objects.aget()).status) == (
        "output-error",
        "aborted",
        "aborted",
    )


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("{", 400, "not_json"),
        ("[]", 400, "not_object"),
        ('{"hook_event_name":"Stop"}', 400, "missing_field"),
        ('{"hook_event_name":' + "[" * 5000, 413, "too_deep"),
        ('{"hook_event_name":"Stop","session_id":"s","more":' + "[" * 20_000 + "]" * 20_000 + "}", 413, "too_deep"),
    ],
)
async def test_what_no_claude_code_ever_sent_is_refused(call: Any, body: str, status: int, code: str) -> None:
    result, response, _ = await call("POST", HOOKS, body)
    assert (result, response["error"]["code"]) == (status, code)


async def test_hooks_need_a_key_that_may_ingest_and_ask(call: Any, under: Any) -> None:
    assert (await call("POST", HOOKS, hook("Stop"), key=None))[0] == 401
    _, secret = await in_thread(lambda: AgentKey.objects.issue("half", ("ingest",)))()
    assert (await call("POST", HOOKS, hook("Stop"), key=secret))[0] == 403


async def test_events_of_the_future_are_welcome(tell: Any, under: Any) -> None:
    assert await tell("FromTheFuture") == {}


async def test_a_hook_whose_key_was_revoked_while_it_waited_is_denied(
    tell: Any, under: Any, an_approver: Any, key: AgentKey
) -> None:
    await under({"default": "ask"})
    hook_task = asyncio.ensure_future(tell("PreToolUse", **CALL))
    await waiting()
    await in_thread(lambda: AgentKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now()))()
    await answer(an_approver, "approve")
    value = await hook_task
    assert (value["permissionDecision"], "revoked" in value["permissionDecisionReason"]) == ("deny", True)


@pytest.mark.slow
@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
async def test_a_hook_whose_key_is_revoked_is_denied_before_anyone_answers(
    tell: Any, under: Any, an_approver: Any, key: AgentKey, event: str
) -> None:
    await under({"default": "ask"})
    hook_task = asyncio.ensure_future(tell(event, **CALL))
    await waiting()
    await in_thread(lambda: AgentKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now()))()
    async with asyncio.timeout(PATIENCE):
        while not hook_task.done():
            await check_connections()  # as the clock does
            await asyncio.sleep(0.05)
    assert "deny" in str(hook_task.result()) and "revoked" in str(hook_task.result())
    assert not await ToolCall.objects.filter(waiting=True).aexists()


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
async def test_a_question_is_kept_open_while_its_hook_waits_and_ends_without_its_process(
    tell: Any, under: Any, an_approver: Any, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def let_hold_pass() -> None:
        with allow_log_writes():
            Approval.objects.update(held_until=F("held_until") - holds.HOLD_LEASE)

    await under({"default": "ask"})
    hook_task = asyncio.ensure_future(tell(event, **CALL))
    await waiting()
    async with asyncio.timeout(PATIENCE):
        while not connections._held_approvals:
            await asyncio.sleep(0.01)
    await in_thread(let_hold_pass)()
    monkeypatch.setattr(connections, "_holds_renewed", -connections.HOLD_SECONDS)
    await connections.renew_holds()  # as the clock does
    assert await in_thread(gate.sweep)() == 0 and not hook_task.done()
    await in_thread(let_hold_pass)()
    assert await in_thread(gate.sweep)() == 1  # as another process does, once this one is gone
    assert "allow" not in str(await hook_task) and not connections._held_approvals
    assert not await ToolCall.objects.filter(waiting=True).aexists()


# ---------------------------------------------------------------- the project
INSIDE = {
    "default": "deny",
    "rules": [{"id": "in", "effect": "allow", "match": {"args": [{"path": "", "op": "inside_project"}]}}],
}
ROOT = "/home/ann/shop"


async def test_the_folder_of_the_first_hook_is_the_project(tell: Any, under: Any) -> None:
    await under(INSIDE)
    await tell("UserPromptSubmit", prompt="Go", cwd=ROOT)
    rows = [
        (ROOT, "a.py", "allow"), (f"{ROOT}/src", "a.py", "allow"), (f"{ROOT}/src", "../a.py", "deny"),
        (f"{ROOT}/src", f"{ROOT}/a.py", "allow"), ("/home/ann", "a.py", "deny"), ("/", "/etc/a", "deny"),
        ("/home/ann/other", "/home/ann/other/a", "deny"), (None, "a.py", "deny"), ("src", "a.py", "deny"),
        (5, "a.py", "deny"), (ROOT, f"{ROOT}/.git/config", "deny"),
    ]  # fmt: skip
    for number, (folder, file, expected) in enumerate(rows):
        call = {"tool_name": "Edit", "tool_input": {"file_path": file}, "tool_use_id": f"toolu_{number}"}
        output = await tell("PreToolUse", cwd=folder, **call)
        assert (output["permissionDecision"], folder, file) == (expected, folder, file)


async def test_a_program_that_begins_at_home_has_no_project(tell: Any, under: Any) -> None:
    await under(INSIDE)
    for number, folder in enumerate(["/home/ann", ROOT, "/"]):
        call = {"tool_name": "Edit", "tool_input": {"file_path": f"{ROOT}/a"}, "tool_use_id": f"toolu_{number}"}
        assert (await tell("PreToolUse", cwd=folder, **call))["permissionDecision"] == "deny"


async def keep_asking(tell: Any, call_id: str = "toolu_1", **more: Any) -> Any:
    return await tell("PreToolUse", query="?limit=1&ask_again=1", **(CALL | {"tool_use_id": call_id} | more))


@pytest.mark.slow
async def test_a_question_outlives_a_short_hook_and_the_same_call_gets_the_answer(
    tell: Any, under: Any, an_approver: Any
) -> None:
    await under({"default": "ask"})
    for _ in range(2):
        value = await keep_asking(tell)
        assert value["permissionDecision"] == "deny" and "call the same tool again" in value["permissionDecisionReason"]
    row = await Approval.objects.aget()
    assert (row.state, row.held_until) == ("pending", 0) and row.expires_at - row.requested_at > 600
    assert CardView(await card()).return_visit == "After 1 s, tell Claude Code to try again"
    await answer(an_approver, "approve")
    assert (await keep_asking(tell))["permissionDecision"] == "allow"
    assert (await card()).approval.state == "claimed" and await Approval.objects.acount() == 1


async def test_a_question_that_outlived_its_hook_is_denied_with_the_reason(
    tell: Any, under: Any, an_approver: Any
) -> None:
    await under({"default": "ask"})
    await keep_asking(tell)
    await answer(an_approver, "deny", reason="Not on a Friday.")
    value = await keep_asking(tell)
    assert value["permissionDecision"] == "deny" and "Not on a Friday." in value["permissionDecisionReason"]


async def test_a_policy_that_denies_meanwhile_wins_over_an_approval_that_outlived_its_hook(
    tell: Any, under: Any, an_approver: Any
) -> None:
    await under({"default": "ask"})
    await keep_asking(tell)
    await answer(an_approver, "approve")
    await under({"default": "deny"})
    assert (await keep_asking(tell))["permissionDecision"] == "deny"
    assert (await card()).state == "output-denied"


@pytest.mark.slow
async def test_a_changed_call_under_the_id_of_a_question_gets_no_answer_of_it(
    tell: Any, under: Any, an_approver: Any
) -> None:
    await under({"default": "ask"})
    await keep_asking(tell)
    await answer(an_approver, "approve")
    value = await keep_asking(tell, tool_input={"command": "git push --force"})
    assert value["permissionDecision"] == "deny"
