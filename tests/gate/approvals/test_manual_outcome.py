"""Manual outcome: a person records how a call without a result ended; a late result overrides it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from tests.support.gate_commands import RecordFacts
from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.core.calls import facts as f
from toolcards.core.calls import tool_events as h
from toolcards.core.calls.call_json import build_call_json
from toolcards.core.calls.reducer import apply_fact
from toolcards.gate.agents import liveness, results
from toolcards.gate.approvals import permits
from toolcards.gate.writer import group_commit
from toolcards.models import Approval, Run, ToolCall

pytestmark = pytest.mark.django_db
LOST_REASON = "The agent was not heard of any more."


@pytest.fixture
def make_lost_call(a_call: Any, source: Any) -> Any:
    """Give `make_lost_call(effect)`: a call that a person (ask) or a rule (allow) let begin.

    Its agent then vanished.
    """

    def make(effect: str = "ask", call_id: str = "call-1") -> ToolCall:
        if effect == "ask":
            a_call("approval-responded", call_id=call_id)
        else:
            gate.decide(source, gate.DecisionRequest(run="run-1", call_id=call_id, tool="bash", args={"command": "ls"}))
        row = Approval.objects.select_related("call").get(call__call_id=call_id)
        body = {"call_id": call_id, "args_sha256": row.args_sha256}
        group_commit.execute(permits.ClaimPermit(source, row.permit, body))
        group_commit.execute(Vanish(source, "run-1"))
        return ToolCall.objects.get(call_id=call_id)

    return make


class Vanish(RecordFacts):
    """The run is lost, as the clock loses it."""

    def __init__(self, source: Any, run: str) -> None:
        super().__init__(source, run, [f.RunEnded(outcome="truncated", reason=LOST_REASON)])

    def apply(self, tx: Any) -> None:
        super().apply(tx)
        liveness.void_permits(tx, tx.get_or_create_run(self.source.pk, self.run))


def finding(call: ToolCall, outcome: str, note: str = "", **other: int) -> gate.ManualOutcome:
    call.refresh_from_db()
    return gate.ManualOutcome(call.run_id, call.ordinal, outcome, other.get("rev", call.rev), note)


def report(source: Any, outcome: str, **more: Any) -> dict[str, Any]:
    """The agent's own result, late."""
    return dict(group_commit.execute(results.RecordResult(source, "run-1", "call-1", {"outcome": outcome, **more})))


def card_of(call: ToolCall) -> Any:
    return ToolCall.objects.get(pk=call.pk).as_card()


# ---------------------------------------------------------------- what a person says


@pytest.mark.parametrize("effect", ["ask", "allow"])
@pytest.mark.parametrize(("outcome", "state"), [("succeeded", "output-available"), ("failed", "output-error")])
def test_a_person_says_how_it_ended(
    make_lost_call: Any, policy: Any, an_approver: Any, effect: str, outcome: str, state: str
) -> None:
    policy({"default": effect})
    call = make_lost_call(effect)
    assert Approval.objects.get().state == "unknown" and card_of(call).has_unknown_outcome
    card = gate.record_manual_outcome(an_approver, finding(call, outcome, "looked at the branch"))
    assert (card.state, card.soft, card.cause, card.has_unknown_outcome) == (state, True, None, False)
    assert (card.by_hand.outcome, card.by_hand.by, card.by_hand.note) == (
        outcome, f.Actor("human", "ann"), "looked at the branch"
    )  # fmt: skip
    assert Approval.objects.get().state == outcome
    call_json = build_call_json(card, run="run-1", id="1")["by_hand"]
    assert (call_json["outcome"], call_json["by"], call_json["note"]) == (
        outcome, {"kind": "human", "name": "ann"}, "looked at the branch"
    )  # fmt: skip
    act = AuditRow.objects.get(act="settled")
    assert (act.actor_kind, act.actor, json.loads(act.detail)["outcome"]) == ("human", "ann", outcome)


def test_the_same_person_may_repeat_it_and_others_see_who_was_first(
    make_lost_call: Any, an_approver: Any, a_person: Any
) -> None:
    call = make_lost_call()
    card = gate.record_manual_outcome(an_approver, finding(call, "failed"))
    assert gate.record_manual_outcome(an_approver, finding(call, "failed", rev=0)).rev == card.rev
    for person, outcome in ((a_person("approver", "ben"), "failed"), (an_approver, "succeeded")):
        with pytest.raises(gate.AlreadyDecided, match=r"Already recorded by ann .*: it failed") as error:
            gate.record_manual_outcome(person, finding(call, outcome))
        assert (error.value.status, error.value.code) == (409, "already_settled")
    assert AuditRow.objects.filter(act="settled").count() == 1


def test_what_changed_since_it_was_seen_is_refused(make_lost_call: Any, an_approver: Any) -> None:
    call = make_lost_call()
    with pytest.raises(gate.AlreadyDecided) as error:
        gate.record_manual_outcome(an_approver, finding(call, "failed", rev=1))
    assert (error.value.status, error.value.code) == (409, "stale_rev")
    assert card_of(call).has_unknown_outcome and not AuditRow.objects.filter(act="settled").exists()


@pytest.mark.parametrize("state", ["input-available", "approval-requested", "output-available", "output-denied"])
def test_only_an_unknown_outcome_can_be_recorded(a_call: Any, an_approver: Any, state: str) -> None:
    call = a_call(state)
    with pytest.raises(gate.AlreadyDecided) as error:
        gate.record_manual_outcome(an_approver, finding(call, "succeeded"))
    assert error.value.code == "not_unknown"


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ([f.InputStarted("c", "bash"), f.InputDelta("c", "{")], "truncated"),  # nothing can have run
        ([f.InputReady("c", "bash", {}, True), f.ApprovalRequested("c", id="apr_x", opener="gate")], "truncated"),
        ([f.InputReady("c", "bash", {}, True)], "aborted"),  # its own host said that it was stopped
    ],
)
def test_what_cannot_have_run_is_not_asked_about(a_run: Any, facts: list[Any], outcome: Any) -> None:
    a_run("run-2", *facts, f.RunEnded(outcome=outcome))
    assert not ToolCall.objects.get(call_id="c").as_card().has_unknown_outcome


def test_an_observed_call_without_a_result_can_be_recorded_too(a_run: Any, an_approver: Any) -> None:
    a_run("run-2", f.InputReady("c", "bash", {}, True), f.RunEnded(outcome="truncated"))
    assert (
        gate.record_manual_outcome(an_approver, finding(ToolCall.objects.get(), "succeeded")).state
        == "output-available"
    )


def test_who_may_not_answer_may_not_settle(
    make_lost_call: Any, policy: Any, a_person: Any, an_approver: Any, source: Any
) -> None:
    policy({"rules": [{"id": "r", "effect": "ask", "match": {"tool": ["bash"]}, "ask": {"approvers": ["ann"]}}]})
    call = make_lost_call()
    for person in (a_person("viewer"), a_person("approver", "ben")):
        with pytest.raises(gate.NotAllowed):
            gate.record_manual_outcome(person, finding(call, "failed"))
    assert gate.record_manual_outcome(an_approver, finding(call, "failed")).by_hand.by.name == "ann"


# ---------------------------------------------------------------- the agent's own word


@pytest.mark.parametrize("text", ["succeeded", "failed"])
@pytest.mark.parametrize(("outcome", "state", "after"), [
    ("ok", "output-available", "succeeded"), ("error", "output-error", "failed"),
])  # fmt: skip
def test_a_late_result_takes_the_place_of_what_was_said(
    make_lost_call: Any, an_approver: Any, source: Any, text: str, outcome: str, state: str, after: str
) -> None:
    call = make_lost_call()
    gate.record_manual_outcome(an_approver, finding(call, text, "I think"))
    report(source, outcome, output={"files": 3}, error={"message": "no disk"})
    card = card_of(call)
    assert (card.state, card.soft, Approval.objects.get().state) == (state, False, after)
    assert card.approval.state == after
    assert card.output == {"files": 3} if outcome == "ok" else card.error.message == "no disk"
    assert card.by_hand.outcome == text  # what was said stays on the card, and in the log


def test_a_late_frame_of_a_socket_does_so_too(make_lost_call: Any, an_approver: Any, a_call: Any, source: Any) -> None:
    call = make_lost_call()
    gate.record_manual_outcome(an_approver, finding(call, "failed"))
    group_commit.execute(RecordFacts(source, "run-1", [f.OutputReady("call-1", "all is well")]))
    card = card_of(call)
    assert (card.state, card.output, card.approval.state) == ("output-available", "all is well", "succeeded")
    with pytest.raises(gate.AlreadyDecided) as error:
        gate.record_manual_outcome(an_approver, finding(call, "failed"))
    assert error.value.code == "not_unknown"


@pytest.mark.parametrize("outcome", ["unknown", "aborted"])
def test_an_agent_that_does_not_know_either_changes_nothing(
    make_lost_call: Any, an_approver: Any, source: Any, outcome: str
) -> None:
    call = make_lost_call()
    gate.record_manual_outcome(an_approver, finding(call, "succeeded"))
    report(source, outcome)
    assert card_of(call).state == "output-available" and Approval.objects.get().state == "succeeded"


def test_it_is_not_run_again(make_lost_call: Any, an_approver: Any, source: Any) -> None:
    """The same question again is given the same answer, and no permit."""
    call = make_lost_call()
    gate.record_manual_outcome(an_approver, finding(call, "failed"))
    again = gate.decide(
        source, gate.DecisionRequest(run="run-1", call_id="call-1", tool="bash", args={"command": "ls"})
    )
    assert again["permit"] is None and again["approval"]["state"] == "failed"
    assert Approval.objects.count() == 1


# ---------------------------------------------------------------- by form and as JSON


@pytest.fixture
def ann(an_approver: Any, client: Client) -> Client:
    client.force_login(an_approver)
    return client


def address(call: ToolCall) -> str:
    return f"/calls/{call.public_id}/settle"


def test_the_card_asks_what_happened_and_then_says_who_said_so(ann: Client, make_lost_call: Any) -> None:
    call = make_lost_call()
    page = ann.get(f"/calls/{call.public_id}/").content.decode()
    assert f'action="{address(call)}"' in page and "Record the outcome" in page
    form_data = {"outcome": "failed", "rev": call.rev, "note": "<b>not</b> there"}
    answer = ann.post(address(call), form_data, headers={"HX-Request": "true"})
    card = answer.content.decode()
    assert answer.status_code == 200 and 'data-state="output-error"' in card and 'data-by-hand="failed"' in card
    assert "Recorded by <b>ann</b>" in card and ": it failed." in card and "&lt;b&gt;not&lt;/b&gt; there" in card
    assert "Record the outcome" not in card and "Failed, recorded by a person" in card
    story = ann.get(f"/calls/{call.public_id}/").content.decode()
    assert "ann recorded that it failed" in story


def test_the_inbox_and_the_history_link_to_calls_without_a_result(
    ann: Client, make_lost_call: Any, an_approver: Any
) -> None:
    call = make_lost_call()
    assert "1 call since yesterday never reported a result" in ann.get("/approvals/").content.decode()
    page = ann.get("/approvals/history/").content.decode()
    assert "No result reported" in page and f'href="/calls/{call.public_id}/"' in page
    assert f"of {call.run.source.name}</span>" in page
    gate.record_manual_outcome(an_approver, finding(call, "failed"))
    assert "since yesterday" not in ann.get("/approvals/").content.decode()
    assert 'id="unheard"' not in ann.get("/approvals/history/").content.decode()


def test_hooks_get_the_corrected_outcome_and_nothing_is_recorded_twice(make_lost_call: Any, an_approver: Any) -> None:
    call = make_lost_call()
    before = card_of(call)
    for outcome in ("succeeded", "failed"):
        after = apply_fact(before, f.ManualOutcomeRecorded("call-1", outcome, "looked", f.Actor("human", "ann")))
        assert h.may_have_events(before, after) and h.list_tool_events(before, after) == [h.EXECUTE_CORRECTED]
        assert h.get_outcome(after) == {"succeeded": "ok", "failed": "error"}[outcome]


def test_a_plain_form_goes_back_and_a_late_one_gets_a_page(ann: Client, make_lost_call: Any) -> None:
    call = make_lost_call()
    form_data = {"outcome": "succeeded", "rev": call.rev, "next": "/runs/run-1/"}
    answer = ann.post(address(call), form_data)
    assert (answer.status_code, answer["Location"]) == (303, "/runs/run-1/")
    answer = ann.post(address(call), form_data | {"outcome": "failed"})
    assert answer.status_code == 409 and "Already recorded by ann" in answer.content.decode()


@pytest.mark.parametrize(("form_data", "status", "code"), [
    ({"outcome": "failed", "rev": 0}, 409, "stale_rev"), ({"outcome": "maybe"}, 422, "invalid_finding"),
    ({}, 422, "invalid_finding"), ([], 422, "invalid_finding"),
    ({"outcome": "failed", "note": "n" * 2001}, 422, "invalid_finding"),
])  # fmt: skip
def test_as_json_every_no_has_a_code(ann: Client, make_lost_call: Any, form_data: Any, status: int, code: str) -> None:
    call = make_lost_call()
    body = {"rev": call.rev} | form_data if isinstance(form_data, dict) and form_data else form_data
    answer = ann.post(address(call), json.dumps(body), "application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert card_of(call).has_unknown_outcome
    page = ann.post(address(call), body if isinstance(body, dict) else {})
    assert page.status_code == status and "data-told" in page.content.decode()


@pytest.mark.parametrize(("note", "status"), [("\ud800", 200), ("\0", 422), ("\x1b[31m\u202e", 200)])
def test_a_note_may_hold_anything_that_can_be_kept(ann: Client, make_lost_call: Any, note: str, status: int) -> None:
    call = make_lost_call()
    body = json.dumps({"outcome": "failed", "rev": call.rev, "note": note})
    assert ann.post(address(call), body, "application/json").status_code == status
    page = ann.get(f"/calls/{call.public_id}/").content.decode()
    assert "\x1b" not in page and "\u202e" not in page


def test_as_json_it_is_answered_with_the_call(ann: Client, make_lost_call: Any) -> None:
    call = make_lost_call()
    answer = ann.post(address(call), json.dumps({"outcome": "succeeded", "rev": call.rev}), "application/json")
    result = answer.json()["call"]
    assert (answer.status_code, result["state"], result["by_hand"]["by"]["name"]) == (200, "output-available", "ann")
    answer = ann.post("/calls/999-1/settle", json.dumps({"outcome": "succeeded", "rev": 1}), "application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert ann.post("/calls/999-1/settle", {"outcome": "succeeded", "rev": 1}).status_code == 404
    assert ann.post(address(call), "{", "application/json").status_code == 400


def test_settling_takes_a_session_the_right_and_a_token(make_lost_call: Any, a_person: Any, an_approver: Any) -> None:
    call = make_lost_call()
    form_data = {"outcome": "failed", "rev": call.rev}
    nobody, viewer, careless = Client(), Client(), Client(enforce_csrf_checks=True)
    viewer.force_login(a_person("viewer"))
    careless.force_login(an_approver)
    assert nobody.post(address(call), form_data).status_code == 302
    assert nobody.post(address(call), json.dumps(form_data), "application/json").status_code == 401
    for client in (viewer, careless):
        assert client.post(address(call), form_data).status_code == 403
        answer = client.post(address(call), json.dumps(form_data), "application/json")
        assert answer.status_code == 403 and answer.json()["error"]["code"] in ("forbidden", "csrf")
    assert viewer.get(address(call)).status_code == 405
    assert card_of(call).has_unknown_outcome and Run.objects.count() == 1
