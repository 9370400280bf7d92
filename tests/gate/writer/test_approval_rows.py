"""The rows of approvals and votes follow their cards, keep what is not on a card, and are found by ids alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

from tests.support.tables import loop_over
from toolcards.core.calls.card import Card, CardApproval
from toolcards.core.calls.facts import Actor
from toolcards.gate.writer import approval_rows
from toolcards.gate.writer.approval_rows import NewApproval
from toolcards.gate.writer.cache import run_memory
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.models import AgentKey, Approval, Run, Source, ToolCall, Vote
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db
SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture
def row(a_call: Callable[..., ToolCall]) -> Approval:
    """The pending approval of a call."""
    a_call("approval-requested")
    return Approval.objects.get()


@pytest.fixture
def memory(row: Approval) -> Iterator[RunMemory]:
    """The run of the approval, as read from its rows; what a test writes to the rows is undone."""
    columns = Approval.objects.values().get(pk=row.pk)
    with allow_log_writes():
        yield run_memory.load_memory(row.run)
        Approval.objects.exclude(pk=row.pk).delete()
        Approval.objects.filter(pk=row.pk).update(**columns)


def change(memory: RunMemory, **changes: Any) -> Card:
    """Change the approval of the run's only card; return the card."""
    (card,) = memory.board.cards.values()
    assert card.approval is not None
    ask = CardApproval(**card.approval.__dict__ | changes)
    memory.board.cards[card.ordinal] = card.replace(approval=ask)
    return memory.board.cards[card.ordinal]


# ---------------------------------------------------------------- finding


def test_runs_are_found_by_the_ids_of_approvals_and_of_permits(row: Approval, memory: RunMemory) -> None:
    approval_rows.update_approval(row.pk, permit="prm_1")
    run = {row.run_id}
    assert approval_rows.find_runs([row.pk]) == approval_rows.find_runs(iter(["none", "prm_1"])) == run
    assert approval_rows.find_runs([]) == approval_rows.find_runs(["", "x\0", "none"]) == set()
    assert approval_rows.find_runs(["", "x\0", row.pk]) == run


def test_a_permit_is_found_by_its_own_source_only(row: Approval, memory: RunMemory) -> None:
    approval_rows.update_approval(row.pk, permit="prm_1")
    source = row.run.source_id
    assert approval_rows.load_permit("prm_1", source) == row
    for permit, owner in (("prm_1", source + 1), ("prm_2", source), ("", source), ("prm_1\0", source)):
        assert approval_rows.load_permit(permit, owner) is None


def test_the_newest_approval_of_a_call_is_the_one_that_was_requested_last(row: Approval, memory: RunMemory) -> None:
    columns = {"requested_at": row.requested_at - 1, "state": "superseded"}
    approval_rows.insert_approvals([NewApproval("older", row.run_id, 1, columns)])
    assert approval_rows.find_newest(row.run_id, 1) == row
    approval_rows.update_approval("older", requested_at=row.requested_at + 1)
    newest = approval_rows.find_newest(row.run_id, 1)
    assert newest is not None and newest.pk == "older"
    assert approval_rows.find_newest(row.run_id, 2) is None and approval_rows.find_newest(row.run_id + 1, 1) is None


def test_the_card_of_a_row_is_found_with_one_query_at_most(
    row: Approval, memory: RunMemory, django_assert_num_queries: Any
) -> None:
    card = memory.board.cards[1]
    with django_assert_num_queries(0):
        assert approval_rows.get_card(memory, row) is card
    memory.ordinals.clear()  # a call that was new in an earlier commit
    with django_assert_num_queries(1):
        assert approval_rows.get_card(memory, row) is approval_rows.get_card(memory, row) is card


def test_an_approval_is_open_on_its_own_card_while_that_waits(row: Approval, memory: RunMemory) -> None:
    assert approval_rows.is_open_on(memory.board.cards[1], row)
    assert not approval_rows.is_open_on(change(memory, id="another"), row)
    assert not approval_rows.is_open_on(change(memory, id=row.pk, state="approved"), row)
    assert not approval_rows.is_open_on(memory.board.cards[1].replace(approval=None), row)


# ---------------------------------------------------------------- writing


def test_a_new_row_has_the_given_columns_and_the_defaults_of_the_model(row: Approval, memory: RunMemory) -> None:
    columns = {"channel": "socket", "terms": '{"quorum": 2}', "note": "for Ann", "requested_at": 5.0, "permit": "prm_9"}
    few = {"state": "approved", "requested_at": 6.0}
    new_rows = [NewApproval("one", row.run_id, 1, columns), NewApproval("two", row.run_id, 1, few)]
    approval_rows.insert_approvals(new_rows)
    one, two = Approval.objects.get(pk="one"), Approval.objects.get(pk="two")
    expected = Approval(pk="one", run_id=row.run_id, call_id=row.call_id, **columns)
    for field in Approval._meta.concrete_fields:
        assert getattr(one, field.attname) == getattr(expected, field.attname), field.attname
    assert (two.state, two.channel, two.call_id) == ("approved", Approval(pk="two").channel, row.call_id)
    approval_rows.insert_approvals(
        [NewApproval("one", row.run_id, 1, {"channel": "http", "requested_at": 6.0})]
    )  # the same row again
    one.refresh_from_db()
    assert (one.channel, one.terms, one.note) == ("http", '{"quorum": 2}', "for Ann")


def test_a_known_row_follows_its_card_without_a_secret(row: Approval, memory: RunMemory) -> None:
    card = change(
        memory, state="denied", by=Actor("human", "ann" * 100), decided_at=7.0, reason=f"no {SECRET}\0", expires_at=9.0,
        args_sha256="0" * 64,
    )  # fmt: skip
    memory.dirty = {1}
    assert approval_rows.find_changed_cards(memory) == [card]
    assert approval_rows.write_approval(memory, card, {row.pk: {"note": "seen"}}, 0.0) is None
    row.refresh_from_db()
    assert (row.state, row.by_kind, row.decided_at, row.expires_at) == ("denied", "human", 7.0, 9.0)
    assert (row.by_name, row.args_sha256, row.note) == (("ann" * 100)[:200], "0" * 64, "seen")
    assert SECRET not in row.reason and "\0" not in row.reason and row.reason.startswith("no ")
    assert (row.channel, row.requested_at) == ("http", card.approval.requested_at if card.approval else 0)
    assert memory.asks == {1: card.approval} and approval_rows.find_changed_cards(memory) == []


@loop_over("state, expected", [
    ("pending", "superseded"), ("approved", "superseded"), ("denied", "denied"), ("claimed", "claimed"),
    ("expired", "expired"), ("revoked", "revoked"),
])  # fmt: skip
def test_a_newer_approval_supersedes_an_older_one_that_could_still_be_used(
    state: str, expected: str, row: Approval, memory: RunMemory
) -> None:
    approval_rows.update_approval(row.pk, state=state)
    memory.asks = {1: CardApproval(id=row.pk)}
    card = change(memory, id="newer", opener="agent", automatic=True, requested_at=3.0)
    new = approval_rows.write_approval(memory, card, {"newer": {"channel": "watch"}, row.pk: {"note": "no"}}, 8.0)
    row.refresh_from_db()
    assert (row.state, row.note) == (expected, "")
    assert new is not None and (new.id, new.run, new.ordinal) == ("newer", row.run_id, 1)
    assert new.columns.items() >= {
        "channel": "watch", "clock_offset": 8.0, "opener": "agent", "requested_at": 3.0, "asked": False,
    }.items()  # fmt: skip


def test_a_new_row_without_a_connection_has_the_channel_none(row: Approval, memory: RunMemory) -> None:
    new = approval_rows.write_approval(memory, change(memory, id="newer"), {}, 0.0)
    assert new is not None and (new.columns["channel"], new.columns["asked"]) == ("none", True)


def test_only_known_rows_are_written_between_the_works_of_a_commit(row: Approval, memory: RunMemory) -> None:
    write = approval_rows.write_known_approval
    assert write(memory, None, {}) is write(memory, memory.board.cards[1], {}) is False  # nothing has changed
    assert write(memory, memory.board.cards[1].replace(approval=None), {}) is False
    assert write(memory, change(memory, state="cancelled"), {}) is True
    row.refresh_from_db()
    assert row.state == "cancelled"
    approval_rows.update_approval(row.pk, state="pending")
    assert write(memory, change(memory, id="newer", state="pending"), {}) is False
    row.refresh_from_db()
    assert row.state == "superseded" and Approval.objects.count() == 1
    memory.asks.clear()
    assert write(memory, memory.board.cards[1], {}) is False


def test_permits_of_rules_are_stored_under_the_states_of_rows(row: Approval, memory: RunMemory) -> None:
    names = {"issued": "approved", "void": "cancelled", "claimed": "claimed", "expired": "expired"}
    assert {name: approval_rows.get_row_state(name) for name in names} == names
    approval_rows.write_permit_states({row.pk: "void", "none": "expired"})
    row.refresh_from_db()
    assert row.state == "cancelled"


@loop_over("name, value", [
    ("note", "text"), ("note", ""), ("state", "pending"), ("asked", True), ("claimed_at", 1.5), ("delivered_at", None),
    ("claimed_at", 3),
])  # fmt: skip
def test_a_value_is_prepared_as_django_prepares_it(name: str, value: Any) -> None:
    field = Approval._meta.get_field(name)
    (prepared,), expected = approval_rows.prepare_values([field], [value]), field.get_db_prep_save(value, connection)
    assert type(prepared) is type(expected) or value == expected
    assert field.name == "note" or prepared == expected
    assert (prepared == value) is (field.name != "note" or not value)  # a note is sealed


# ---------------------------------------------------------------- votes and owners


def test_each_person_has_one_vote_and_a_later_one_replaces_all_of_it(row: Approval, a_person: Any) -> None:
    def write(person: Any, decision: str, at: float, **more: str) -> None:
        columns = {"reason": "", "note": "", "client_decision_id": "", **more}
        approval_rows.write_vote(approval_id=row.pk, person_id=person.pk, decision=decision, at=at, **columns)

    ann, ben = a_person("approver", "anna"), a_person("approver", "ben")
    write(ann, "approve", 1.0, reason="fine", note="seen", client_decision_id="x")
    write(ben, "deny", 2.0)
    write(ann, "edit", 3.0, reason="better")
    assert approval_rows.list_decisions(row.pk) == {ann.pk: "edit", ben.pk: "deny"}
    vote = Vote.objects.get(person=ann)
    assert (vote.reason, vote.note, vote.client_decision_id, vote.at) == ("better", "", "", 3.0)
    approval_rows.delete_votes("another")
    assert Vote.objects.count() == 2
    approval_rows.delete_votes(row.pk)
    assert approval_rows.list_decisions(row.pk) == {}
    with pytest.raises(KeyError):
        approval_rows.write_vote(approval_id=row.pk, person_id=ann.pk, decision="deny")


def test_the_owner_of_a_run_is_the_person_that_its_source_serves(
    a_run: Callable[..., Run], source: Source, a_person: Any
) -> None:
    ann, run = a_person("approver", "ann"), a_run("r")
    assert approval_rows.get_owner(run.pk) is None and approval_rows.get_owner(run.pk + 1) is None
    Source.objects.filter(pk=source.pk).update(owner=ann)
    assert approval_rows.get_owner(run.pk) == ann.pk
    other = AgentKey.objects.ensure("tck_" + "o" * 43, name="another agent").source
    assert approval_rows.get_owner(a_run("r", source=other).pk) is None
