"""Frames of unknown kinds in words, for the pages of runs and sources."""

from __future__ import annotations

from dataclasses import dataclass

from toolcards.core.runs.skipped_frames import SkippedFrames

MAX_KINDS = 10  # kinds that are named


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
    kinds, more = len(frames.kinds), "more than " if frames.other else ""
    count_text = f"{frames.total} frame{'s' if frames.total != 1 else ''}"
    of_kinds = f"{more}{kinds} unknown kind{'s' if kinds != 1 else ''}"
    sentence = f"{count_text} of {of_kinds} {'were' if frames.total != 1 else 'was'} skipped"
    return SkippedFramesView(sentence, frequent_kinds, frames.total - sum(number for _, number in frequent_kinds))
