"""Bulk SQL writes what the ORM would: every column, sealed where it has to be, and texts that every database takes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards import encryption
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, CardTool, ToolCallState
from toolcards.gate.writer import bulk_sql
from toolcards.gate.writer.bulk_sql import (
    CallPosition,
    CallRow,
    EventRow,
    FactUpdate,
    RunUpdate,
    build_call_row,
    clean_text,
    fit_text,
)  # fmt: skip
from toolcards.models import AgentKey, BreakGlass, Event, Run, ToolCall
from toolcards.models.write_guard import allow_event_changes, allow_log_writes

TEXTS = st.text(st.characters(codec=None) | st.sampled_from("\x00\ud83d\ude00é"), max_size=8)
NOW = datetime(2026, 5, 4, 3, 2, 1, 123456, tzinfo=UTC)


# ---------------------------------------------------------------- texts and times


@draw(200)
@given(TEXTS, st.integers(0, 8))
def test_a_cleaned_text_can_be_encoded_and_differs_only_where_it_has_to(text: str, size: int) -> None:
    clean = clean_text(text)
    clean.encode()
    assert "\x00" not in clean and clean_text(clean) == clean
    if "\x00" not in text and not any("\ud800" <= char <= "\udfff" for char in text):
        assert clean == text
    assert fit_text(text, size) == clean[:size]


@loop_over("text, expected", [
    ("a\x00b", "a\ufffdb"), ("\ud83d", "\ufffd"), ("\ude00\ud83d", "\ufffd\ufffd"),
    ("\ud83d\ude00", "😀"),  # two halves of one character are that character
    ("", ""), ("é\ud83dx", "é\ufffdx"),
])  # fmt: skip
def test_what_databases_refuse_is_replaced(text: str, expected: str) -> None:
    assert clean_text(text) == expected


@draw(100)
@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_time_is_written_as_django_writes_it(moment: datetime) -> None:
    assert bulk_sql.adapt_datetime(moment) == connection.ops.adapt_datetimefield_value(moment)


def test_no_time_is_null() -> None:
    assert bulk_sql.adapt_timestamp(0) is None and bulk_sql.adapt_timestamp(0.0) is None
    assert bulk_sql.adapt_timestamp(NOW.timestamp()) == bulk_sql.adapt_datetime(NOW)


# ---------------------------------------------------------------- rows


def make_card(**changes: Any) -> Card:
    return Card("c", ordinal=7, state=ToolCallState.INPUT_STREAMING, tool=CardTool("bash"), rev=2, seq=5, **changes)


def test_a_call_row_has_the_cards_values_cut_to_their_columns() -> None:
    card = make_card(agent_path=("main", "x" * 400), anomalies=(("ungoverned", 1.0),))
    row = build_call_row(3, card.replace(call_id="i" * 301, tool=CardTool("t\x00" + "t" * 400, kind="execute")))
    assert (row.run_id, row.ordinal, row.rev, row.seq, row.text_seq) == (3, 7, 2, 5, 5)
    assert (len(row.call_id), len(row.tool), row.tool[:2], row.kind) == (300, 300, "t\ufffd", "execute")
    assert row.agent == ("main › " + "x" * 400)[:300]
    assert (row.state, row.waiting, row.removed, row.beyond_control) == ("input-streaming", False, False, True)
    assert (row.started_at, row.requested_at, row.finished_at) == (None, None, None)
    assert bulk_sql.get_search_values(card)[bulk_sql.SEARCH_COLUMNS.index("call_id")] == "c"
    assert CallRow._fields[2 : 2 + len(bulk_sql.SEARCH_COLUMNS)] == bulk_sql.SEARCH_COLUMNS


@loop_over("text, is_kept", [("plain", False), ("é", False), ("a\x00", True), ("\ud83d", True)])
def test_a_text_that_its_column_cannot_hold_is_kept_in_the_card(text: str, is_kept: bool) -> None:
    row = build_call_row(1, make_card(text=text))
    assert row.text == clean_text(text)
    stored_call = ToolCall(**{name: getattr(row, name) for name in ("run_id", "ordinal", "card", "text", "rev", "seq")})
    assert str(stored_call.as_card().text) == text
    assert (len(row.card) > len(build_call_row(1, make_card(text="")).card)) is is_kept


def test_a_removed_call_does_not_wait(a_call: Callable[..., ToolCall]) -> None:
    card = a_call("approval-requested").as_card()
    place = bulk_sql.SEARCH_COLUMNS.index("waiting")
    assert bulk_sql.get_search_values(card)[place] is True
    assert bulk_sql.get_search_values(card.replace(removed=True))[place] is False


def select(columns: str, table: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM toolcards_{table} ORDER BY id")
        return cursor.fetchall()


@pytest.fixture
def empty_run(db: None) -> Any:
    """A run without events, which is deleted before the log is checked."""
    source = AgentKey.objects.ensure("tck_" + "b" * 43, name="an agent").source
    with allow_log_writes():
        run = Run.objects.create(source=source, name="bulk", scrubbed_at=NOW, seq=4)
    yield run
    with allow_log_writes(), allow_event_changes():
        run.delete()


def test_events_are_sealed_and_read_back_in_order(empty_run: Run) -> None:
    facts = [f.dump(f.TextDelta(text=f"é {n}", at=float(n))) for n in range(3)]
    rows = [EventRow(empty_run.pk, n + 1, float(n), n, fact, n != 1) for n, fact in enumerate(facts)]
    with allow_log_writes(), connection.cursor() as cursor:
        bulk_sql.insert_events(cursor, rows)
        bulk_sql.insert_events(cursor, [])
    assert all(encryption.MARK in text and "é" not in text for (text,) in select("fact", "event"))
    events = list(Event.objects.after(empty_run, 0))
    assert [(e.seq, e.at, e.ordinal, e.fact, e.applied) for e in events] == [tuple(row)[1:] for row in rows]
    with allow_log_writes(), allow_event_changes(), connection.cursor() as cursor:
        masked_fact = f.dump(f.TextDelta(text="masked"))
        bulk_sql.update_facts(
            cursor, [FactUpdate(masked_fact, True, empty_run.pk, 2), FactUpdate(masked_fact, True, -1, 3)]
        )
    assert [(e.fact, e.applied) for e in Event.objects.after(empty_run, 0)] == [
        (facts[0], True), (masked_fact, True), (facts[2], True),
    ]  # fmt: skip
    assert encryption.MARK in select("fact", "event")[1][0]


def test_a_call_is_inserted_once_then_replaced_and_leaves_the_search_index(empty_run: Run) -> None:
    def write(card: Card) -> None:
        with allow_log_writes(), connection.cursor() as cursor:
            bulk_sql.write_calls(cursor, [build_call_row(empty_run.pk, card)])

    write(make_card(text="one"))
    with allow_log_writes():
        ToolCall.objects.update(indexed=True)
    write(make_card(text="two", agent_path=("main",)).replace(rev=9, seq=8, tool=CardTool("mail")))
    (call,) = ToolCall.objects.all()
    assert (call.text, call.tool, call.agent, call.rev, call.seq, call.indexed) == ("two", "mail", "main", 9, 8, False)
    assert call.as_card().rev == 9
    ((card, text),) = select("card, text", "toolcall")
    assert card.startswith(encryption.MARK) and text.startswith(encryption.MARK)
    with allow_log_writes(), connection.cursor() as cursor:
        bulk_sql.update_positions(cursor, [CallPosition(10, 11, empty_run.pk, 7), CallPosition(1, 1, empty_run.pk, 8)])
    assert list(ToolCall.objects.values_list("rev", "seq", "text_seq")) == [(10, 11, 8)]


@loop_over("masked_seq, is_masked", [(4, True), (5, False)])
def test_a_run_that_got_events_must_be_masked_again(masked_seq: int, is_masked: bool, empty_run: Run) -> None:
    values = {
        "agent": "bot", "title": "é", "protocol": "native", "mode": "gate", "status": "error", "reason": "why",
        "updated_at": bulk_sql.adapt_datetime(NOW), "ended_at": None, "alive_until": 1.5, "seq": 4, "calls": 3,
        "counts": "{}", "skipped": 2, "skipped_kinds": "{}", "context": '{"a":1}', "numbers": "[3]",
    }  # fmt: skip
    with allow_log_writes():
        Run.objects.update(scrubbed_at=NOW, seq=4)
        with connection.cursor() as cursor:
            bulk_sql.update_runs(cursor, [RunUpdate(**values, masked_seq=masked_seq, id=empty_run.pk)])
    row = Run.objects.get()
    assert {name: getattr(row, name) for name in values} == values | {"updated_at": NOW}
    assert (row.scrubbed_at is not None) is is_masked
    ((context,),) = select("context", "run")
    assert context.startswith(encryption.MARK)


def test_every_column_of_a_run_but_those_of_others_is_updated() -> None:
    names = {field.attname for field in Run._meta.concrete_fields}
    assert names - set(RunUpdate._fields) == {"source_id", "name", "started_at", "beats", "scrubbed_at"}
    assert set(RunUpdate._fields) - names == {"masked_seq"}
    assert {field.attname for field in ToolCall._meta.concrete_fields} - set(CallRow._fields) == {"id", "indexed"}
    assert {field.attname for field in Event._meta.concrete_fields} - set(EventRow._fields) == {"id"}


def test_runs_are_found_by_their_source_and_name(a_run: Callable[..., Run]) -> None:
    first, second = a_run("a"), a_run("b")
    source = first.source_id
    assert bulk_sql.find_runs([]) == set()
    keys = [(source, "a"), (source, "none"), (source + 1, "b"), (source, "b"), (source, "a")]
    assert bulk_sql.find_runs(iter(keys)) == {first.pk, second.pk}


@pytest.mark.django_db
def test_uses_are_added_and_not_set() -> None:
    row = BreakGlass.objects.create(by="ann", reason="why", at=1.0, until=2.0, passed=2)
    bulk_sql.add_uses({})
    bulk_sql.add_uses({("toolcards_breakglass", row.pk): 3, ("toolcards_grant", "none"): 1})
    row.refresh_from_db()
    assert row.passed == 5
