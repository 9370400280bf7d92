"""Lines of ours in somebody's text file: between two marks, so that they can be replaced, and removed exactly."""

from __future__ import annotations

import re

from toolcards.connect.base import TAG

JOINED = " (the line above had no end)"  # so that it has none again afterwards


def within(text: str, name: str, comment: str = "#") -> str:
    """Return the lines of that name, "" for none."""
    found = _block(name, comment).search(text)
    return found["lines"] if found else ""


def without(text: str, name: str, comment: str = "#") -> str:
    """Return the text without the lines of that name."""
    return _block(name, comment).sub(lambda found: "" if found["joined"] else found["before"], text)


def appended(text: str, lines: str, name: str, comment: str = "#") -> str:
    """Return the text with these lines at its end, in place of those of that name that were in it."""
    text = without(text, name, comment)
    joined = bool(text) and not text.endswith("\n")
    return text + "\n" * joined + block(lines, name, comment, joined=joined)


def block(lines: str, name: str, comment: str = "#", *, indent: str = "", joined: bool = False) -> str:
    """Return the lines between marks that say whose they are, ending in a newline."""
    first, last = (f"{indent}{comment} {arrows} {TAG} {name}" for arrows in (">>>", "<<<"))
    inner = "".join(f"{indent}{line}\n" for line in lines.splitlines())
    return f"{first}{JOINED * joined}\n{inner}{last}\n"


def others(text: str) -> bool:
    """Return whether lines of ours are in the text, of whatever name."""
    return f">>> {TAG} " in text


def _block(name: str, comment: str) -> re.Pattern[str]:
    mark = rf"[ \t]*{re.escape(comment)} {{}} {TAG} {re.escape(name)}"
    first, last = mark.format(">>>"), mark.format("<<<")
    return re.compile(
        rf"(?P<before>^|\n){first}(?P<joined>{re.escape(JOINED)})?\r?\n(?P<lines>(?:.*\n)*?){last}(?:\r?\n|\Z)"
    )
