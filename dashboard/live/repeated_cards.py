"""Spreads cards that change again and again over the ticks of a board, so that new cards and states come first."""

from __future__ import annotations

from collections.abc import Iterable

from toolcards.core.calls.card import ToolCallState
from toolcards.models import ToolCall

MOST_REPEATS = 5  # cards of a tick that only got more input or output
MAX_CALLS = 5_000  # whose last tick is remembered
GROWING = frozenset({ToolCallState.INPUT_STREAMING, ToolCallState.INPUT_AVAILABLE})


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
        growing = [pk for pk, call in self._waiting.items() if self._only_grew(call)]
        growing.sort(key=lambda pk: self._last_turns[pk][1])
        later = set(growing[MOST_REPEATS:]) if changed_calls else set()
        chosen_calls = [call for pk, call in self._waiting.items() if pk not in later]
        self._waiting = {pk: call for pk, call in self._waiting.items() if pk in later}
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
