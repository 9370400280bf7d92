"""Where two JSON values differ, by JSON Pointer (RFC 6901): for repairs, for edits by people, for their display.

Standard library only: our client carries a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .json_text import same

ABSENT = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One place: `sign` is + (added), - (removed) or ~ (changed)."""

    pointer: str
    sign: str
    before: Any = None
    after: Any = None


def diff(before: Any, after: Any) -> list[Change]:
    """Return the smallest places at which `after` differs from `before`, in reading order."""
    return list(_diff("", before, after))


def _diff(pointer: str, before: Any, after: Any) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            yield from _place(f"{pointer}/{_escaped(name)}", before.get(name, ABSENT), after.get(name, ABSENT))
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            yield from _place(f"{pointer}/{index}", _at(before, index), _at(after, index))
    elif not same(before, after):
        yield Change(pointer, "~", before, after)


def _place(pointer: str, before: Any, after: Any) -> Iterator[Change]:
    if before is ABSENT:
        yield Change(pointer, "+", after=after)
    elif after is ABSENT:
        yield Change(pointer, "-", before=before)
    else:
        yield from _diff(pointer, before, after)


def _at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else ABSENT


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
