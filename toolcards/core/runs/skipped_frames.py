"""Frames of unknown kinds and frames that could not be recorded, and their bounded count per run.

Kinds are text of the agent: a run keeps the first `MAX_KINDS`, each cut to `MAX_KIND_LENGTH` characters. Frames of
further kinds are only counted, as `other`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

MAX_KINDS = 50
MAX_KIND_LENGTH = 80
EMPTY = "(empty)"
FAULT = "not recorded"  # the kind of frames that a fault of the server cost
OVER_QUOTA = "over the quota"  # the kind of frames of a source that had sent as much as it may


@dataclass(frozen=True, slots=True)
class SkippedFrame:
    """One frame of a kind unknown to its adapter, or one that was not recorded (`FAULT`, `OVER_QUOTA`)."""

    kind: str


@dataclass(slots=True)
class SkippedFrames:
    """The number of skipped frames of a run, in total and by kind."""

    total: int = 0
    kinds: dict[str, int] = field(default_factory=dict)

    @property
    def other(self) -> int:
        """Return the number of frames beyond the first `MAX_KINDS` kinds."""
        return self.total - sum(self.kinds.values())

    def count(self, kind: str) -> None:
        """Add one frame."""
        name = shorten(kind)
        self.total += 1
        if name in self.kinds or len(self.kinds) < MAX_KINDS:
            self.kinds[name] = self.kinds.get(name, 0) + 1

    def add(self, frames: SkippedFrames) -> None:
        """Add the frames of another run."""
        self.total += frames.total
        for name, number in frames.kinds.items():
            if name in self.kinds or len(self.kinds) < MAX_KINDS:
                self.kinds[name] = self.kinds.get(name, 0) + number

    def by_number(self) -> list[tuple[str, int]]:
        """Return kinds with their numbers, the most frequent first."""
        return sorted(self.kinds.items(), key=lambda entry: (-entry[1], entry[0]))

    def dump_kinds(self) -> str:
        """Return the kinds as JSON."""
        return json.dumps(self.kinds, separators=(",", ":"))


def shorten(kind: str) -> str:
    """Return a kind of limited length that is never empty."""
    return (kind if len(kind) <= MAX_KIND_LENGTH else kind[: MAX_KIND_LENGTH - 1] + "…") or EMPTY


def load(total: int, kinds: str) -> SkippedFrames:
    """Return the counts of a run; `kinds` is from `dump_kinds`."""
    return SkippedFrames(total, json.loads(kinds))
