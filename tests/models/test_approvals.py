"""Approvals in the database: which wait, which are overdue, and which answers agents have not got."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from toolcards.clocks import clock
from toolcards.models import Approval, Grant, ToolCall, Vote
from toolcards.models.approvals import ANSWERED_STATES, ApprovalStatus, select_statuses
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db


@pytest.fixture
def add(a_call: Any) -> Any:
    """Give `add(id, **columns)`: an approval of the same call."""
    call = a_call()

    def write(pk: str, **columns: Any) -> Approval:
        with allow_log_writes():
            return Approval.objects.create(id=pk, run=call.run, call=call, **{"requested_at": 1.0} | columns)

    return write


@pytest.fixture(autouse=True)
def no_approvals_are_left(db: None) -> Any:
    """They are no part of the log that adds up after each test."""
    yield
    with allow_log_writes():
        Approval.objects.all().delete()


def list_ids(approvals: Any) -> list[str]:
    return [approval.id for approval in approvals]


def test_those_that_wait_are_in_the_order_of_their_requests(add: Any) -> None:
    add("b", requested_at=2.0)
    add("c", requested_at=1.0)
    add("a", requested_at=2.0)
    add("answered", state="approved")
    add("allowed", asked=False)  # it has a row only for its permit
    assert list_ids(Approval.objects.waiting()) == ["c", "a", "b"]


MOMENTS = st.sampled_from([0.0, 1.0, 5.0, 9.0, 10.0, 11.0])


@draw(60)
@given(expires_at=MOMENTS, clock_offset=MOMENTS, steady=MOMENTS)
def test_a_deadline_is_passed_by_steady_time(expires_at: float, clock_offset: float, steady: float) -> None:
    approval = Approval(id="x", expires_at=expires_at, clock_offset=clock_offset)
    assert approval.is_overdue(steady) is (expires_at > 0 and expires_at - clock_offset <= steady)


def test_a_query_finds_what_is_overdue(add: Any) -> None:
    rows = [
        add(f"{expires_at}-{offset}", expires_at=expires_at, clock_offset=offset)
        for expires_at in (0.0, 5.0, 10.0, 11.0)
        for offset in (0.0, 1.0, 5.0)
    ]
    for steady in (0.0, 4.0, 5.0, 9.0, 10.0, 50.0):
        assert {*list_ids(Approval.objects.overdue(steady))} == {row.id for row in rows if row.is_overdue(steady)}


def test_an_answer_is_undelivered_on_its_own_channel_until_it_has_arrived(add: Any) -> None:
    for number, state in enumerate(ANSWERED_STATES):
        add(state, state=state, channel="socket", decided_at=float(-number))
    add("pending", channel="socket")
    add("arrived", state="denied", channel="socket", delivered_at=1.0)
    add("polled", state="denied", channel="poll")
    run = ToolCall.objects.get().run
    assert list_ids(Approval.objects.undelivered(run)) == [*reversed(ANSWERED_STATES)]
    assert list_ids(Approval.objects.undelivered(run.pk, channel="poll")) == ["polled"]
    add("without a receipt", state="claimed", channel="socket", held_until=clock.working() + 1000, decided_at=1.0)
    add("lost", state="claimed", channel="socket", held_until=clock.working(), decided_at=2.0)
    late = ["without a receipt", "lost"]
    assert list_ids(Approval.objects.undelivered(run)) == [*reversed(ANSWERED_STATES), *late]
    assert list_ids(Approval.objects.unsent(run)) == [*reversed(ANSWERED_STATES), "lost"]
    assert not Approval.objects.undelivered(run.pk + 1) and not Approval.objects.undelivered()


def test_statuses_are_read_for_those_that_exist(add: Any) -> None:
    call = ToolCall.objects.select_related("run").get()
    add("a", state="denied", decided_at=5.0, by_kind="person")
    add("b", asked=False)
    assert select_statuses([]) == []
    statuses = {status.id: status for status in select_statuses(["a", "b", "missing", "' OR 1=1 --"])}
    assert statuses.keys() == {"a", "b"}
    assert statuses["a"] == ApprovalStatus("a", call.run_id, "denied", 5.0, "person", True, call.run.source_id)
    assert not statuses["b"].asked


def test_a_person_has_one_vote(add: Any, an_approver: Any) -> None:
    approval = add("a")
    vote = Vote.objects.create(approval=approval, person=an_approver, decision="approve", at=1.0)
    assert str(vote) == "ann: approve"
    with pytest.raises(IntegrityError), transaction.atomic():
        Vote.objects.create(approval=approval, person=an_approver, decision="deny", at=2.0)


def test_a_grant_counts_until_it_ends_or_is_revoked(an_approver: Any) -> None:
    columns = {"rule": "r", "rule_sha256": "x", "tool": "t", "created_by": an_approver, "created_at": 1.0}
    for pk, more in {
        "for ever": {}, "until 10": {"expires_at": 10.0}, "revoked": {"revoked_at": 1.0},
        "revoked in time": {"revoked_at": 5.0, "expires_at": 10.0},
    }.items():  # fmt: skip
        Grant.objects.create(id=pk, **columns, **more)
    assert {*list_ids(Grant.objects.live(9.0))} == {"for ever", "until 10"}
    assert list_ids(Grant.objects.live(10.0)) == ["for ever"]
