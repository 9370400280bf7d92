"""One tick of the hub: the calls that changed since the last tick, and the changes of each board.

Runs in the hub's own thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from operator import methodcaller
from typing import Any

from django.db import connection
from django.utils import timezone

from dashboard.live.base_board import BoardNews, LiveBoard
from dashboard.live.frames import Frame
from toolcards import gate
from toolcards.core.calls.card import ToolCallState
from toolcards.core.calls.facts import InputDelta, load
from toolcards.database import is_transient
from toolcards.doorbell import EVERY_RUN
from toolcards.encryption import SealedText, UnreadableText
from toolcards.models import Event, Run, ToolCall
from toolcards.models.runs import FACT_HEAD

log = logging.getLogger(__name__)

# Only the numbers in these statements vary. Composing them with the ORM took ten times as long as running them, half of
# a tick. The card of a version that this process has just written comes from its writer, and need not be opened.
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

    Sealed columns of a version that this process has just written stay closed.
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


HEARTBEAT_SECONDS = 2.0  # seconds between two ticks without a ring: the delay after a lost ring
RECENT_WRITES = timedelta(seconds=HEARTBEAT_SECONDS + 3)  # seconds before a tick of all runs; older changes were read
MAX_RUNS = 5_000  # newest runs that a new board of all calls covers; also the limit of cached names
MAX_RUNS_PER_QUERY = 50  # runs in one statement

Boards = Mapping[Hashable, LiveBoard]


@dataclass(frozen=True, slots=True)
class TickResult:
    """The result of a tick: a frame per board, requested whole boards, and `unfinished` runs, to read again.

    A board without a frame, or a requested one without a whole, cannot be rendered. `spent`: seconds of CPU.
    """

    frames: dict[Hashable, Frame]
    wholes: dict[Hashable, Frame]
    unfinished: frozenset[int]
    spent: float


class ChangeReader:
    """Reads the changes since the last tick."""

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}  # run -> position up to which its calls were read
        self._approval_positions: dict[int, int] = {}  # the same for runs of which only approvals are read
        self._covered: Boards = {}  # the boards of the last tick
        self._runs: dict[int, Run] = {}  # cached for the names of run and source on cards
        self._texts = StreamingInputs()
        self._runs_with_more: set[int] = set()
        self._looked_at, self._looked_everywhere = timezone.now(), time.monotonic()

    def begin(self) -> None:
        """Start from the current positions: existing calls are not changes."""
        self._looked_at, self._looked_everywhere = timezone.now(), time.monotonic()
        self._positions = dict(Run.objects.active().values_list("pk", "seq"))
        self._approval_positions, self._covered = dict(self._positions), {}

    def read(self, rung_runs: set[int], boards: Boards, fresh: Iterable[Hashable]) -> TickResult:
        """Read changes of the runs that rang and render the boards.

        `rung_runs`: with the bells of their approvals; no runs to check all that wrote something. `fresh`: boards to
        render whole.
        """
        # CPU time, because a busy disk or another process must not delay the next tick
        start, self._runs_with_more = time.thread_time(), set()
        late = self._cover(boards)
        news = self._news({run for run in rung_runs if run >= 0}, boards)
        news.calls[:0] = late
        frames = _render_each(boards, methodcaller("render_changes", news))
        fresh_boards = {key: boards[key] for key in fresh if key in boards} if fresh else {}
        wholes = _render_each(fresh_boards, methodcaller("render_all"))
        return TickResult(frames, wholes, frozenset(self._runs_with_more), time.thread_time() - start)

    def _cover(self, boards: Boards) -> list[ToolCall]:
        """Set the positions of runs that only new boards show, and return their latest approvals.

        A new board is rendered whole, so up to 10,000 earlier calls are not news to it. The other boards read only
        the approvals of these runs, and still need those that they have not read.
        """
        before, self._covered = self._covered, boards
        if before.keys() == boards.keys():
            return []
        newly = {key: board for key, board in boards.items() if key not in before and board.every}
        if not newly or any(board.every and board.runs is None for board in before.values()):
            return []
        looked_at = _find_board_runs(before)
        if any(board.runs is None for board in newly.values()):
            rows = Run.objects.order_by("-pk")[:MAX_RUNS]
        else:
            rows = Run.objects.filter(pk__in=_find_board_runs(newly) - looked_at)
        now = [row for row in rows.values_list("pk", "seq", "updated_at") if row[0] not in looked_at]
        self._positions |= {pk: seq for pk, seq, _ in now}
        earliest = self._looked_at - RECENT_WRITES
        return self._fetch({pk for pk, seq, updated_at in now if updated_at >= earliest}, asked_only=True)

    def _news(self, rung_runs: set[int], boards: Boards) -> BoardNews:
        now = timezone.now()
        has_switched, rung_runs = EVERY_RUN in rung_runs, rung_runs - {EVERY_RUN}
        # A lost ring must not stay hidden behind the runs that ring.
        if not rung_runs or time.monotonic() - self._looked_everywhere >= HEARTBEAT_SECONDS:
            oldest = min(now, self._looked_at) - RECENT_WRITES
            changed_runs = Run.objects.filter(updated_at__gte=oldest).values_list("pk", "seq")[:2_000]
            rung_runs = rung_runs | {pk for pk, seq in changed_runs if seq != self._positions.get(pk)}
            self._looked_at, self._looked_everywhere = now, time.monotonic()
        return BoardNews(self._calls(rung_runs, boards), frozenset(rung_runs), has_switched)

    def _calls(self, rung_runs: set[int], boards: Boards) -> list[ToolCall]:
        """Return the changed calls of these runs that any board needs."""
        everywhere = [board for board in boards.values() if board.runs is None]
        own = _find_board_runs(boards) & rung_runs
        calls = self._fetch(own, asked_only=False) if own else []
        if everywhere and (other_runs := rung_runs - own):
            calls += self._fetch(other_runs, asked_only=not any(board.every for board in everywhere))
        return calls

    def _fetch(self, runs: AbstractSet[int], *, asked_only: bool) -> list[ToolCall]:
        calls: list[ToolCall] = []
        run_list, positions = sorted(runs), self._approval_positions if asked_only else self._positions
        for start in range(0, len(run_list), MAX_RUNS_PER_QUERY):
            batch = run_list[start : start + MAX_RUNS_PER_QUERY]
            rows = fetch_changed_calls({pk: positions.get(pk, 0) for pk in batch}, asked_only=asked_only)
            if len(rows) > MAX_CALLS:
                rows.pop()
                self._runs_with_more |= set(batch)
            calls += rows
            for call in rows:
                positions[call.run_id] = max(call.seq, positions.get(call.run_id, 0))
        return self._attach_runs(calls) if calls else calls

    def _attach_runs(self, calls: list[ToolCall]) -> list[ToolCall]:
        """Return the calls with their runs, without calls whose run was deleted."""
        self._texts.complete(calls)
        unknown = {call.run_id for call in calls} - self._runs.keys()
        if unknown:
            if len(self._runs) + len(unknown) > MAX_RUNS:
                self._runs.clear()
                unknown = {call.run_id for call in calls}
            self._runs |= Run.objects.select_related("source").only("name", "source__name").in_bulk(unknown)
        known_calls = [call for call in calls if call.run_id in self._runs]
        for call in known_calls:
            call.run = self._runs[call.run_id]
        return known_calls


def _render_each(boards: Boards, render: Callable[[LiveBoard], Frame]) -> dict[Hashable, Frame]:
    """Return the frames of all boards that can be rendered; one that cannot holds up no other.

    Raises what is an outage of the database, which all of them have.
    """
    frames: dict[Hashable, Frame] = {}
    for key, board in boards.items():
        try:
            frames[key] = render(board)
        except Exception as error:
            if is_transient(error):
                raise
            log.exception("live: the board %s cannot be rendered", key)
    return frames


def _find_board_runs(boards: Boards) -> frozenset[int]:
    """Return the runs that the boards name."""
    return frozenset().union(*[board.runs or () for board in boards.values()])
