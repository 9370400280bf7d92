"""The interface of a page's board: the changes of one tick, and how they become parts of the page."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from dashboard.live.frames import Frame
from toolcards.core.calls.card import ToolCallState
from toolcards.models import ToolCall

THROTTLE_SECONDS = 1.0  # seconds between two renderings of the throttled parts
PENDING_SECONDS = 0.25  # seconds until cards that wait for their turn are rendered, or a count is looked at
MOST_REPEATS = 5  # cards of a tick that only got more input or output
MAX_CALLS = 5_000  # whose last tick is remembered
GROWING = frozenset({ToolCallState.INPUT_STREAMING, ToolCallState.INPUT_AVAILABLE})


@dataclass(frozen=True, slots=True)
class BoardNews:
    """The changes since the last tick: calls with their rows, runs that rang, and changed switches."""

    calls: list[ToolCall] = field(default_factory=list)
    runs: frozenset[int] = frozenset()
    switched: bool = False


class RepeatedCards:
    """The calls of a board that wait for their turn.

    A call whose state is new, and every call that no longer grows, has its turn at once. Calls that only grow take
    turns, the one that waited longest first; without news, all of them have theirs.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, ToolCall] = {}  # latest row of each call
        self._last_turns: dict[int, tuple[str, int]] = {}  # growing call -> its state then, and the number of the turn
        self._turn = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def select(self, calls: Iterable[ToolCall]) -> list[ToolCall]:
        """Add changed calls; return those that have their turn."""
        changed_calls = {call.pk: call for call in calls}
        self._waiting |= changed_calls
        self._turn += 1
        later: set[int] = set()
        if changed_calls and len(self._waiting) > MOST_REPEATS:
            growing = [pk for pk, call in self._waiting.items() if self._only_grew(call)]
            later.update(sorted(growing, key=lambda pk: self._last_turns[pk][1])[MOST_REPEATS:])
        chosen_calls = [self._waiting.pop(pk) for pk in list(self._waiting) if pk not in later]
        for call in chosen_calls:
            self._remember(call)
        return chosen_calls

    def _only_grew(self, call: ToolCall) -> bool:
        return not call.removed and self._last_turns.get(call.pk, ("", 0))[0] == call.state

    def _remember(self, call: ToolCall) -> None:
        if call.state not in GROWING:
            self._last_turns.pop(call.pk, None)
            return
        if len(self._last_turns) >= MAX_CALLS:
            self._last_turns.clear()
        self._last_turns[call.pk] = (call.state, self._turn)


class LiveBoard:
    """One view of the data. `runs`: those that it needs, None for all; `every`: also calls without approval."""

    runs: frozenset[int] | None = None
    every = True

    def __init__(self) -> None:
        self._stale_since = 0.0
        self._drawn_at = 0.0
        self._repeated = RepeatedCards()

    def render_all(self) -> Frame:
        """Render the whole board.

        A browser gets it first, and again if it fell behind.
        """
        return Frame({**self.render_cards(), **self.render_throttled()})

    def render_changes(self, news: BoardNews) -> Frame:
        """Return the changed parts.

        Throttled parts are rendered at most once a second; cards that only grow take turns.
        """
        is_touched = bool(news.runs) if self.runs is None else bool(news.runs & self.runs)
        calls = self._select_calls(news.calls)
        parts = self.render_changed_cards(calls) if calls else {}
        if is_touched and not self._stale_since:
            self._stale_since = time.monotonic()
        if self._stale_since and time.monotonic() - self._drawn_at >= THROTTLE_SECONDS:
            self._drawn_at, self._stale_since = time.monotonic(), 0.0
            parts |= self.render_throttled()
        return Frame(parts)

    def _select_calls(self, calls: list[ToolCall]) -> list[ToolCall]:
        """Return the calls to render in this tick: of all calls those that have their turn, of approvals every one."""
        if not self.every:
            return calls
        return self._repeated.select([call for call in calls if self.runs is None or call.run_id in self.runs])

    @property
    def pending_seconds(self) -> float:
        """Return the seconds until parts are due without news, or infinity."""
        if self._repeated:
            return PENDING_SECONDS
        return self._drawn_at + THROTTLE_SECONDS - time.monotonic() if self._stale_since else math.inf

    def render_cards(self) -> dict[str, str]:
        """Return the cards of the board."""
        return {}

    def render_changed_cards(self, calls: Iterable[ToolCall]) -> dict[str, str]:
        """Return how the page handles the changed cards."""
        return {}

    def render_throttled(self) -> dict[str, str]:
        """Render the throttled parts: numbers, tables and pictures."""
        return {}
