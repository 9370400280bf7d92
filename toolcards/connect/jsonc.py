"""JSON with comments, as editors keep it: a member is put in as text, and everything else stays as it was typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

EMPTY = "{\n}\n"  # what is left of a file that held nothing but ours
_TOKEN = re.compile(
    r'(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<mark>[{}\[\],:])|(?P<word>[\w.+-]+)', re.DOTALL
)

Wrap = Callable[[str, str], str]  # lines, indentation -> the lines as they are put in


class NotJsonc(Exception):
    """Not an object of JSON with comments."""


def with_member(text: str, name: str, lines: str, wrap: Wrap) -> str:
    """Return the text with these lines first in its object `name`, which is made if it is not there."""
    text = text if text.strip() else EMPTY
    top, opened = _places(text, name)
    if opened:
        return _into(text, opened, lines, wrap, "    ")
    inner = "".join(f"  {line}\n" for line in lines.splitlines())
    return _into(text, top, f'"{name}": {{\n{inner}}}', wrap, "  ")


def _into(text: str, at: int, lines: str, wrap: Wrap, indent: str) -> str:
    """Put the lines behind the brace before `at`, with a comma where something follows."""
    comma = "" if next(_tokens(text, at))[0] == "}" else ","
    rest = text[at:]
    if not rest.startswith(("\n", "\r\n")):
        raise NotJsonc("put a line break behind the brace that opens the object, so that our lines stand apart")
    end = rest.index("\n") + 1
    return text[:at] + rest[:end] + wrap(lines + comma, indent) + rest[end:]


def _places(text: str, name: str) -> tuple[int, int]:
    """Where the outer object begins, and where the object of that name in it does (0: nowhere)."""
    depth, top, opened, before, key = 0, 0, 0, "", ""
    for said, end in _tokens(text):
        if not top and said != "{":
            raise NotJsonc("it is no object")
        if said in "{[":
            depth += 1
            top = top or end
            if depth == 2 and key == name and before == ":":
                if said != "{" or opened:
                    raise NotJsonc(f"{name} is no object, or stands there twice")
                opened = end
        elif said in "}]":
            depth -= 1
        elif depth == 1 and said[0] == '"' and before in "{,":
            key = said[1:-1]
        before = said
    if depth or not top:
        raise NotJsonc("its braces do not match")
    return top, opened


def _tokens(text: str, at: int = 0) -> Iterator[tuple[str, int]]:
    """Each thing that is said, and where it ends."""
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotJsonc(f"at character {at}")
        at = found.end()
        if not found["skip"]:
            yield found[0], at
