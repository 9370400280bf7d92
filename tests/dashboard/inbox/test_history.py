"""Decided approvals: who, when, why and by which rule."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.support.votes_by_form import address, form
from toolcards.models import Approval
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db


def test_history_says_who_when_why_and_under_which_rule(ann: Client, a_call: Any) -> None:
    call = a_call("approval-requested")
    ann.post(address(call), form(call, "deny", reason="not on a Friday"))
    page = ann.get("/approvals/history/").content.decode()
    assert "ann" in page and "not on a Friday" in page and "/policy/versions/1/" in page
    assert f"/approvals/{Approval.objects.get().pk}/" in page


def test_history_names_in_words_what_decided_without_a_person(ann: Client, a_call: Any) -> None:
    a_call("approval-requested")
    with allow_log_writes():
        Approval.objects.update(state="expired", by_kind="timeout", by_name="", decided_at=1.0)
    page = ann.get("/approvals/history/").content.decode()
    assert '<span class="muted">time limit</span>' in page


@pytest.mark.parametrize(
    ("state", "later"), [("expired", "not started in time"), ("cancelled", "the run ended first"), ("claimed", "")]
)
def test_an_answer_stays_and_what_became_of_it_stands_next_to_it(
    ann: Client, a_call: Any, state: str, later: str
) -> None:
    call = a_call("approval-requested")
    ann.post(address(call), form(call, "approve"))
    with allow_log_writes():
        Approval.objects.update(state=state)
    page = ann.get("/approvals/history/").content.decode()
    assert "Approved" in page and "Expired" not in page and "Withdrawn" not in page
    assert f'<span class="muted">{later}</span>' in page if later else "not started" not in page


def test_history_goes_back_a_page_at_a_time(ann: Client, a_call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.inbox.history.PAGE", 2)
    for number in range(5):
        a_call("output-denied", call_id=f"call-{number}")
    shown_calls, url = [], "/approvals/history/"
    while url:
        answer = ann.get(url)
        shown_calls += [row.approval.call.call_id for row in answer.context["answered"]]
        after = answer.context["next"]
        url = f"/approvals/history/?after={after}" if after else ""
    assert shown_calls == [f"call-{number}" for number in (4, 3, 2, 1, 0)]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["call-two", "call-one"]), ("by:ann", ["call-two", "call-one"]), ("by:ben", []),
        ("state:denied", ["call-two"]),
        ("-state:denied since:1h", ["call-one"]), ("call-one", ["call-one"]), ("risk:high", []),
        ("since:soon", ["call-two", "call-one"]), ("tool:bash call-two", ["call-two"]),
    ],
)  # fmt: skip
def test_history_is_searched_as_calls_are(ann: Client, a_call: Any, query: str, names: list[str]) -> None:
    for call_id, answer in (("call-one", "approve"), ("call-two", "deny")):
        call = a_call("approval-requested", call_id=call_id)
        ann.post(address(call), form(call, answer))
    page = ann.get("/approvals/history/", {"q": query})
    assert [row.approval.call.call_id for row in page.context["answered"]] == names
    assert ("Not understood" in page.content.decode()) == (query == "since:soon")
