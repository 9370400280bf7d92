"""Excerpts of inputs and outputs: as much text as a card shows, and the size of the whole; a cut is always stated."""

from __future__ import annotations

import json
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from toolcards.core.text.terminal_sequences import strip_sequences

MAX_CHARACTERS = 2_000  # characters of a body in a card that is pushed
MAX_CHARACTERS_WAITING = 24_000  # larger: a person must be able to read what they approve
TAIL_CHARACTERS = 1_200  # of an input that is being written


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A value and the start of its text: `hidden_count` characters did not fit."""

    text: str = ""
    hidden_count: int = 0
    size: int = 0
    lines: int = 0
    hint: str = ""  # one line about the content
    word: str = ""  # the kind of value
    value: Any = None
    empty: bool = False  # null, "", 0, false, [] and {} are results as well


def build_excerpt(value: Any, cap: int | None) -> Excerpt:
    """Return the value for people: `cap` characters, None for all."""
    text = format_value(value)
    excerpt = text if cap is None else text[:cap]
    return Excerpt(
        text=excerpt, hidden_count=len(text) - len(excerpt), size=len(text), lines=text.count("\n") + 1,
        hint=_build_hint(value, text), word=_get_type_word(value), empty=not value and value is not True,
        value=value,
    )  # fmt: skip


def get_tail(text: str) -> Excerpt:
    """Return the end of a text that is still streaming."""
    return Excerpt(
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
