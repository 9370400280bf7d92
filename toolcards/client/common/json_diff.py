"""Finds where two JSON values differ, by JSON Pointer (RFC 6901), for repairs and for edits by people.

Standard library only: the client has a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .json_text import is_same_json

ABSENT = object()


@dataclass(frozen=True, slots=True)
class JsonChange:
    """One place: `sign` is + (added), - (removed) or ~ (changed)."""

    pointer: str
    sign: str
    before: Any = None
    after: Any = None


def diff(before: Any, after: Any) -> list[JsonChange]:
    """Return the smallest places that differ, in reading order."""
    return list(_diff("", before, after))


def _diff(pointer: str, before: Any, after: Any) -> Iterator[JsonChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            yield from _diff_place(f"{pointer}/{_escape(name)}", before.get(name, ABSENT), after.get(name, ABSENT))
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            yield from _diff_place(f"{pointer}/{index}", _find_value(before, index), _find_value(after, index))
    elif not is_same_json(before, after):
        yield JsonChange(pointer, "~", before, after)


def _diff_place(pointer: str, before: Any, after: Any) -> Iterator[JsonChange]:
    if before is ABSENT:
        yield JsonChange(pointer, "+", after=after)
    elif after is ABSENT:
        yield JsonChange(pointer, "-", before=before)
    else:
        yield from _diff(pointer, before, after)


def _find_value(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else ABSENT


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
