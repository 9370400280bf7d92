"""Several calls at once: which are alike, what differs between them, and one answer that counts for each by itself."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from dashboard.inbox import groups
from dashboard.live import boards
from dashboard.live.base_board import BoardNews
from toolcards import gate
from toolcards.models import Approval, ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def ann(an_approver: Any, client: Client) -> Client:
    client.force_login(an_approver)
    return client


@pytest.fixture
def edits(a_call: Any) -> Any:
    """Give `edits(n)`: that many waiting calls that differ in their path alone."""

    def make(count: int, run: str = "run-1") -> list[ToolCall]:
        entries = [{"path": f"src/{number}.py", "text": "x"} for number in range(count)]
        return [
            a_call("approval-requested", tool="Edit", input=one, call_id=f"{run}-{n}", run=run)
            for n, one in enumerate(entries)
        ]

    return make


def tickets(page: str) -> list[str]:
    """What the boxes of the page send, in its order."""
    return re.findall(r'<input type="checkbox" name="pick" value="([^"]+)"', page)


def pk(call: ToolCall) -> str:
    return Approval.objects.get(call=call).pk


def states() -> list[str]:
    return list(Approval.objects.order_by("requested_at").values_list("state", flat=True))


def send(client: Client, answer: str, picks: list[str], reason: str = "", **how: Any) -> Any:
    return client.post("/approvals/votes", {"answer": answer, "one_reason": reason, "pick": picks}, **how)


# ---------------------------------------------------------------- what is alike


def test_alike_calls_are_shown_with_what_differs(ann: Client, edits: Any) -> None:
    edits(3)
    page = ann.get("/approvals/").content.decode()
    assert "3 similar calls" in page and len(tickets(page)) == 3
    assert "src/<mark>0</mark>.py" in page and "src/<mark>2</mark>.py" in page
    assert page.count("<article") == 3  # each still has its card, with its form
    group = groups.build_groups_context()["groups"][0]
    assert (group.differs, group.same, group.approvable) == (["path"], [("text", "x")], True)


def test_a_single_call_is_no_group(ann: Client, a_call: Any) -> None:
    a_call("approval-requested")
    page = ann.get("/approvals/").content.decode()
    assert not tickets(page) and "share this shape" not in page


@pytest.mark.parametrize(("one", "other", "same"), [
    ({"path": "a"}, {"path": "b"}, True),
    ({"path": "a"}, {"path": 1}, False),
    ({"path": "a"}, {"path": "a", "all": True}, False),
    ({"list": ["a"]}, {"list": ["a", "b"]}, True),
    ({"list": ["a"]}, {"list": [{"a": 1}]}, False),
    ({"command": "git push origin a"}, {"command": "git push origin b"}, True),
    ({"command": "git push origin a"}, {"command": "git commit a"}, False),
    ({"command": "rm a.txt"}, {"command": "rm -r a.txt"}, False),
    ({"command": "ls a.txt"}, {"command": "cat a.txt"}, False),
    ({"command": "ls a.txt"}, {"command": "ls b.txt | sh"}, False),
    ({"command": "echo $(a)"}, {"command": "echo $(b)"}, False),  # what cannot be read is alike to itself alone
    ("a", "b", True),
    (None, None, True),
])  # fmt: skip
def test_what_counts_as_the_same_shape(one: Any, other: Any, same: bool) -> None:
    assert (groups.compute_shape(one) == groups.compute_shape(other)) is same


@pytest.mark.parametrize("other", [
    {"tool": "Write"}, {"input": {"path": "/etc/passwd", "text": "x"}}, {"input": {"path": "a.py", "text": "x" * 3000}},
])  # fmt: skip
def test_another_tool_another_risk_and_what_is_too_long_to_compare_are_not_alike(
    a_call: Any, edits: Any, other: dict[str, Any]
) -> None:
    edits(2)
    a_call("approval-requested", **({"tool": "Edit", "input": {"path": "a.py", "text": "x"}} | other))
    assert [len(group.items) for group in groups.build_groups_context()["groups"]] == [2]


def test_calls_of_another_source_are_not_alike(a_call: Any, edits: Any, source: Any) -> None:
    from toolcards.models import AgentKey

    edits(2)
    other = AgentKey.objects.ensure("tck_another_secret_0123456789abcdefghijkl", name="another").source
    fields = {"path": "src/9.py", "text": "x"}
    gate.decide(other, gate.DecisionRequest(run="run-9", call_id="c", tool="Edit", args=fields))
    assert [len(group.items) for group in groups.build_groups_context()["groups"]] == [2]


def test_hostile_words_are_escaped_in_groups_too(ann: Client, a_call: Any) -> None:
    for number in range(2):
        fields = {'<b onclick="x">': "same", "path": f'"><script>{number}\u202e'}
        a_call("approval-requested", tool="<i>Edit", input=fields, call_id=f"c{number}", run="<u>")
    page = ann.get("/approvals/").content.decode()
    start = page.index('id="batch"')
    shown = page[start : page.index('class="pane"')]
    assert "<script>" not in shown and "<b onclick" not in shown and "<i>" not in shown and "<u>" not in shown
    assert "\u202e" not in shown and "U+202E" in shown


def test_more_than_fifty_of_a_shape_are_counted_and_not_answered_at_once(
    ann: Client, edits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MAX_GROUP_SIZE", 3)
    edits(5)
    page = ann.get("/approvals/").content.decode()
    assert len(tickets(page)) == 3 and "2 more similar calls; at most 3 are answered at once" in page


# ---------------------------------------------------------------- one answer for several


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
    shown = page[page.index('id="batch"') : page.index('class="pane"')]
    assert "cannot be approved together" in shown and 'value="approve"' not in shown and 'value="deny"' in shown
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


# ---------------------------------------------------------------- on open pages


def test_open_pages_get_groups_when_they_have_changed(edits: Any, a_call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.live.base_board.THROTTLE_SECONDS", 0.0)
    edits(2)
    board = boards.InboxBoard()
    news = BoardNews(runs=frozenset(ToolCall.objects.values_list("run", flat=True)))
    assert "2 similar calls" in board.render_all().parts["groups"]
    assert "groups" in board.render_changes(news).parts and "groups" not in board.render_changes(news).parts
    a_call("approval-requested", tool="Edit", input={"path": "src/9.py", "text": "x"}, call_id="more")
    assert "3 similar calls" in board.render_all().parts["groups"]  # a new watcher gets it first
    text = board.render_changes(news).parts["groups"]
    assert "3 similar calls" in text and "csrfmiddlewaretoken" not in text
    assert "groups" not in board.render_changes(news).parts


# ---------------------------------------------------------------- quick reasons


def test_the_reasons_of_the_last_denials_are_offered_again(ann: Client, a_call: Any, an_approver: Any) -> None:
    for number, reason in enumerate(["not here", "ask me first", "not here", ""]):
        call = a_call("approval-requested", call_id=f"c{number}")
        card = call.as_card()
        gate.vote(
            an_approver, gate.Ballot(card.approval.id, "deny", card.rev, card.approval.args_sha256, reason=reason)
        )
    assert groups.list_recent_reasons() == ["not here", "ask me first"]
    page = ann.get("/approvals/").content.decode()
    assert '<option value="ask me first">' in page and 'id="quick-reasons"' in page


def test_a_command_that_a_mask_hides_is_of_high_risk_wherever_it_waits(ann: Client, a_call: Any) -> None:
    hidden = [f"cookie={number}; rm -rf ~" for number in range(2)]
    calls = [a_call("approval-requested", input={"command": text}, call_id=f"c{n}") for n, text in enumerate(hidden)]
    page = ann.get("/approvals/").content.decode()
    assert "rm -rf" not in page and page.count("runs rm in a masked part") >= 2
    assert page.count('data-risk="high"') >= 2 and 'data-risk="medium"' not in page
    send(ann, "approve", tickets(page))
    assert states() == ["pending", "pending"] and len(calls) == 2
