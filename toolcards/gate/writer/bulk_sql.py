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
_EVENT = "INSERT INTO toolcards_event (run_id, seq, at, ordinal, fact, applied) VALUES (%s, %s, %s, %s, %s, %s)"
_EVENT_COPY = "COPY toolcards_event (run_id, seq, at, ordinal, fact, applied) FROM STDIN"
FOUND_BY = (  # what calls are looked for by; `found_by` has it from the card
    "call_id", "tool", "kind", "agent", "state", "soft", "waiting", "removed", "rev", "seq", "first_seq",
    "beyond_control",
)  # fmt: skip
_CALL_COLUMNS = (
    "run_id", "ordinal", *FOUND_BY, "started_at", "requested_at", "finished_at", "card", "text", "text_seq",
)  # fmt: skip
_WRITE_CALL = (
    f"INSERT INTO toolcards_toolcall ({', '.join(_CALL_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_CALL_COLUMNS))})"
    " ON CONFLICT (run_id, ordinal) DO UPDATE SET " + ", ".join(f"{c} = excluded.{c}" for c in _CALL_COLUMNS[2:])
)
CALL_GREW = "UPDATE toolcards_toolcall SET rev = %s, seq = %s WHERE run_id = %s AND ordinal = %s"
_RUN_COLUMNS = (
    "agent", "title", "protocol", "mode", "status", "reason", "updated_at", "ended_at", "alive_until", "seq", "calls",
    "counts", "skipped", "skipped_kinds", "context", "numbers",
)  # fmt: skip
_WRITE_RUN = (  # a run with new facts is one that retention has not seen
    f"UPDATE toolcards_run SET {', '.join(f'{c} = %s' for c in _RUN_COLUMNS)},"
    " scrubbed_at = CASE WHEN seq = %s THEN scrubbed_at ELSE NULL END WHERE id = %s"
)


_REWRITE = "UPDATE toolcards_event SET fact = %s, applied = %s WHERE run_id = %s AND seq = %s"


def _column(model: Any, name: str) -> Callable[[Iterable[str]], list[str]]:
    seal: Callable[[Iterable[str]], list[str]] = model._meta.get_field(name).seal
    return seal


_FACT, _CONTEXT = _column(Event, "fact"), _column(Run, "context")
_CARD, _TEXT = _column(ToolCall, "card"), _column(ToolCall, "text")


def found_by(card: Card) -> tuple[Any, ...]:
    """Return the columns `FOUND_BY` as the card has them."""
    return (
        plain(card.call_id, 300), plain(card.tool.name, 300), card.tool.kind, plain(" › ".join(card.agent_path), 300),
        str(card.state or ""), card.soft, card.waiting and not card.removed, card.removed, card.rev, card.seq,
        card.first_seq, any(code in BEYOND_CONTROL for code, _ in card.anomalies),
    )  # fmt: skip


def append(cursor: Any, events: Rows) -> None:
    """Add to the log: COPY where there is COPY, it is twice as fast."""
    facts = _FACT(event[4] for event in events)
    rows = [(*event[:4], fact, event[5]) for event, fact in zip(events, facts, strict=True)]
    if connection.vendor != "postgresql":
        cursor.executemany(_EVENT, rows)
        return
    with connection.wrap_database_errors, cursor.copy(_EVENT_COPY) as copy:  # Django does not wrap what COPY raises
        for row in rows:
            copy.write_row(row)


def rewrite(cursor: Any, rows: Rows) -> None:
    """Put other facts, each a (fact, applied, run, seq), into the log: retention alone may do that."""
    facts = _FACT(row[0] for row in rows)
    cursor.executemany(_REWRITE, [(fact, *row[1:]) for row, fact in zip(rows, facts, strict=True)])


def write_calls(cursor: Any, rows: Rows) -> None:
    """Write these calls, whether or not they are there."""
    cards, texts = _CARD(row[-3] for row in rows), _TEXT(row[-2] for row in rows)
    sealed = zip(rows, cards, texts, strict=True)
    cursor.executemany(_WRITE_CALL, [(*row[:-3], card, text, row[-1]) for row, card, text in sealed])


def write_runs(cursor: Any, rows: Rows) -> None:
    """Write these runs, which are there."""
    contexts = _CONTEXT(row[-4] for row in rows)
    sealed = zip(rows, contexts, strict=True)
    cursor.executemany(_WRITE_RUN, [(*row[:-4], context, *row[-3:]) for row, context in sealed])


def plain(text: str, size: int) -> str:
    """Return the text fit for a database column: no NUL, no lone surrogates, not too long."""
    return ascii_text(text)[:size]


def ascii_text(text: str) -> str:
    """Return the text without what PostgreSQL refuses; the card keeps the original."""
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def moment(at: float) -> Any:
    """Return epoch seconds as the database wants a timestamp."""
    if not at:
        return None
    return connection.ops.adapt_datetimefield_value(datetime.fromtimestamp(at, UTC))
