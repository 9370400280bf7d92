"""Gating over HTTP, as an agent goes through it."""

from __future__ import annotations

import asyncio
import json
import time
from html import escape
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.test import Client
from django.utils import timezone

from tests.support.answer_waits import wait_for_waits
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.models import AgentKey, Approval, ToolCall
from toolcards.transports.background import connections

pytestmark = pytest.mark.django_db(transaction=True)
DECIDE = "/api/v1/calls/decide"
QUESTION = {"run": "r", "call_id": "c", "tool": {"name": "bash"}, "args": {"command": "git push"}}


@pytest.fixture
def asks(policy: Any, an_approver: Any) -> None:
    policy({"default": "ask"})


async def vote(person: Any, ballot: Any, decision: str = "approve") -> None:
    await in_thread(lambda: gate.vote(person, ballot(ToolCall.objects.get(), decision)))()


async def test_the_whole_way_of_an_approved_call(call: Any, asks: None, an_approver: Any, ballot: Any) -> None:
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    assert (decision["decision"], decision["approval"]["state"], decision["permit"]) == ("ask", "pending", None)
    await vote(an_approver, ballot)
    _, allowed, _ = await call("GET", decision["approval"]["poll"])
    assert (allowed["decision"], allowed["by"]["kind"]) == ("allow", "human")
    claim = f"/api/v1/permits/{allowed['permit']['id']}/claim"
    proof = {"call_id": "c", "args_sha256": decision["args_sha256"]}
    assert (await call("POST", claim, proof | {"args_sha256": "0" * 64}))[0] == 412
    assert (await call("POST", claim, proof))[0] == 200
    status, answer, _ = await call("POST", claim, proof)
    assert (status, answer["error"]["code"]) == (410, "used")
    fields = {"run": "r", "outcome": "ok", "output": "pushed"}
    for _ in range(2):
        status, answer, _ = await call("POST", "/api/v1/calls/c/result", fields)
        assert (status, answer["state"]) == (200, "output-available")
    assert (await Approval.objects.aget()).state == "succeeded"


async def test_the_note_of_the_agent_is_shown_on_the_card(
    call: Any, asks: None, client: Client, an_approver: Any
) -> None:
    note = "The customer <b>asked</b>; password=hunter2hunter2"
    status, _, _ = await call("POST", DECIDE, QUESTION | {"agent_note": note})
    await in_thread(client.force_login)(an_approver)
    page = await in_thread(lambda: client.get("/approvals/").content.decode())()
    assert status == 200 and "Agent says:" in page and "The customer &lt;b&gt;asked&lt;/b&gt;" in page
    assert "hunter2" not in page
    _, answer, _ = await call("GET", "/api/v1/runs/r/calls")
    assert [(one["tool"]["title"], one["agent_note"][:12]) for one in answer["calls"]] == [("", "The customer")]
    assert "hunter2" not in answer["calls"][0]["agent_note"]


async def test_a_note_and_a_title_of_the_tool_are_both_shown(
    call: Any, asks: None, client: Client, an_approver: Any
) -> None:
    tool = {"name": "b", "title": "Shell"}
    await call("POST", DECIDE, QUESTION | {"call_id": "d", "agent_note": "x" * 500, "tool": tool})
    card = (await ToolCall.objects.aget(call_id="d")).as_card()
    assert card.tool.title == "Shell" and card.agent_note == "x" * 500
    await in_thread(client.force_login)(an_approver)
    page = await in_thread(lambda: client.get("/approvals/").content.decode())()
    assert "Title:</span> Shell<" in page and f"Agent says:</span> {'x' * 500}<" in page


@pytest.mark.parametrize("length", [501, 19_000, 30_000])
async def test_a_long_note_is_whole_while_the_call_waits_and_a_later_cut_is_stated(
    call: Any, asks: None, client: Client, an_approver: Any, length: int
) -> None:
    note = "x" * (length - 3) + "<b>"
    decision = (await call("POST", DECIDE, QUESTION | {"call_id": "d", "agent_note": note}))[1]
    row = await ToolCall.objects.select_related("run__source").aget(call_id="d")
    kept_note = note[:20_000]
    assert row.as_card().agent_note == kept_note
    await in_thread(client.force_login)(an_approver)
    page = await in_thread(lambda: client.get("/approvals/").content.decode())()
    assert f'Agent says:</span><pre class="text">{escape(kept_note)}</pre>' in page
    await call("POST", f"/api/v1/approvals/{decision['approval']['id']}/withdraw", {})
    run_page = await in_thread(lambda: client.get(f"/runs/{row.run.name}/").content.decode())()
    assert (f"Show all {len(kept_note)} characters" in run_page) is (length > 2_000)
    whole = await in_thread(lambda: client.get(f"/calls/{row.public_id}/").content.decode())()
    assert escape(kept_note) in whole and "not shown here" not in whole


@pytest.mark.slow
@pytest.mark.parametrize("way", ["decide", "poll"])
async def test_a_held_request_ends_once_its_key_is_revoked(call: Any, asks: None, key: AgentKey, way: str) -> None:
    body = QUESTION | ({"wait_ms": 60_000} if way == "decide" else {})
    held_request = asyncio.ensure_future(call("POST", DECIDE, body))
    if way == "poll":
        _, decision, _ = await held_request
        held_request = asyncio.ensure_future(call("GET", f"/api/v1/approvals/{decision['approval']['id']}?wait=60"))
    async with asyncio.timeout(PATIENCE):
        while not connections.connections:
            await asyncio.sleep(0.01)
        await in_thread(lambda: AgentKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now()))()
        while not held_request.done():
            await connections.check_connections()  # as the clock does
            await asyncio.sleep(0.01)
    status, answer, _ = held_request.result()
    assert (status, answer["error"]["message"]) == (401, "This key was revoked.") and not connections.connections


async def test_a_long_poll_returns_when_a_person_has_answered(
    call: Any, asks: None, an_approver: Any, ballot: Any
) -> None:
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    polling = asyncio.ensure_future(call("GET", f"/api/v1/approvals/{decision['approval']['id']}?wait=3600"))
    await wait_for_waits(decision["approval"]["id"])
    assert not polling.done()
    await vote(an_approver, ballot, "deny")
    status, result, _ = await asyncio.wait_for(polling, PATIENCE)
    assert (status, result["decision"], result["reason"]["code"]) == (200, "deny", "approval_denied")


async def test_the_question_itself_may_wait(call: Any, asks: None, an_approver: Any, ballot: Any) -> None:
    decision = asyncio.ensure_future(call("POST", DECIDE, QUESTION | {"wait_ms": 60_000}))
    while not await Approval.objects.aexists():
        await asyncio.sleep(0.05)
    await vote(an_approver, ballot)
    _, value, _ = await decision
    assert value["decision"] == "allow"
    assert value["permit"]


async def test_waiting_ends_unanswered(call: Any, asks: None) -> None:
    start = time.monotonic()
    _, decision, _ = await call("POST", DECIDE, QUESTION | {"wait_ms": 300})
    assert decision["decision"] == "ask"
    assert time.monotonic() - start > 0.25


async def test_who_cannot_wait_is_denied_at_once(call: Any, asks: None) -> None:
    _, decision, _ = await call("POST", DECIDE, QUESTION | {"can_wait": False, "wait_ms": 10_000})
    assert (decision["decision"], decision["by"]["kind"]) == ("deny", "no_approver")


async def test_an_approval_held_back_is_not_told_yet(
    call: Any, asks: None, an_approver: Any, ballot: Any, limits: Any
) -> None:
    limits(handover_seconds=3600)
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    await vote(an_approver, ballot)
    path = f"/api/v1/approvals/{decision['approval']['id']}"
    _, body, _ = await call("GET", path)
    assert (body["decision"], body["permit"], body["reason"]["code"]) == ("ask", None, "answer_held")
    _, again, _ = await call("POST", DECIDE, QUESTION)
    assert (again["decision"], again["reason"]["code"]) == ("ask", "answer_held")
    assert "held until it can no longer be undone" in again["reason"]["text"]
    limits(handover_seconds=0.8)
    _, body, _ = await call("GET", path + "?wait=60")
    assert body["decision"] == "allow"
    assert body["permit"]


async def test_a_rules_yes_carries_a_permit(call: Any, policy: Any) -> None:
    await in_thread(policy)("watch")
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    assert decision["decision"] == "allow"
    proof = {"call_id": "c", "args_sha256": decision["args_sha256"]}
    assert (await call("POST", f"/api/v1/permits/{decision['permit']['id']}/claim", proof))[0] == 200


async def test_what_belongs_to_another_source_is_not_there(call: Any, asks: None) -> None:
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    _, other = await in_thread(AgentKey.objects.issue)("somebody else")
    mine = decision["approval"]["id"]
    for method, path, body in [
        ("GET", f"/api/v1/approvals/{mine}", None),
        ("POST", f"/api/v1/approvals/{mine}/withdraw", {}),
        ("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok"}),
        ("POST", "/api/v1/runs/r/beat", {}),
        ("POST", "/api/v1/runs/r/end", {}),
        ("GET", "/api/v1/runs/r", None),
        ("GET", "/api/v1/runs/r/calls", None),
        ("GET", "/api/v1/runs/r/events", None),
    ]:
        status, answer, _ = await call(method, path, body, key=other)
        assert (status, answer["error"]["code"]) == (404, "not_found"), path
    assert (await call("GET", "/api/v1/approvals", key=other))[1]["approvals"] == []
    assert (await Approval.objects.aget()).state == "pending"


@pytest.mark.parametrize(
    ("scopes", "method", "path"),
    [
        (("read", "ingest", "result"), "POST", DECIDE),
        (("read", "ingest", "result"), "GET", "/api/v1/approvals/apr_1"),
        (("read", "ingest", "result"), "POST", "/api/v1/permits/prm_1/claim"),
        (("read", "ingest", "result"), "POST", "/api/v1/approvals/apr_1/withdraw"),
        (("read", "ingest", "decide"), "POST", "/api/v1/calls/c/result"),
        (("ingest", "decide", "result"), "GET", "/api/v1/runs"),
        (("read", "result"), "POST", "/api/v1/runs/r/end"),
    ],
)
async def test_a_key_does_what_its_scopes_say(call: Any, key: Any, scopes: Any, method: str, path: str) -> None:
    _, secret = await in_thread(AgentKey.objects.issue)("limited", scopes)
    status, decision, _ = await call(method, path, QUESTION if method == "POST" else None, key=secret)
    assert (status, decision["error"]["code"]) == (403, "scope")


async def test_a_withdrawn_question_can_no_longer_be_answered(
    call: Any, asks: None, an_approver: Any, ballot: Any
) -> None:
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    tool_call = await in_thread(lambda: ballot(ToolCall.objects.get(), "approve"))()
    assert (await call("POST", f"/api/v1/approvals/{decision['approval']['id']}/withdraw", {}))[0] == 200
    with pytest.raises(gate.TooLate):
        await in_thread(gate.vote)(an_approver, tool_call)
    _, body, _ = await call("GET", decision["approval"]["poll"])
    assert (body["decision"], body["permit"]) == ("deny", None)


async def test_the_end_of_a_run_withdraws_its_questions(call: Any, asks: None) -> None:
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    status, body, _ = await call("POST", "/api/v1/runs/r/end", {"outcome": "aborted", "reason": "enough"})
    assert (status, body["status"]) == (200, "aborted")
    _, body, _ = await call("GET", f"/api/v1/approvals/{decision['approval']['id']}")
    assert (body["decision"], body["approval"]["state"]) == ("deny", "cancelled")


async def test_a_result_without_a_permit_is_noted(call: Any, asks: None) -> None:
    await call("POST", DECIDE, QUESTION)
    await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok"})
    card = await in_thread(lambda: ToolCall.objects.get().as_card())()
    assert "ungoverned" in {code for code, _ in card.anomalies}


async def test_a_failure_may_say_how_long_to_wait(call: Any, asks: None) -> None:
    await call("POST", DECIDE, QUESTION)
    error = {"message": "busy", "code": "upstream", "after_ms": 3000}
    await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "error", "error": error})
    assert (await in_thread(lambda: ToolCall.objects.get().as_card())()).error.after_ms == 3000
    wrong = {"run": "r", "outcome": "error", "error": error | {"after_ms": -1}}
    assert (await call("POST", "/api/v1/calls/c/result", wrong))[0] == 422


@pytest.mark.parametrize("output", ["x" * (1 << 20), json.loads("[" * 40 + "]" * 40)], ids=["long", "deep"])
async def test_an_output_beyond_the_limits_is_an_error_of_a_tool_that_ran(
    call: Any, asks: None, an_approver: Any, ballot: Any, output: Any
) -> None:
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    await vote(an_approver, ballot)
    _, allowed, _ = await call("GET", decision["approval"]["poll"])
    proof = {"call_id": "c", "args_sha256": decision["args_sha256"]}
    await call("POST", f"/api/v1/permits/{allowed['permit']['id']}/claim", proof)
    fields = {"run": "r", "outcome": "ok", "output": output}
    for _ in range(2):
        status, listing, _ = await call("POST", "/api/v1/calls/c/result", fields)
        assert (status, listing["state"]) == (200, "output-error")
    card = await in_thread(lambda: ToolCall.objects.get().as_card())()
    assert (card.error.code, card.error.phase, card.error.authority, card.error.retryable) == (
        "bad_output", "output", "tool", False,
    )  # fmt: skip
    assert (await Approval.objects.aget()).state == "failed" and not card.has_output and card.anomalies == ()


async def test_a_beat_says_how_long_it_lasts(call: Any, asks: None) -> None:
    await call("POST", DECIDE, QUESTION)
    status, body, _ = await call("POST", "/api/v1/runs/r/beat", {})
    assert (status, body["run"]) == (200, "r")
    assert body["lease_seconds"] > 0


BIG = {"command": "x" * 300_000}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("", 400, "not_json"),
        ("nonsense", 400, "not_json"),
        ("[]", 400, "not_object"),
        ('{"run": "r", "run": "s"}', 400, "duplicate_key"),
        ('{"run": "r", "args": NaN}', 400, "not_json"),
        ('{"run": "r", "args": ' + "[" * 5000, 413, "too_deep"),
        ('{"run": "r", "args": ' + "[" * 60 + "]" * 60 + "}", 413, "too_deep"),
        ("x" * 9_000_000, 413, "too_large"),
        (QUESTION | {"args": BIG}, 413, "too_large"),
        ({"run": "r"}, 422, "invalid_args"),
        (QUESTION | {"run": ""}, 422, "invalid_args"),
        (QUESTION | {"call_id": 7}, 422, "invalid_args"),
        (QUESTION | {"wait_ms": -1}, 422, "invalid_args"),
        (QUESTION | {"run": "a\nb"}, 400, "bad_run"),
        (QUESTION | {"args_sha256": "0" * 64}, 422, "invalid_args"),
        (QUESTION | {"args": {"n": 2**60}}, 422, "invalid_args"),
        (QUESTION | {"args": {"s": "\ud800"}}, 422, "invalid_args"),
    ],
)
async def test_bad_questions_are_answered_in_the_contracts_words(
    call: Any, asks: None, body: Any, status: int, code: str
) -> None:
    actual, decision, _ = await call("POST", DECIDE, body)
    assert (actual, decision["error"]["code"]) == (status, code)
    assert not await Approval.objects.aexists()


@pytest.mark.parametrize("path", ["/api/v1/approvals/apr_none", "/api/v1/approvals/alw_1-1"])
async def test_an_approval_that_is_not_there_is_404(call: Any, key: Any, path: str) -> None:
    assert (await call("GET", path))[0] == 404


async def test_other_methods_are_refused(call: Any, key: Any) -> None:
    for method, path in [("GET", DECIDE), ("DELETE", "/api/v1/runs"), ("POST", "/api/v1/approvals/x")]:
        status, body, headers = await call(method, path)
        assert (status, body["error"]["code"]) == (405, "method_not_allowed")
        assert headers["allow"]


# ---------------------------------------------------------------- the project
INSIDE = {
    "default": "deny",
    "rules": [{"id": "in", "effect": "allow", "match": {"args": [{"path": "", "op": "inside_project"}]}}],
}
ROOT = "/home/ann/shop"


def edit(call_id: str, file: str, **more: Any) -> dict[str, Any]:
    return {"run": "r", "call_id": call_id, "tool": "Edit", "args": {"file_path": file}} | more


async def test_the_first_root_of_a_run_is_its_project_whatever_comes_later(call: Any, policy: Any) -> None:
    await in_thread(policy)(INSIDE)
    requests = [
        (edit("1", "a.py"), "deny"),  # the run has no project
        (edit("2", "a.py", root=ROOT), "allow"),
        (edit("3", "a.py"), "allow"),
        (edit("4", f"{ROOT}/a.py"), "allow"),
        (edit("5", "/home/ann/other/a.py", root="/home/ann/other"), "deny"),
        (edit("6", "a.py", root="/home/ann/other"), "deny"),  # relative to a folder outside
        (edit("7", "/etc/a", root="/"), "deny"),
        (edit("8", "a.py", root=f"{ROOT}/src"), "allow"),
        (edit("9", "/etc/a"), "deny"),
    ]
    for body, expected in requests:
        assert ((await call("POST", DECIDE, body))[1]["decision"], body) == (expected, body)
    cards = [row.as_card() async for row in ToolCall.objects.order_by("ordinal")]
    moments = [card.decision.moment for card in cards]
    assert [moment.get("root", "") for moment in moments] == ["", *[ROOT] * 8]
    assert [moment.get("folder", "") for moment in moments][4:8] == [
        "/home/ann/other",
        "/home/ann/other",
        "/",
        f"{ROOT}/src",
    ]


@pytest.mark.parametrize(
    "root", ["shop", "~/shop", "./a", "/a\nb", "/" + "a" * 5_000, "/a\u202eb", "/\ud800", 5, ["/a"], None]
)
async def test_a_root_that_is_no_absolute_path_is_refused(call: Any, asks: None, root: Any) -> None:
    status, answer, _ = await call("POST", DECIDE, QUESTION | {"root": root})
    assert (status, answer["error"]["code"], answer["error"]["detail"]["pointer"]) == (422, "invalid_args", "/root")
    assert not await ToolCall.objects.aexists()


@pytest.mark.parametrize("root", ["/", "/home/ann", "/home/ann/shop/..", "/etc", "/home/ann/*"])
async def test_a_folder_that_is_no_project_contains_nothing(call: Any, policy: Any, root: str) -> None:
    await in_thread(policy)(INSIDE)
    for number, file in enumerate(["a.py", f"{root}/a.py", "/home/ann/shop/a.py"]):
        assert (await call("POST", DECIDE, edit(str(number), file, root=root)))[1]["decision"] == "deny"
