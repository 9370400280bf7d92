"""JSON with comments as a tree of spans, so that one value can be replaced as text and the rest stays as typed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toolcards.connect.edits.jsonc import NotJsonc, iterate_tokens


@dataclass(slots=True)
class JsonSpan:
    """One value: where it is in the text, and its parts.

    `value` is the value of a string, a number or a literal; an object has `members`, a list has `items`.
    """

    start: int
    end: int
    value: Any = None
    members: dict[str, JsonSpan] | None = None
    items: list[JsonSpan] | None = None

    def find(self, *names: str) -> JsonSpan | None:
        """Return the member at this path, or None."""
        span: JsonSpan | None = self
        for name in names:
            span = span.members.get(name) if span is not None and span.members is not None else None
        return span


@dataclass(slots=True)
class Edits:
    """Replacements of spans in one text."""

    text: str
    edits: list[tuple[int, int, str]] = field(default_factory=list)

    def replace(self, start: int, end: int, text: str) -> None:
        """Replace these characters."""
        self.edits.append((start, end, text))

    def apply(self) -> str:
        """Return the text with all replacements."""
        text = self.text
        for start, end, new in sorted(self.edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text


def parse_spans(text: str) -> JsonSpan:
    """Return the value of the text; raises NotJsonc."""
    tokens = list(iterate_tokens(text))
    span, end_token = _parse_value(iter(tokens)), tokens[-1:] if tokens else []
    if not end_token or span.end != end_token[0][1]:
        raise NotJsonc("something follows its value")
    return span


def _parse_value(tokens: Iterator[tuple[str, int]]) -> JsonSpan:
    lexeme, end = _next(tokens)
    return _parse_from(lexeme, end, tokens)


def _parse_from(lexeme: str, end: int, tokens: Iterator[tuple[str, int]]) -> JsonSpan:
    span = JsonSpan(end - len(lexeme), end)
    if lexeme == "{":
        span.members = {}
        for name, position in _iterate_parts(tokens, span, "}"):
            key = json.loads(name) if name[0] == '"' else None
            if not isinstance(key, str) or key in span.members or _next(tokens)[0] != ":":
                raise NotJsonc(f"a name is missing or occurs twice at character {position}")
            span.members[key] = _parse_value(tokens)
    elif lexeme == "[":
        span.items = []
        for first, position in _iterate_parts(tokens, span, "]"):
            span.items.append(_parse_from(first, position, tokens))
    else:
        try:
            span.value = json.loads(lexeme)
        except ValueError as error:
            raise NotJsonc(f"{lexeme} at character {span.start}") from error
    return span


def _iterate_parts(tokens: Iterator[tuple[str, int]], span: JsonSpan, closing: str) -> Iterator[tuple[str, int]]:
    """Yield the first token of each part up to the closing mark; a comma may be the last part."""
    while True:
        lexeme, end = _next(tokens)
        if lexeme == closing:
            span.end = end
            return
        yield lexeme, end
        lexeme, end = _next(tokens)
        if lexeme == closing:
            span.end = end
            return
        if lexeme != ",":
            raise NotJsonc(f"a comma is missing at character {end}")


def _next(tokens: Iterator[tuple[str, int]]) -> tuple[str, int]:
    try:
        return next(tokens)
    except StopIteration:
        raise NotJsonc("its braces do not match") from None
