"""The duration strip of a card: how long it was written, waited and ran."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.cards.times import format_duration
from toolcards.core.calls.call_json import compute_durations
from toolcards.core.calls.card import Card

_PHASE_WORDS = {"write": "writing", "wait": "waiting", "run": "running"}
_PARTS = {name: part for part, name in _PHASE_WORDS.items()}
OPEN_SHARE = 60.0  # of the line, for a phase that has not ended and so has no length yet


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of the duration bar: its place on a line of 100, and its meaning."""

    part: str
    x: float
    width: float
    description: str


def compute_segments(card: Card) -> list[Segment]:
    """Return the phases: writing, waiting for a person, running.

    Those that ended have widths by their lengths. A call that waits ends with an open segment of a fixed width, so that
    the picture depends on the card alone and not on the clock.
    """
    parts = [(name, length) for name, length in _list_phases(card) if length is not None and length > 0]
    total = sum(length for _, length in parts) or 1
    widths = [max(2.0, length / total * 100) for _, length in parts]
    room = 100 - OPEN_SHARE if card.unanswered else 100.0
    segments, x = [], 0.0
    for (name, length), width in zip(parts, widths, strict=True):
        share = width / sum(widths) * room
        segments.append(Segment(name, round(x, 1), round(share, 1), f"{_PHASE_WORDS[name]} {format_duration(length)}"))
        x += share
    if card.unanswered:
        segments.append(Segment("wait", round(x, 1), round(100 - x, 1), _PHASE_WORDS["wait"]))
    return segments


def _list_phases(card: Card) -> list[tuple[str, float | None]]:
    """Return each phase with its length in seconds, as the API has it."""
    lengths = compute_durations(card)
    return [(part, None if (ms := lengths[name]) is None else ms / 1000) for name, part in _PARTS.items()]
