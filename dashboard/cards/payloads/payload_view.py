"""Inputs and outputs as text with their sizes; what is cut is always stated."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from toolcards.core.text.terminal_sequences import strip_sequences

MAX_CHARACTERS = 2_000  # characters of a body in a card that is pushed
MAX_CHARACTERS_WAITING = 24_000  # larger: a person must be able to read what they approve
MAX_COMPARED_LINES = 200  # of each side of a change
MAX_DIFF_LINES = 400  # of a change that are shown
CONTEXT_LINES = 3  # around a change
TAIL_CHARACTERS = 1_200  # of an input that is being written


@dataclass(frozen=True, slots=True)
class PayloadView:
    """A value and the start of its text: `hidden_count` characters did not fit."""

    text: str = ""
    hidden_count: int = 0
    size: int = 0
    lines: int = 0
    hint: str = ""  # one line about the content
    word: str = ""  # the kind of value
    value: Any = None
    empty: bool = False  # null, "", 0, false, [] and {} are results as well


def build_payload_view(value: Any, cap: int | None) -> PayloadView:
    """Return the value for people: `cap` characters, None for all."""
    text = format_value(value)
    excerpt = text if cap is None else text[:cap]
    return PayloadView(
        text=excerpt, hidden_count=len(text) - len(excerpt), size=len(text), lines=text.count("\n") + 1,
        hint=_build_hint(value, text), word=_get_type_word(value), empty=not value and value is not True,
        value=value,
    )  # fmt: skip


def get_tail(text: str) -> PayloadView:
    """Return the end of a text that is still streaming."""
    return PayloadView(
        text=text[-TAIL_CHARACTERS:],
        hidden_count=max(0, len(text) - TAIL_CHARACTERS),
        size=len(text),
        lines=text.count("\n") + 1,
    )


def format_value(value: Any) -> str:
    """Return a string unchanged, everything else as indented JSON."""
    if isinstance(value, str):
        return value
    try:
        return _indent(value, "\n")
    except (ValueError, TypeError, RecursionError):
        return str(type(value).__name__)


def _indent(value: Any, line_start: str) -> str:
    """Return the same as `json.dumps(value, indent=2, ensure_ascii=False)`, faster."""
    if isinstance(value, str):
        return encode_basestring(value)
    inner = line_start + "  "
    if isinstance(value, dict) and value:
        parts = [f"{inner}{encode_basestring(name)}: {_indent(part, inner)}" for name, part in value.items()]
        return "{" + ",".join(parts) + line_start + "}"
    if isinstance(value, (list, tuple)) and value:
        return "[" + ",".join([inner + _indent(part, inner) for part in value]) + line_start + "]"
    return json.dumps(value, ensure_ascii=False)


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


def _get_type_word(value: Any) -> str:
    if isinstance(value, dict):
        return f"{len(value)} field{'s' * (len(value) != 1)}"
    if isinstance(value, list):
        return f"{len(value)} item{'s' * (len(value) != 1)}"
    return {type(None): "null", bool: "true or false", str: "text"}.get(type(value), "number")


def _build_hint(value: Any, text: str) -> str:
    if value == "":
        return '""  (empty text)'
    if isinstance(value, dict) and value:
        parts = ((name, strip_sequences(format_value(part)[:120])) for name, part in list(value.items())[:4])
        return ", ".join(f"{name}: {' '.join(part[:80].split())}" for name, part in parts)[:160]
    flat = " ".join(strip_sequences(text[:600])[:400].split())
    return flat[:140] + ("…" if len(flat) > 140 else "")
