"""A judged call over HTTP: one value for page, vote, permit and claim, whatever frames say meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.test import Client

from tests.support.gated_calls import ALLOW, ASK, DECIDE, QUESTION
from toolcards import gate
from toolcards.client.common.canonical_json import digest
from toolcards.models import AgentKey, Approval, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)
INGEST = "/api/v1/ingest?protocol=native&run=r"
OTHER = {"type": "tool.input.available", "call_id": "c", "tool": "bash", "input": {"command": "ls"}}


def claim_of(decision: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the address and the body with which the decision's permit is claimed."""
    body = {"call_id": decision["call_id"], "args_sha256": decision["args_sha256"], "claim_id": "mine"}
    return f"/api/v1/permits/{decision['permit']['id']}/claim", body


def sign_in(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


async def test_a_decision_names_the_whole_call_and_binds_its_permit_to_it(call: Any, policy: Any) -> None:
    await in_thread(policy)({"rules": [ALLOW]})
    tool = {"name": "bash", "source": "builtin", "schema_sha256": "ab"}
    _, decision, _ = await call("POST", DECIDE, QUESTION | {"tool": tool})
    tool_name = {"name": "bash", "source": "builtin"}
    assert decision["tool"] == tool_name
    assert decision["call_sha256"] == digest({"args": QUESTION["args"], "schema_sha256": "ab", "tool": tool_name})
    path, body = claim_of(decision)
    body |= {"schema_sha256": "ab"}
    for wrong in (
        {"tool": "rm"}, {"tool": {"name": "bash", "source": "evil"}}, {"call_sha256": "0" * 64}, {"attempt": 2},
        {"call_id": "d"}, {"args_sha256": "0" * 64},
    ):  # fmt: skip
        status, answer, _ = await call("POST", path, body | wrong)
        assert (status, answer["error"]["code"]) == (412, "args_mismatch"), wrong
    right = {"tool": tool_name, "call_sha256": decision["call_sha256"], "attempt": 1}
    status, answer, _ = await call("POST", path, body | right)
    assert status == 200
    assert answer | {"permit": ""} == {
        "permit": "", "state": "claimed", "run": "r", "call_id": "c", "attempt": 1, "tool": tool_name,
        "args": QUESTION["args"], "args_sha256": decision["args_sha256"], "call_sha256": decision["call_sha256"],
    }  # fmt: skip


@pytest.mark.parametrize(
    "change", [{"tool": "deploy"}, {"tool": {"name": "bash", "source": "evil"}}, {"args": {"command": "ls"}}]
)
async def test_another_tool_server_or_input_is_no_repetition_of_the_question(
    call: Any, policy: Any, change: dict[str, Any]
) -> None:
    await in_thread(policy)({"default": "deny", "rules": [ALLOW | {"match": {"tool": ["bash"], "source": ["ours"]}}]})
    decision = QUESTION | {"tool": {"name": "bash", "source": "ours"}}
    _, first, _ = await call("POST", DECIDE, decision)
    assert first["decision"] == "allow"
    change = change if "tool" in change else change | {"tool": {"name": "bash", "source": "ours"}}
    status, answer, _ = await call("POST", DECIDE, decision | change | {"attempt": 1})
    assert (status, answer["error"]["code"], answer["error"]["detail"]) == (409, "key_reuse", {"attempt": 2})
    assert (await Approval.objects.aget()).state == "approved"
    status, second, _ = await call("POST", DECIDE, decision | change)
    assert (status, second["attempt"]) == (200, 2)
    path, body = claim_of(first)
    assert (await call("POST", path, body))[0] == 410


async def test_a_lost_answer_of_a_claim_is_given_again_to_its_client_until_the_result(call: Any, policy: Any) -> None:
    await in_thread(policy)({"rules": [ALLOW]})
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    path, body = claim_of(decision)
    first = await call("POST", path, body)
    assert (await call("POST", path, body))[:2] == first[:2]
    for other in ({"claim_id": "theirs"}, {"claim_id": ""}, {"args_sha256": "0" * 64}):
        status, answer, _ = await call("POST", path, body | other)
        assert (status, answer["error"]["code"]) == (410, "used"), other
    await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok"})
    assert (await call("POST", path, body))[0] == 410


async def test_a_page_says_that_the_call_changed_and_the_old_form_counts_for_nothing(
    call: Any, policy: Any, an_approver: Any
) -> None:
    await in_thread(policy)({"rules": [ASK]})
    await call("POST", DECIDE, QUESTION)
    row = await Approval.objects.select_related("call").aget()
    form = {"decision": "approve", "rev": row.call.rev, "args_sha256": row.args_sha256}
    await call("POST", INGEST, [OTHER])

    def look_and_vote() -> tuple[str, int]:
        client = sign_in(an_approver)
        page = client.get(f"/approvals/{row.pk}/").content.decode()
        return page, client.post(f"/approvals/{row.pk}/vote", form).status_code

    page, status = await in_thread(look_and_vote)()
    assert "Changed while you were reading" in page
    assert "git push" in page and 'name="decision"' not in page.split("</article>")[0]
    assert status == 410
    _, answer, _ = await call("GET", f"/api/v1/approvals/{row.pk}")
    assert (answer["decision"], answer["reason"]["code"], answer["permit"]) == ("deny", "superseded", None)
    newer = await ToolCall.objects.aget(waiting=True)
    assert (newer.ordinal, newer.as_card().input, newer.as_card().attempt) == (2, {"command": "ls"}, 2)
    _, again, _ = await call("POST", DECIDE, QUESTION | {"args": {"command": "ls"}})
    assert again["approval"]["id"] == newer.as_card().approval.id


async def test_a_question_that_its_result_made_pointless_is_not_allowed(
    call: Any, policy: Any, an_approver: Any
) -> None:
    await in_thread(policy)({"rules": [ASK]})
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    await call("POST", INGEST, [{"type": "tool.output.available", "call_id": "c", "output": 1}])
    _, answer, _ = await call("GET", f"/api/v1/approvals/{decision['approval']['id']}")
    assert (answer["decision"], answer["approval"]["state"], answer["permit"]) == ("deny", "cancelled", None)


@pytest.mark.parametrize("frames", [[], [{"type": "text.delta", "text": "x"}], [OTHER | {"call_id": "own"}]])
async def test_the_end_of_a_body_leaves_questions_alone_that_others_asked(
    call: Any, policy: Any, an_approver: Any, frames: list[Any]
) -> None:
    await in_thread(policy)({"rules": [ASK]})
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    if frames:
        await call("POST", INGEST, frames)
    _, answer, _ = await call("GET", f"/api/v1/approvals/{decision['approval']['id']}")
    assert (answer["decision"], answer["approval"]["state"]) == ("ask", "pending")
    own = [row.as_card() async for row in ToolCall.objects.filter(call_id="own")]
    assert all((card.state, card.cause) == ("output-error", "truncated") for card in own)
    assert len(own) == (1 if len(frames) and frames[0].get("call_id") else 0)


async def test_a_permit_ends_with_the_key_that_asked(call: Any, policy: Any, key: AgentKey) -> None:
    await in_thread(policy)({"rules": [ALLOW]})
    other, secret = await in_thread(lambda: AgentKey.objects.issue(key.source.name))()
    assert other.source_id == key.source_id
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    await in_thread(lambda: AgentKey.objects.filter(pk=key.pk).update(revoked_at="2020-01-01T00:00:00Z"))()
    path, body = claim_of(decision)
    status, answer, _ = await call("POST", path, body, key=secret)
    assert (status, answer["error"]["code"]) == (410, "revoked")


async def test_a_run_that_ended_in_a_stream_voids_what_rules_allowed(call: Any, policy: Any) -> None:
    await in_thread(policy)({"rules": [ALLOW]})
    _, decision, _ = await call("POST", DECIDE, QUESTION)
    frames = [
        {"type": "tool.output.available", "call_id": "c", "output": "x"},
        {"type": "run.finished", "outcome": "success"},
    ]
    await call("POST", INGEST, frames)
    path, body = claim_of(decision)
    assert (await call("POST", path, body))[0] == 410
    card = (await ToolCall.objects.aget()).as_card()
    assert [code for code, _ in card.anomalies] == ["ungoverned"]
    assert (await Approval.objects.aget()).state == "cancelled"
    with pytest.raises(gate.RequestRefused):
        await gate.aclaim_permit(
            await in_thread(lambda: AgentKey.objects.get().source)(), decision["permit"]["id"], body
        )
