"""Blocks that we add to a user's text file, between two marks, so that they can be replaced and removed exactly."""

from __future__ import annotations

import re

from toolcards.connect.base import TAG

NO_NEWLINE = " (the line above had no end)"  # part of the file format: removing the block removes the newline as well


def read_block(text: str, name: str, comment: str = "#") -> str:
    """Return the lines of the named block, "" if it is missing."""
    match = _block_pattern(name, comment).search(text)
    return match["lines"] if match else ""


def remove_block(text: str, name: str, comment: str = "#") -> str:
    """Return the text without the named block."""

    def keep_newline(match: re.Match[str]) -> str:
        # The line above gets its end back as soon as anything follows the block.
        return "" if match["no_newline"] and match.end() == len(text) else match["before"]

    return _block_pattern(name, comment).sub(keep_newline, text)


def append_block(text: str, lines: str, name: str, comment: str = "#") -> str:
    """Append a block, replacing an earlier one of that name."""
    text = remove_block(text, name, comment)
    no_newline = bool(text) and not text.endswith("\n")
    return text + "\n" * no_newline + format_block(lines, name, comment, no_newline=no_newline)


def format_block(lines: str, name: str, comment: str = "#", *, indent: str = "", no_newline: bool = False) -> str:
    """Return the lines between the two marks, ending in a newline."""
    first, last = (f"{indent}{comment} {arrows} {TAG} {name}" for arrows in (">>>", "<<<"))
    inner = "".join(f"{indent}{line}\n" for line in lines.splitlines())
    return f"{first}{NO_NEWLINE * no_newline}\n{inner}{last}\n"


def has_any_block(text: str) -> bool:
    """Return whether the text holds a block of any name."""
    return f">>> {TAG} " in text


def _block_pattern(name: str, comment: str) -> re.Pattern[str]:
    mark = rf"[ \t]*{re.escape(comment)} {{}} {TAG} {re.escape(name)}"
    first, last = mark.format(">>>"), mark.format("<<<")
    return re.compile(
        rf"(?P<before>^|\n){first}(?P<no_newline>{re.escape(NO_NEWLINE)})?\r?\n(?P<lines>(?:.*\n)*?){last}(?:\r?\n|\Z)"
    )
