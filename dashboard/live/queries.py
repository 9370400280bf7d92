"""Rows for a tick, read by precompiled statements.

Only the numbers in these statements vary. Composing them with the ORM took ten times as long as running them, which was
half of a tick. The database says which calls changed, and their versions. The card of a version that this process has
just written comes from its writer, so that nothing is opened and parsed; other rows are as the ORM returns them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from django.db import connection

from toolcards import gate
from toolcards.core.calls.card import ToolCallState
from toolcards.core.calls.facts import InputDelta, load
from toolcards.encryption import SealedText, UnreadableText
from toolcards.models import Event, ToolCall
from toolcards.models.runs import FACT_HEAD

MAX_CALLS = 300  # changed calls per tick; others follow with the next
MAX_CACHED_TEXT, MAX_CACHED_TEXTS = 20_000, 2_000  # characters of a cached text, number of cached texts


REPLACEMENT = "\ufffd"  # in a row's text: the value does not fit a column, and the card has the text

_FIELDS: tuple[Any, ...] = ToolCall._meta.concrete_fields
_SEALED = frozenset(place for place, field in enumerate(_FIELDS) if isinstance(field, SealedText))
_VERSION = tuple([field.column for field in _FIELDS].index(name) for name in gate.CardVersion._fields)
_COLUMNS = ", ".join(field.column for field in _FIELDS)
_CALLS = f"SELECT {_COLUMNS} FROM {ToolCall._meta.db_table} WHERE "  # noqa: S608 - our own columns
_PLACE, _NEEDS_PERSON = "(run_id = %s AND seq > %s)", " AND requested_at IS NOT NULL"
_DELTAS = (
    "SELECT ordinal, seq, fact FROM toolcards_event"
    " WHERE run_id = %s AND seq > %s AND seq <= %s AND fact LIKE %s ORDER BY seq"
)
_IS_DELTA = f'{FACT_HEAD}{InputDelta.type}"%'
_FACT: Any = Event._meta.get_field("fact")


def fetch_changed_calls(after: Mapping[int, int], *, asked_only: bool) -> list[ToolCall]:
    """Return calls that changed after these positions, oldest first.

    `after`: a position for each run. One more than MAX_CALLS are returned if there are more.
    `asked_only`: only calls that need or needed approval.
    """
    places = " OR ".join([_PLACE] * len(after))
    statement = f"{_CALLS}({places}){_NEEDS_PERSON if asked_only else ''} ORDER BY seq LIMIT {MAX_CALLS + 1}"
    with connection.cursor() as cursor:
        cursor.execute(statement, [number for place in after.items() for number in place])
        return [_build_call(row) for row in cursor.fetchall()]


def _build_call(row: tuple[Any, ...]) -> ToolCall:
    """Return the call of a row.

    Sealed columns of a version that this process has just written stay closed, and are read again where they are used.
    """
    written_card = gate.find_committed_card(gate.CardVersion(*[row[place] for place in _VERSION]))
    names, places, converters = _prepare_columns(connection.vendor, is_open=written_card is None)
    values = [row[place] for place in places]
    for place, convert, column in converters:
        values[place] = convert(values[place], column, connection)
    call = ToolCall.from_db(connection.alias, names, values)
    call.written_card = written_card
    return call


class StreamingInputs:
    """The streaming inputs as of the last tick.

    Rows of such calls lag behind the log. With the cached text, one statement per run reads the new deltas; without it,
    each card would read all deltas that its row lacks.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[int, int], tuple[int, str]] = {}  # run, ordinal -> position, text up to that position

    def complete(self, calls: Iterable[ToolCall]) -> None:
        """Add the text that the rows of these calls lack."""
        behind: dict[int, dict[int, ToolCall]] = {}
        for call in calls:
            cached_text = self._texts.pop((call.run_id, call.ordinal), None)
            if (
                call.state != ToolCallState.INPUT_STREAMING
                or call.written_card is not None
                or call.is_unreadable
                or not call.text
                or REPLACEMENT in call.text
            ):
                continue
            if cached_text and call.text_seq < cached_text[0] <= call.seq:
                call.text_seq, call.text = cached_text
            behind.setdefault(call.run_id, {})[call.ordinal] = call
        for run, of_run in behind.items():
            self._add(run, of_run)
            self._remember(of_run.values())

    def _add(self, run: int, calls: dict[int, ToolCall]) -> None:
        """Add the deltas that the log has beyond the rows."""
        first, last = min(call.text_seq for call in calls.values()), max(call.seq for call in calls.values())
        if first == last:
            return
        with connection.cursor() as cursor:
            cursor.execute(_DELTAS, [run, first, last, _IS_DELTA])
            events = cursor.fetchall()
        late: dict[int, list[str]] = {ordinal: [] for ordinal in calls}
        for ordinal, seq, fact_text in events:
            if ordinal in calls and calls[ordinal].text_seq < seq <= calls[ordinal].seq:
                late[ordinal].append(_read_delta(_FACT.from_db_value(fact_text, None, connection)))
        for ordinal, call in calls.items():
            call.text, call.text_seq = call.text + "".join(late[ordinal]), call.seq

    def _remember(self, calls: Iterable[ToolCall]) -> None:
        for call in calls:
            if len(call.text) <= MAX_CACHED_TEXT:
                self._texts[call.run_id, call.ordinal] = call.seq, call.text
        if len(self._texts) > MAX_CACHED_TEXTS:
            self._texts.clear()


def _read_delta(fact: str) -> str:
    """Return the text of a delta, "" if no key decrypts it."""
    fact_read = "" if type(fact) is UnreadableText else load(fact)
    return fact_read.text if isinstance(fact_read, InputDelta) else ""


@cache
def _prepare_columns(
    vendor: str, *, is_open: bool
) -> tuple[list[str], list[int], list[tuple[int, Callable[..., Any], Any]]]:
    """Return names and places of the columns, and converters of their values: times, booleans, encrypted text."""
    places = [place for place in range(len(_FIELDS)) if is_open or place not in _SEALED]
    columns = [_FIELDS[place].get_col(ToolCall._meta.db_table) for place in places]
    converters = [
        (position, convert, column)
        for position, column in enumerate(columns)
        for convert in (*connection.ops.get_db_converters(column), *column.get_db_converters(connection))
    ]
    return [_FIELDS[place].attname for place in places], places, converters
