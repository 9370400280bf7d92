"""Skipped frames in words, for the pages of runs and sources."""

from __future__ import annotations

from dataclasses import dataclass

from toolcards.core.runs.skipped_frames import FAULT, OVER_QUOTA, SkippedFrames

MAX_KINDS = 10  # kinds that are named
_CAUSES = {
    FAULT: "because of a fault of the server, which its log names",
    OVER_QUOTA: "because the source had sent as much as it may in an hour",
}


@dataclass(frozen=True, slots=True)
class SkippedFramesView:
    """A sentence, the most frequent kinds with their counts, and the count of the others."""

    sentence: str
    kinds: list[tuple[str, int]]
    other_count: int


def describe_skipped_frames(frames: SkippedFrames) -> SkippedFramesView | None:
    """Return the words for these frames; None if none was skipped."""
    if not frames.total:
        return None
    frequent_kinds = frames.by_number()[:MAX_KINDS]
    known_causes = {kind: frames.kinds[kind] for kind in _CAUSES if kind in frames.kinds}
    unknown_count = frames.total - sum(known_causes.values())
    sentence = _describe_unknown(unknown_count, len(frames.kinds) - len(known_causes), bool(frames.other))
    for kind, number in known_causes.items():
        joint = ", and" if "because" in sentence else " and"
        clause = f"{joint} {_count(number)}" if sentence else f"{_count(number)} {_be(number)} skipped"
        sentence = f"{sentence}{clause} {_CAUSES[kind]}"
    return SkippedFramesView(sentence, frequent_kinds, frames.total - sum(number for _, number in frequent_kinds))


def _describe_unknown(number: int, kinds: int, has_more: bool) -> str:
    if not number:
        return ""
    of_kinds = f"{'more than ' if has_more else ''}{kinds} unknown kind{'s' if kinds != 1 else ''}"
    return f"{_count(number)} of {of_kinds} {_be(number)} skipped"


def _count(number: int) -> str:
    return f"{number} frame{'s' if number != 1 else ''}"


def _be(number: int) -> str:
    return "were" if number != 1 else "was"
