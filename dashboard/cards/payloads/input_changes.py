"""What a repair or a person changed in an input, line by line; a change that does not fit says so."""

from __future__ import annotations

import difflib
from typing import Any

from dashboard.cards.payloads.excerpts import MAX_CHARACTERS_WAITING, format_value

MAX_COMPARED_LINES = 200  # of each side of a change
MAX_DIFF_LINES = 400  # of a change that are shown
CONTEXT_LINES = 3  # around a change


def diff_lines(before: Any, after: Any) -> list[tuple[str, str]]:
    """Return what a repair or a person changed, with its context.

    Each line is (sign, text); the sign is `+`, `-` or a space, or `…` for a last line that says what is missing.
    """
    old, new = (format_value(value).split("\n") for value in (before, after))
    head = _count_common(old, new)
    tail = min(_count_common(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    lines = [(" ", line) for line in old[max(0, head - CONTEXT_LINES) : head]]
    lines += _compare_lines(old[head : len(old) - tail], new[head : len(new) - tail])
    lines += [(" ", line) for line in old[len(old) - tail :][:CONTEXT_LINES]]
    return _cut_lines(lines)


def _count_common(old: list[str], new: list[str]) -> int:
    """Return how many lines both begin with."""
    return next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _compare_lines(old: list[str], new: list[str]) -> list[tuple[str, str]]:
    if max(len(old), len(new)) > MAX_COMPARED_LINES:  # the time grows faster than the product
        return [("-", line) for line in old] + [("+", line) for line in new]
    lines: list[tuple[str, str]] = []
    for operation, i1, i2, j1, j2 in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if operation == "equal":
            lines += [(" ", line) for line in new[j1:j2]]
        else:
            lines += [("-", line) for line in old[i1:i2]] + [("+", line) for line in new[j1:j2]]
    return lines


def _cut_lines(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    room, shown_lines = 2 * MAX_CHARACTERS_WAITING, []
    for sign, line in lines[:MAX_DIFF_LINES]:
        shown_lines.append((sign, line[:room]))
        room -= len(line)
        if room < 0:
            break
    if room >= 0 and len(shown_lines) == len(lines):
        return lines
    return [*shown_lines, ("…", "The rest of the change is not shown")]
