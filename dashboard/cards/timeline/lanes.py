"""The lanes of a timeline: one per agent, sub-agents below their caller, and the calls in rows that do not overlap."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from toolcards.core.calls.card import Card
from toolcards.models import ToolCall

LaneKey = tuple[tuple[str, ...], str]  # path of the agent, and the lane of its stream
MAX_DEPTH = 6  # of the indentation
MAX_LANES = 60  # a picture's; calls of further agents share the last one


class TimedCall(NamedTuple):
    """A call, and its card with a time."""

    call: ToolCall
    card: Card


@dataclass
class TimelineLane:
    """One agent; it has as many rows as calls that run at the same time."""

    name: str
    title: str
    depth: int = 0
    calls: list[tuple[int, TimedCall]] = field(default_factory=list)  # with the row of each
    row_ends: list[float] = field(default_factory=list)  # when each row is free again
    is_shared: bool = False  # by several agents

    def place(self, timed_call: TimedCall, end: float) -> None:
        """Put the call in the first free row.

        `end`: when the next call of that row may begin.
        """
        start = find_start(timed_call.card)
        row = next((number for number, free in enumerate(self.row_ends) if free <= start), len(self.row_ends))
        self.row_ends[row : row + 1] = [end]
        self.calls.append((row, timed_call))


def find_start(card: Card) -> float:
    """Return when the call began, 0 if that is unknown."""
    times = card.times
    return times.started or times.available or times.requested


def find_end(card: Card, last: float) -> float:
    """Return when the call ended; `last` if it is open."""
    if card.finished or not last:
        return card.times.finished or last or find_start(card)
    return last


def build_lanes(timed_calls: list[TimedCall], agent: str, first: float, last: float) -> list[TimelineLane]:
    """Return the lanes in the order of a tree.

    Each sub-agent is below the lane that called it. `agent` names the run's own lane; `first` and `last` are the
    ends of the picture, in seconds.
    """
    lanes: dict[LaneKey, TimelineLane] = {}
    gap = 0.02 * (last - first)  # room for the sign of how a call ended
    for timed_call in timed_calls:
        card = timed_call.card
        key = (card.agent_path, card.lane)
        if key not in lanes:
            title = " › ".join(card.agent_path) or agent or "agent"
            lanes[key] = TimelineLane(card.agent_path[-1] if card.agent_path else title, title)
        lanes[key].place(timed_call, max(find_start(card), find_end(card, last)) + gap)
    ordered_lanes = _order_as_tree(lanes, _find_parents(timed_calls, lanes))
    _number_same_names(ordered_lanes)
    if len(ordered_lanes) > MAX_LANES:
        ordered_lanes[MAX_LANES - 1 :] = [_merge_lanes(ordered_lanes[MAX_LANES - 1 :], last, gap)]
    return ordered_lanes


def _merge_lanes(lanes: list[TimelineLane], last: float, gap: float) -> TimelineLane:
    name = f"{len(lanes)} more agents"
    merged_lane = TimelineLane(name, name, is_shared=True)
    calls = [timed_call for lane in lanes for _, timed_call in lane.calls]
    calls.sort(key=lambda timed_call: find_start(timed_call.card))
    for timed_call in calls:
        card = timed_call.card
        merged_lane.place(timed_call, max(find_start(card), find_end(card, last)) + gap)
    return merged_lane


def _find_parents(timed_calls: list[TimedCall], lanes: Iterable[LaneKey]) -> dict[LaneKey, LaneKey]:
    """Return the lane of the call that started each sub-agent, else the lane with the start of its path."""
    lane_of_call = {card.call_id: (card.agent_path, card.lane) for _, card in timed_calls}
    lane_of_path: dict[tuple[str, ...], LaneKey] = {}
    for key in lanes:
        lane_of_path.setdefault(key[0], key)
    parents: dict[LaneKey, LaneKey] = {}
    for key in lanes:
        starts = [key[0][:length] for length in range(len(key[0]) - 1, -1, -1)]
        if parent := next((lane_of_path[start] for start in starts if start in lane_of_path), None):
            parents[key] = parent
    for _, card in timed_calls:
        key, parent = (card.agent_path, card.lane), lane_of_call.get(card.parent_call)
        if parent and parent != key:
            parents[key] = parent
    return parents


def _order_as_tree(lanes: dict[LaneKey, TimelineLane], parents: dict[LaneKey, LaneKey]) -> list[TimelineLane]:
    """Return every lane once; if agents claim parents in a circle, those lanes have no parent."""
    children: dict[LaneKey | None, list[LaneKey]] = {}
    for key in lanes:
        children.setdefault(parents.get(key), []).append(key)
    ordered_keys: dict[LaneKey, None] = {}
    for root in [*children.get(None, []), *lanes]:
        stack = [(root, 0)]
        while stack:
            key, depth = stack.pop()
            if key in ordered_keys:
                continue
            ordered_keys[key] = None
            lanes[key].depth = min(depth, MAX_DEPTH)
            stack += [(child, depth + 1) for child in reversed(children.get(key, []))]
    return [lanes[key] for key in ordered_keys]


def _number_same_names(lanes: Iterable[TimelineLane]) -> None:
    """Tell lanes of one title apart by a number."""
    counts: dict[str, int] = {}
    for lane in lanes:
        number = counts[lane.title] = counts.get(lane.title, 0) + 1
        if number > 1:
            lane.name, lane.title = f"{lane.name} {number}", f"{lane.title} {number}"
