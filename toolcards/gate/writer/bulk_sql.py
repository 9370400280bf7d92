"""The raw statements of the hot rows (events, calls, runs): sealed on their way, and values fit for their columns."""

# ruff: noqa: S608 - what is put into the statements are the columns named here
from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from toolcards.core.calls.card import Card
from toolcards.models import Event, Run, ToolCall
from toolcards.models.calls import BEYOND_CONTROL

Rows = list[tuple[Any, ...]]
_INSERT_EVENT = "INSERT INTO toolcards_event (run_id, seq, at, ordinal, fact, applied) VALUES (%s, %s, %s, %s, %s, %s)"
_COPY_EVENTS = "COPY toolcards_event (run_id, seq, at, ordinal, fact, applied) FROM STDIN"
SEARCH_COLUMNS = (  # what calls are looked for by; `get_search_values` reads them from the card
    "call_id", "tool", "kind", "agent", "state", "soft", "waiting", "removed", "rev", "seq", "first_seq",
    "beyond_control",
)  # fmt: skip
_CALL_COLUMNS = (
    "run_id", "ordinal", *SEARCH_COLUMNS, "started_at", "requested_at", "finished_at", "card", "text", "text_seq",
)  # fmt: skip
_WRITE_CALL = (
    f"INSERT INTO toolcards_toolcall ({', '.join(_CALL_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_CALL_COLUMNS))})"
    " ON CONFLICT (run_id, ordinal) DO UPDATE SET " + ", ".join(f"{c} = excluded.{c}" for c in _CALL_COLUMNS[2:])
)
UPDATE_CALL_POSITION = "UPDATE toolcards_toolcall SET rev = %s, seq = %s WHERE run_id = %s AND ordinal = %s"
_RUN_COLUMNS = (
    "agent", "title", "protocol", "mode", "status", "reason", "updated_at", "ended_at", "alive_until", "seq", "calls",
    "counts", "skipped", "skipped_kinds", "context", "numbers",
)  # fmt: skip
_WRITE_RUN = (  # a run with new facts is one that retention has not seen
    f"UPDATE toolcards_run SET {', '.join(f'{c} = %s' for c in _RUN_COLUMNS)},"
    " scrubbed_at = CASE WHEN seq = %s THEN scrubbed_at ELSE NULL END WHERE id = %s"
)


_UPDATE_FACT = "UPDATE toolcards_event SET fact = %s, applied = %s WHERE run_id = %s AND seq = %s"


def _get_sealer(model: Any, name: str) -> Callable[[Iterable[str]], list[str]]:
    seal: Callable[[Iterable[str]], list[str]] = model._meta.get_field(name).seal
    return seal


_seal_facts, _seal_contexts = _get_sealer(Event, "fact"), _get_sealer(Run, "context")
_seal_cards, _seal_texts = _get_sealer(ToolCall, "card"), _get_sealer(ToolCall, "text")


def get_search_values(card: Card) -> tuple[Any, ...]:
    """Return the columns `FOUND_BY` as the card has them."""
    return (
        fit_text(card.call_id, 300), fit_text(card.tool.name, 300), card.tool.kind,
        fit_text(" › ".join(card.agent_path), 300),
        str(card.state or ""), card.soft, card.waiting and not card.removed, card.removed, card.rev, card.seq,
        card.first_seq, any(code in BEYOND_CONTROL for code, _ in card.anomalies),
    )  # fmt: skip


def insert_events(cursor: Any, events: Rows) -> None:
    """Add to the log: COPY where there is COPY, it is twice as fast."""
    facts = _seal_facts(event[4] for event in events)
    rows = [(*event[:4], fact, event[5]) for event, fact in zip(events, facts, strict=True)]
    if connection.vendor != "postgresql":
        cursor.executemany(_INSERT_EVENT, rows)
        return
    with connection.wrap_database_errors, cursor.copy(_COPY_EVENTS) as copy:  # Django does not wrap what COPY raises
        for row in rows:
            copy.write_row(row)


def update_facts(cursor: Any, rows: Rows) -> None:
    """Put other facts, each a (fact, applied, run, seq), into the log: retention alone may do that."""
    facts = _seal_facts(row[0] for row in rows)
    cursor.executemany(_UPDATE_FACT, [(fact, *row[1:]) for row, fact in zip(rows, facts, strict=True)])


def write_calls(cursor: Any, rows: Rows) -> None:
    """Write these calls, whether or not they are there."""
    cards, texts = _seal_cards(row[-3] for row in rows), _seal_texts(row[-2] for row in rows)
    sealed = zip(rows, cards, texts, strict=True)
    cursor.executemany(_WRITE_CALL, [(*row[:-3], card, text, row[-1]) for row, card, text in sealed])


def write_runs(cursor: Any, rows: Rows) -> None:
    """Write these runs, which are there."""
    contexts = _seal_contexts(row[-4] for row in rows)
    sealed = zip(rows, contexts, strict=True)
    cursor.executemany(_WRITE_RUN, [(*row[:-4], context, *row[-3:]) for row, context in sealed])


def fit_text(text: str, size: int) -> str:
    """Return the text fit for a database column: no NUL, no lone surrogates, not too long."""
    return clean_text(text)[:size]


def clean_text(text: str) -> str:
    """Return the text without what PostgreSQL refuses; the card keeps the original."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def adapt_timestamp(at: float) -> Any:
    """Return epoch seconds as the database wants a timestamp."""
    if not at:
        return None
    return connection.ops.adapt_datetimefield_value(datetime.fromtimestamp(at, UTC))
