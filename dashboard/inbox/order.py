"""The order of the inbox: calls with a higher risk come first; within a risk, the oldest come first.

Each card carries its place as `data-queue`, by which page scripts insert calls that begin to wait. Cards are rendered
once for all pages, so `dashboard.cards.card_view` asks here; nothing else of the cards knows the inbox.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter

from toolcards.core.calls.card import Card
from toolcards.core.risk.assessment import LEVELS, Risk, assess_call_risk
from toolcards.models import ToolCall

PLACES_PER_LEVEL = 10**13  # more than the milliseconds of any time


@dataclass(frozen=True, slots=True)
class RiskGroup:
    """Calls of one level of risk; `start` is the group's first place in the queue."""

    word: str
    start: int
    calls: list[ToolCall]


def compute_place(risk: Risk, requested_ms: int = 0) -> int:
    """Return the place of a call in the inbox.

    The smallest is first. `requested_ms`: when its approval was requested, in milliseconds; 0 is the first place of its
    risk.
    """
    return risk.rank * PLACES_PER_LEVEL + requested_ms


def read_requested_ms(card: Card) -> int:
    """Return when the approval was requested, in milliseconds."""
    return round((card.times.requested or card.times.started) * 1000)


def group_by_risk(calls: Iterable[ToolCall]) -> list[RiskGroup]:
    """Return the calls in their order, by their risk.

    Includes empty groups, since calls may arrive while the page is open.
    """
    by_level: dict[str, list[ToolCall]] = {level: [] for level in LEVELS}
    for _, level, call in sorted(map(_place_call, calls), key=itemgetter(0)):
        by_level[level].append(call)
    return [RiskGroup(f"{level.title()} risk", compute_place(Risk(level)), by_level[level]) for level in LEVELS]


def _place_call(call: ToolCall) -> tuple[int, str, ToolCall]:
    """Return the call's place, its level of risk, and the call."""
    risk = assess_call_risk(call)
    return compute_place(risk, read_requested_ms(call.as_shown_card())), risk.level, call
