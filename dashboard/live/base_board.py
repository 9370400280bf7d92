"""The interface of a page's board: the changes of one tick, and how they become parts of the page."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from dashboard.live.frames import Frame
from dashboard.live.repeated_cards import RepeatedCards
from toolcards.models import ToolCall

THROTTLE_SECONDS = 1.0  # seconds between two renderings of the throttled parts


@dataclass(frozen=True, slots=True)
class BoardNews:
    """The changes since the last tick: calls with their rows, runs that rang, and changed switches."""

    calls: list[ToolCall] = field(default_factory=list)
    runs: frozenset[int] = frozenset()
    switched: bool = False


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
        touched = bool(news.runs) if self.runs is None else bool(news.runs & self.runs)
        calls = self._select_calls(news.calls)
        parts = self.render_changed_cards(calls) if calls else {}
        if touched and not self._stale_since:
            self._stale_since = time.monotonic()
        if self._stale_since and time.monotonic() - self._drawn_at >= THROTTLE_SECONDS:
            self._drawn_at, self._stale_since = time.monotonic(), 0.0
            parts |= self.render_throttled()
        return Frame(parts)

    def _select_calls(self, calls: list[ToolCall]) -> list[ToolCall]:
        """Return the calls to render in this tick: of all calls those that have their turn, of approvals every one."""
        if not self.every:
            return calls
        return self._repeated.select(call for call in calls if self.runs is None or call.run_id in self.runs)

    @property
    def has_pending_parts(self) -> bool:
        """Return whether throttled parts or growing cards still have to be rendered."""
        return bool(self._stale_since or self._repeated)

    def render_cards(self) -> dict[str, str]:
        """Return the cards of the board."""
        return {}

    def render_changed_cards(self, calls: Iterable[ToolCall]) -> dict[str, str]:
        """Return how the page handles the changed cards."""
        return {}

    def render_throttled(self) -> dict[str, str]:
        """Render the throttled parts: numbers, tables and pictures."""
        return {}
