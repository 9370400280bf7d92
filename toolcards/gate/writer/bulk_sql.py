"""Bulk SQL for the busiest tables: events, calls and runs.

Each row is a named tuple whose fields are the columns of its statement, in order. Sealed columns are encrypted here.
"""

# ruff: noqa: S608 - the statements consist of the column names in this module
from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from operator import attrgetter
from typing import Any, NamedTuple

from django.db import connection

from toolcards.core.calls.card import Card
from toolcards.core.calls.card_codec import dump_card
from toolcards.core.policy.tool_names import make_tool_key
from toolcards.encryption import seal
from toolcards.models import Event, Run, ToolCall
from toolcards.models.calls import BEYOND_CONTROL

SEARCH_COLUMNS = (  # what calls are searched by; `get_search_values` reads them from the card
    "call_id", "tool", "tool_key", "kind", "agent", "state", "soft", "waiting", "removed", "rev", "seq", "first_seq",
    "beyond_control",
)  # fmt: skip


class EventRow(NamedTuple):
    """A new row of the event log. `at`: epoch seconds; `fact`: its JSON in clear text."""

    run_id: int
    seq: int
    at: float
    ordinal: int
    fact: str
    applied: bool


class FactUpdate(NamedTuple):
    """The masked fact of an event, and the run and position of that event."""

    fact: str
    applied: bool
    run_id: int
    seq: int


class CallRow(NamedTuple):
    """A whole row of a tool call. The card and its text are in clear; times are as the database adapter wants them."""

    run_id: int
    ordinal: int
    call_id: str
    tool: str
    tool_key: str
    kind: str
    agent: str
    state: str
    soft: bool
    waiting: bool
    removed: bool
    rev: int
    seq: int
    first_seq: int
    beyond_control: bool
    started_at: Any
    requested_at: Any
    finished_at: Any
    card: str
    text: str
    text_seq: int


class CallPosition(NamedTuple):
    """The new revision and log position of a call whose text grew too little to be written again."""

    rev: int
    seq: int
    run_id: int
    ordinal: int


class RunUpdate(NamedTuple):
    """The columns of a run that the gate updates. A row with another `masked_seq` must be masked again."""

    agent: str
    title: str
    protocol: str
    mode: str
    status: str
    reason: str
    updated_at: Any
    ended_at: Any
    alive_until: float | None
    seq: int
    calls: int
    counts: str
    skipped: int
    skipped_kinds: str
    context: str
    numbers: str
    masked_seq: int
    id: int


_EVENT_COLUMNS = ", ".join(EventRow._fields)
_INSERT_EVENT = f"INSERT INTO toolcards_event ({_EVENT_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s)"
_COPY_EVENTS = f"COPY toolcards_event ({_EVENT_COLUMNS}) FROM STDIN"
_UPDATE_FACT = "UPDATE toolcards_event SET fact = %s, applied = %s WHERE run_id = %s AND seq = %s"
_WRITE_CALL = (
    f"INSERT INTO toolcards_toolcall ({', '.join(CallRow._fields)})"
    f" VALUES ({', '.join('%s' for _ in CallRow._fields)}) ON CONFLICT (run_id, ordinal) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in CallRow._fields if name not in {"run_id", "ordinal"})
    + ", indexed = FALSE"
)
_UPDATE_POSITION = "UPDATE toolcards_toolcall SET rev = %s, seq = %s WHERE run_id = %s AND ordinal = %s"
_RUN_COLUMNS = [name for name in RunUpdate._fields if name not in {"masked_seq", "id"}]
_UPDATE_RUN = (
    f"UPDATE toolcards_run SET {', '.join(f'{name} = %s' for name in _RUN_COLUMNS)},"
    " scrubbed_at = CASE WHEN seq = %s THEN scrubbed_at ELSE NULL END WHERE id = %s"
)


_ADD_USES = {
    "toolcards_breakglass": "UPDATE toolcards_breakglass SET passed = passed + %s WHERE id = %s",
    "toolcards_grant": "UPDATE toolcards_grant SET used = used + %s WHERE id = %s",
}


def _get_sealer(model: Any, name: str) -> Callable[[Iterable[str]], list[str]]:
    field = model._meta.get_field(name)
    return partial(seal, place=field.place, head=field.head)


_seal_facts, _seal_contexts = _get_sealer(Event, "fact"), _get_sealer(Run, "context")
_seal_cards, _seal_texts = _get_sealer(ToolCall, "card"), _get_sealer(ToolCall, "text")
_get_fact, _get_context, _get_card, _get_text = map(attrgetter, ("fact", "context", "card", "text"))


def insert_events(cursor: Any, events: list[EventRow]) -> None:
    """Append events to the log.

    On PostgreSQL with COPY, which takes half the time.
    """
    facts = _seal_facts(map(_get_fact, events))
    rows = [
        (event.run_id, event.seq, event.at, event.ordinal, fact, event.applied)
        for event, fact in zip(events, facts, strict=True)
    ]
    if connection.vendor != "postgresql":
        cursor.executemany(_INSERT_EVENT, rows)
        return
    with connection.wrap_database_errors, cursor.copy(_COPY_EVENTS) as copy:  # Django does not wrap errors of COPY
        for row in rows:
            copy.write_row(row)


def update_facts(cursor: Any, updates: list[FactUpdate]) -> None:
    """Replace facts in the log. Only retention may call this."""
    facts = _seal_facts(map(_get_fact, updates))
    rows = [update._replace(fact=fact) for update, fact in zip(updates, facts, strict=True)]
    cursor.executemany(_UPDATE_FACT, rows)


def build_call_row(run_id: int, card: Card) -> CallRow:
    """Return the row of the card's call."""
    card_text = str(card.text)
    text = clean_text(card_text)
    card_json = dump_card(card, with_text=text != card_text)  # keeps characters that the column cannot hold
    values: tuple[Any, ...] = (
        run_id, card.ordinal, *get_search_values(card),
        adapt_timestamp(card.times.started), adapt_timestamp(card.times.requested),
        adapt_timestamp(card.times.finished), card_json, text, card.seq,
    )  # fmt: skip
    return CallRow(*values)


def get_search_values(card: Card) -> tuple[Any, ...]:
    """Return the card's values of `SEARCH_COLUMNS`, in their order."""
    return (
        fit_text(card.call_id, 300), fit_text(card.tool.name, 300),
        make_tool_key(card.tool.name), card.tool.kind,
        fit_text(" › ".join(card.agent_path), 300),
        str(card.state or ""), card.soft, card.waiting and not card.removed, card.removed, card.rev, card.seq,
        card.first_seq, bool(card.anomalies) and not BEYOND_CONTROL.isdisjoint(dict(card.anomalies)),
    )  # fmt: skip


def write_calls(cursor: Any, calls: list[CallRow]) -> None:
    """Insert or update these calls."""
    cards, texts = _seal_cards(map(_get_card, calls)), _seal_texts(map(_get_text, calls))
    rows = [call._replace(card=card, text=text) for call, card, text in zip(calls, cards, texts, strict=True)]
    cursor.executemany(_WRITE_CALL, rows)


def update_positions(cursor: Any, positions: list[CallPosition]) -> None:
    """Update revision and log position of existing calls."""
    cursor.executemany(_UPDATE_POSITION, positions)


def update_runs(cursor: Any, runs: list[RunUpdate]) -> None:
    """Update existing runs."""
    contexts = _seal_contexts(map(_get_context, runs))
    cursor.executemany(_UPDATE_RUN, [run._replace(context=text) for run, text in zip(runs, contexts, strict=True)])


def find_runs(keys: Iterable[tuple[int, str]]) -> set[int]:
    """Return the pks of the existing runs among these (source pk, name)."""
    pairs = list(keys)
    if not pairs:
        return set()
    with connection.cursor() as cursor:
        marks = ", ".join(["(%s, %s)"] * len(pairs))
        cursor.execute(
            f"SELECT id FROM toolcards_run WHERE (source_id, name) IN ({marks})",
            [part for pair in pairs for part in pair],
        )
        return {pk for (pk,) in cursor.fetchall()}


def lock_new_runs(keys: Iterable[tuple[int, str]]) -> None:
    """Let other commits that add these runs wait for this one.

    `keys`: (source pk, name). All take these locks in one order, and before those of rows. Only PostgreSQL has them.
    """
    digests = (hashlib.sha256(f"run {source_id} {name}".encode()).digest() for source_id, name in keys)
    with connection.cursor() as cursor:
        for number in sorted(int.from_bytes(digest[:8], signed=True) for digest in digests):
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])


def add_uses(uses: Mapping[tuple[str, Any], int]) -> None:
    """Add to the counts of grants and break-glass.

    They are given by table and primary key, and written in the order of all writers.
    """
    if uses:
        with connection.cursor() as cursor:
            for table, pk in sorted(uses):
                cursor.execute(_ADD_USES[table], [uses[table, pk], pk])


def fit_text(text: str, size: int) -> str:
    """Make the text fit a database column.

    Replaces NUL and lone surrogates, and cuts at `size` characters.
    """
    return text[:size] if text.isascii() and "\x00" not in text else clean_text(text)[:size]


def clean_text(text: str) -> str:
    """Replace the characters that PostgreSQL refuses: NUL and lone surrogates."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def adapt_timestamp(seconds: float) -> Any:
    """Convert epoch seconds to the database's timestamp, 0 to None."""
    return adapt_datetime(datetime.fromtimestamp(seconds, UTC)) if seconds else None


def adapt_datetime(moment: datetime) -> Any:
    """Convert a time in UTC to the database's timestamp."""
    if _is_text_in_utc():  # what Django makes of it, a tenth of the time
        return str(moment).removesuffix("+00:00")
    return connection.ops.adapt_datetimefield_value(moment)


@cache
def _is_text_in_utc() -> bool:
    return bool(connection.vendor == "sqlite" and connection.timezone is UTC)
