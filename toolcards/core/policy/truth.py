"""Three-valued logic: yes, no, or unknown."""

from __future__ import annotations

from enum import Enum
from typing import Final

UNDECIDED: Final = None  # in place of a value or a bool that is ambiguous


class Truth(float, Enum):
    """Yes, no, or unknown; `min` is AND, `max` is OR.

    OPAQUE is a weaker "unknown": a shell command that is not plain and does not contain the words of the rule.
    """

    FALSE = 0.0
    OPAQUE = 0.25
    UNKNOWN = 0.5
    TRUE = 1.0


FALSE, OPAQUE, UNKNOWN, TRUE = Truth.FALSE, Truth.OPAQUE, Truth.UNKNOWN, Truth.TRUE


def negate(truth: Truth) -> Truth:
    """Return the opposite; unknown stays unknown."""
    return FALSE if truth is TRUE else TRUE if truth is FALSE else UNKNOWN


def to_truth(answer: bool | None) -> Truth:
    """Return the answer as a Truth, UNKNOWN for UNDECIDED."""
    if answer is None:
        return UNKNOWN
    return TRUE if answer else FALSE
