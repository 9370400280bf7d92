"""Edits JSON with comments as text, by spans, so that everything else stays as typed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

EMPTY = "{\n}\n"  # what remains of a file that held only our member
_TOKEN = re.compile(
    r'(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<mark>[{}\[\],:])|(?P<word>[\w.+-]+)', re.DOTALL
)

Wrap = Callable[[str, str], str]  # (lines, indentation) -> the lines to insert


class NotJsonc(Exception):
    """The text is not an object in JSON with comments."""


def insert_member(text: str, name: str, lines: str, wrap: Wrap) -> str:
    """Insert lines at the beginning of the object `name`.

    The object is created if it is missing.
    """
    text = text if text.strip() else EMPTY
    top, inner_start = _find_objects(text, name)
    if inner_start:
        return _insert_after_brace(text, inner_start, lines, wrap, "    ")
    inner = "".join(f"  {line}\n" for line in lines.splitlines())
    return _insert_after_brace(text, top, f'"{name}": {{\n{inner}}}', wrap, "  ")


def _insert_after_brace(text: str, position: int, lines: str, wrap: Wrap, indent: str) -> str:
    """Insert the lines after the brace before `position`, with a comma if a member follows."""
    comma = "" if next(iterate_tokens(text, position))[0] == "}" else ","
    remaining = text[position:]
    if not remaining.startswith(("\n", "\r\n")):
        raise NotJsonc("put a line break after the opening brace of the object")
    end = remaining.index("\n") + 1
    return text[:position] + remaining[:end] + wrap(lines + comma, indent) + remaining[end:]


def _find_objects(text: str, name: str) -> tuple[int, int]:
    """Return where the outer object and its object `name` begin (0: not found)."""
    depth, top, inner_start, previous, key = 0, 0, 0, "", ""
    for lexeme, end in iterate_tokens(text):
        if not top and lexeme != "{":
            raise NotJsonc("it is not an object")
        is_member = depth == 1 and key == name and previous == ":"
        if is_member and (lexeme != "{" or inner_start):
            raise NotJsonc(f"{name} is not an object, or occurs twice")
        if lexeme in "{[":
            depth += 1
            top = top or end
            inner_start = end if is_member else inner_start
        elif lexeme in "}]":
            depth -= 1
        elif depth == 1 and lexeme[0] == '"' and previous in "{,":
            key = lexeme[1:-1]
        previous = lexeme
    if depth or not top:
        raise NotJsonc("its braces do not match")
    return top, inner_start


def iterate_tokens(text: str, position: int = 0) -> Iterator[tuple[str, int]]:
    """Yield each token and where it ends."""
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotJsonc(f"at character {position}")
        position = match.end()
        if not match["skip"]:
            yield match[0], position


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
            key = _parse_scalar(name, position)
            if not isinstance(key, str) or key in span.members or _next(tokens)[0] != ":":
                raise NotJsonc(f"a name is missing or occurs twice at character {position}")
            span.members[key] = _parse_value(tokens)
    elif lexeme == "[":
        span.items = []
        for first, position in _iterate_parts(tokens, span, "]"):
            span.items.append(_parse_from(first, position, tokens))
    else:
        span.value = _parse_scalar(lexeme, end)
    return span


def _parse_scalar(lexeme: str, end: int) -> Any:
    try:
        return json.loads(lexeme)
    except ValueError as error:
        raise NotJsonc(f"{lexeme} at character {end - len(lexeme)}") from error


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
