"""Inserts a member into JSON with comments, as text; everything else stays as typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

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
        if lexeme in "{[":
            depth += 1
            top = top or end
            if depth == 2 and key == name and previous == ":":
                if lexeme != "{" or inner_start:
                    raise NotJsonc(f"{name} is not an object, or occurs twice")
                inner_start = end
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
