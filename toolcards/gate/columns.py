"""The raw statements of the hot rows (events, calls, runs), and values made fit for their columns."""

# ruff: noqa: S608 - what is put into the statements are the columns named here
from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import connection

_EVENT = "INSERT INTO toolcards_event (run_id, seq, at, ordinal, fact, applied) VALUES (%s, %s, %s, %s, %s, %s)"
_EVENT_COPY = "COPY toolcards_event (run_id, seq, at, ordinal, fact, applied) FROM STDIN"
_CALL_COLUMNS = (
    "run_id", "ordinal", "call_id", "tool", "kind", "agent", "state", "soft", "waiting", "removed", "rev", "seq",
    "first_seq", "started_at", "requested_at", "finished_at", "card", "text", "text_seq",
)  # fmt: skip
WRITE_CALL = (
    f"INSERT INTO toolcards_toolcall ({', '.join(_CALL_COLUMNS)}) VALUES ({', '.join(['%s'] * len(_CALL_COLUMNS))})"
    " ON CONFLICT (run_id, ordinal) DO UPDATE SET " + ", ".join(f"{c} = excluded.{c}" for c in _CALL_COLUMNS[2:])
)
CALL_GREW = "UPDATE toolcards_toolcall SET rev = %s, seq = %s WHERE run_id = %s AND ordinal = %s"
_RUN_COLUMNS = (
    "agent", "title", "protocol", "mode", "status", "reason", "updated_at", "ended_at", "alive_until", "seq", "calls",
    "counts", "context", "numbers",
)  # fmt: skip
WRITE_RUN = (  # a run with new facts is one that retention has not seen
    f"UPDATE toolcards_run SET {', '.join(f'{c} = %s' for c in _RUN_COLUMNS)},"
    " scrubbed_at = CASE WHEN seq = %s THEN scrubbed_at ELSE NULL END WHERE id = %s"
)


def append(cursor: Any, events: list[tuple[Any, ...]]) -> None:
    """Add to the log: COPY where there is COPY, it is twice as fast."""
    if connection.vendor != "postgresql":
        cursor.executemany(_EVENT, events)
        return
    with cursor.copy(_EVENT_COPY) as copy:
        for event in events:
            copy.write_row(event)


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
