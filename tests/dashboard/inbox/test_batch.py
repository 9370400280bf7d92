"""Several calls at once: one request, and one result for each of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from tests.support.batches import tickets
from tests.support.votes_by_form import form
from toolcards import gate
from toolcards.models import Approval, ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


def pk(call: ToolCall) -> str:
    return Approval.objects.get(call=call).pk


def states() -> list[str]:
    return list(Approval.objects.order_by("requested_at").values_list("state", flat=True))


def send(client: Client, answer: str, picks: list[str], reason: str = "", **how: Any) -> Any:
    return client.post("/approvals/votes", {"answer": answer, "one_reason": reason, "pick": picks}, **how)


@pytest.mark.parametrize(
    ("answer", "state", "line"), [("approve", "approved", "3 approved."), ("deny", "denied", "3 denied.")]
)
def test_a_plain_form_answers_all_that_is_ticked_and_goes_back(
    ann: Client, edits: Any, answer: str, state: str, line: str
) -> None:
    edits(4)
    picks = tickets(ann.get("/approvals/").content.decode())[:3]
    back = send(ann, answer, picks, "all fine")
    assert (back.status_code, back["Location"]) == (303, "/approvals/")
    assert states() == [state] * 3 + ["pending"]
    assert {row.reason for row in Approval.objects.filter(state=state)} == {"all fine"}
    assert line in ann.get("/approvals/").content.decode()


def test_what_cannot_be_answered_any_more_keeps_no_other_from_counting(
    ann: Client, edits: Any, a_person: Any, ballot: Any
) -> None:
    calls = edits(5)
    picks = tickets(ann.get("/approvals/").content.decode())
    gate.vote(a_person("approver", "ben"), ballot(calls[1], "deny"))
    picks[2] = picks[2].replace(picks[2].split()[3], "0" * 64)  # something else was shown
    with allow_log_writes():
        Approval.objects.filter(call=calls[3]).update(expires_at=1.0)
    answer = send(ann, "approve", [*picks, "apr_none 1 - -"])
    page = answer.content.decode()
    assert answer.status_code == 200 and states() == ["approved", "denied", "pending", "pending", "approved"]
    assert re.search(r"Already denied by ben \d+ s ago\.", page) and "This is not what you were shown" in page
    assert "this approval has expired" in page and "Approval not found" in page
    assert "2 approved, 1 already decided, 1 changed since you saw them, 1 expired, 1 not counted." in page
    assert re.findall(r'data-result="(\d+)"', page) == ["200", "409", "412", "410", "200", "404"]


def test_a_call_that_changed_in_between_is_refused_and_says_so(ann: Client, edits: Any, source: Any) -> None:
    from tests.support.gate_commands import RecordFacts
    from toolcards.core.calls import facts as f
    from toolcards.gate.writer import group_commit

    calls = edits(2)
    picks = tickets(ann.get("/approvals/").content.decode())
    group_commit.execute(RecordFacts(source, "run-1", [f.AnomalyRecorded(calls[0].call_id, "protocol-violation")]))
    page = send(ann, "approve", picks).content.decode()
    assert states() == ["pending", "approved"]
    assert "The call has changed since you saw it" in page and "1 approved, 1 changed since you saw them." in page


def test_htmx_gets_the_results_what_is_left_and_every_card(ann: Client, edits: Any) -> None:
    edits(4)
    picks = tickets(ann.get("/approvals/").content.decode())[:2]
    answer = send(ann, "deny", picks, headers=HTMX)
    text = answer.content.decode()
    assert answer.status_code == 200 and text.count("<hx-partial") == 4
    assert 'hx-target="#batch-said"' in text and "2 denied." in text
    assert "2 similar calls" in text and "csrfmiddlewaretoken" in text
    assert text.count('data-state="output-denied"') == 2


def test_a_high_risk_is_denied_together_and_never_approved_together(ann: Client, a_call: Any) -> None:
    for number in range(2):
        a_call("approval-requested", tool="delete_file", input={"path": f"{number}.txt"}, call_id=f"d{number}")
    page = ann.get("/approvals/").content.decode()
    html = page[page.index('id="batch"') : page.index('class="pane"')]
    assert "cannot be approved together" in html and 'value="approve"' not in html and 'value="deny"' in html
    picks = tickets(page)
    answer = send(ann, "approve", picks)
    assert answer.status_code == 422 and "approve this call on its own card" in answer.content.decode()
    assert states() == ["pending"] * 2
    assert send(ann, "deny", picks).status_code == 303 and states() == ["denied"] * 2


def test_approvals_never_span_risks_but_everything_of_a_run_is_denied(ann: Client, a_call: Any, edits: Any) -> None:
    edits(2)
    a_call("approval-requested", tool="delete_file", input={"path": "a"}, call_id="d")
    page = ann.get("/approvals/").content.decode()
    run = re.search(r'<form class="of-run".*?</form>', page, re.S)
    assert run and "Deny all 3" in run[0]
    picks = re.findall(r'name="pick" value="([^"]+)"', run[0])
    answer = send(ann, "approve", picks)
    assert answer.status_code == 422 and "differ in risk" in answer.content.decode() and set(states()) == {"pending"}
    votes = [{"approval": one.split()[0], "decision": "approve", "rev": 1} for one in picks]
    answer = ann.post("/approvals/votes", json.dumps({"votes": votes}), "application/json")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_votes")
    assert send(ann, "deny", picks, "stop").status_code == 303
    assert states() == ["denied"] * 3


def test_as_json_a_high_risk_is_refused_by_itself(ann: Client, a_call: Any) -> None:
    call = a_call("approval-requested", tool="delete_file", input={"path": "a"})
    ask = call.as_card().approval
    vote = {"approval": pk(call), "decision": "approve", "rev": call.rev, "args_sha256": ask.args_sha256}
    response = ann.post("/approvals/votes", json.dumps({"votes": [vote, 1]}), "application/json").json()["results"]
    assert [(one["status"], one["code"]) for one in response] == [(422, "high_risk"), (422, "invalid_vote")]


@pytest.mark.parametrize(("answer", "picks", "text"), [
    ("approve", [], "Nothing is selected"), ("edit", ["a 1 - -"], "Choose approve or deny"),
    ("approve", ["a"] * 51, "up to 50 calls at once"),
])  # fmt: skip
def test_what_makes_no_sense_is_a_readable_422(ann: Client, answer: str, picks: list[str], text: str) -> None:
    result = send(ann, answer, picks)
    assert result.status_code == 422 and text in result.content.decode()
    result = send(ann, answer, picks, headers=HTMX)
    assert result.status_code == 422 and text in result.content.decode() and "<html" not in result.content.decode()


@pytest.mark.parametrize("ticket", ["", " ", "apr_x", "apr_x one - -", "apr_x 1 - - more", "é 1 ü -"])
def test_an_invalid_ticket_is_refused_by_itself(ann: Client, edits: Any, ticket: str) -> None:
    edits(2)
    picks = tickets(ann.get("/approvals/").content.decode())
    result = send(ann, "approve", [ticket, *picks])
    assert result.status_code == 200 and "2 approved, 1 not counted." in result.content.decode()


@pytest.mark.parametrize("name", ["\ud800", "\0", "a" * 10_000, 7, None, ["a"], {}])
def test_as_json_an_unknown_approval_is_404(ann: Client, name: Any) -> None:
    vote = {"approval": name, "decision": "deny", "rev": 1, "reason": "no"}
    answer = ann.post("/approvals/votes", json.dumps({"votes": [vote]}), "application/json")
    assert answer.status_code == 200 and answer.json()["results"][0]["status"] == 404


@pytest.mark.parametrize("reason", ["\ud800", "\0"])
def test_a_reason_that_no_database_takes_is_a_422(ann: Client, edits: Any, reason: str) -> None:
    call = edits(1)[0]
    vote = {"approval": pk(call), "decision": "deny", "rev": call.rev, "reason": reason}
    vote["args_sha256"] = call.as_card().approval.args_sha256
    answer = ann.post("/approvals/votes", json.dumps({"votes": [vote]}), "application/json")
    assert answer.status_code == 200 and answer.json()["results"][0]["status"] in (200, 422)


def test_a_batch_takes_the_right_and_a_token(edits: Any, a_person: Any, an_approver: Any) -> None:
    edits(2)
    viewer, careless = Client(), Client(enforce_csrf_checks=True)
    viewer.force_login(a_person("viewer"))
    careless.force_login(an_approver)
    for client in (viewer, careless):
        assert send(client, "deny", ["a 1 - -"]).status_code == 403
        assert client.post("/approvals/votes", "{}", "application/json").status_code == 403
    assert viewer.get("/approvals/votes").status_code == 405 and states() == ["pending"] * 2


def test_a_reason_that_the_rule_wants_is_asked_for(ann: Client, policy: Any, a_call: Any) -> None:
    policy({"rules": [{"id": "r", "effect": "ask", "match": {"tool": ["bash"]}, "ask": {"reason": "on_deny"}}]})
    for number in range(2):
        a_call("approval-requested", call_id=f"c{number}", input={"path": f"{number}"})
    page = ann.get("/approvals/").content.decode()
    assert "Reason for all (sent to the agents) (required to deny)" in page
    result = send(ann, "deny", tickets(page))
    assert result.status_code == 422 and "2 missing a required reason" in result.content.decode()


def test_a_command_that_a_mask_hides_is_of_high_risk_wherever_it_waits(ann: Client, a_call: Any) -> None:
    hidden = [f"cookie={number}; rm -rf ~" for number in range(2)]
    calls = [a_call("approval-requested", input={"command": text}, call_id=f"c{n}") for n, text in enumerate(hidden)]
    page = ann.get("/approvals/").content.decode()
    assert "rm -rf" not in page and page.count("runs rm in a masked part") >= 2
    assert page.count('data-risk="high"') >= 2 and 'data-risk="medium"' not in page
    send(ann, "approve", tickets(page))
    assert states() == ["pending", "pending"] and len(calls) == 2


def test_a_batch_is_answered_one_by_one(ann: Client, a_call: Any) -> None:
    first, second = a_call("approval-requested", call_id="one"), a_call("approval-requested", call_id="two")
    votes = [form(call) | {"approval": Approval.objects.get(call=call).pk} for call in (first, second)]
    votes[1]["rev"] = 0
    response = ann.post("/approvals/votes", json.dumps({"votes": votes}), "application/json").json()["results"]
    assert [one["status"] for one in response] == [200, 412]
    assert Approval.objects.filter(state="pending").count() == 1
