"""Parses lines of the wire so that no permission request of the agent can pass unnoticed.

The Agent Client Protocol sends one message per line. An editor may accept more: JSON-RPC batches, nested arrays, the
first of two members with the same name, other line endings. So anything that could be a permission request, and is not
clearly something else, is held back.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
ASKS = "session/request_permission"
_WORD = b"permission"
_ENDS = re.compile("[\r\x85\u2028\u2029]")  # line ends for some editors, besides the line feed
_ID = re.compile(rb'"id"\s*:\s*("[^"\\]{0,200}"|-?[0-9]{1,18})')


@dataclass(frozen=True, slots=True)
class Sifted:
    """A line of the agent: its permission requests, the bytes that may pass, and the ids held back."""

    asks: list[Message] = field(default_factory=list)
    passes: bytes = b""
    message: Message | None = None
    held_back: list[Any] = field(default_factory=list)


def parse_message(line: bytes) -> Message | None:
    """Return the message of a line, None if it is not one."""
    try:
        msg = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return msg if isinstance(msg, dict) else None


def sift(line: bytes) -> Sifted:
    """Take the permission requests out of a line."""
    try:
        duplicates: list[str] = []
        value = json.loads(line.decode("utf-8"), object_pairs_hook=lambda pairs: _build_object(pairs, duplicates))
        inner = _list_messages(value)
    except (ValueError, RecursionError):
        return Sifted(held_back=[_find_id(line)]) if _could_ask(line) else Sifted(passes=line)
    if duplicates and _could_ask(line):
        return Sifted(held_back=[value.get("id") if isinstance(value, dict) else _find_id(line)])
    asks = [each for each in inner if each.get("method") == ASKS]
    unanswerable = [each for each in asks if "id" not in each]
    if unanswerable or (asks and not isinstance(value, dict) and not _is_flat(value)):
        return Sifted(held_back=[each.get("id") for each in asks])
    if not asks:
        message = value if isinstance(value, dict) else None
        return Sifted(passes=_escape_line_ends(line, value), message=message)
    other_messages = [each for each in value if each not in asks] if isinstance(value, list) else []
    return Sifted(asks, _format_line(other_messages) if other_messages else b"")


def _build_object(pairs: list[tuple[str, Any]], duplicates: list[str]) -> Message:
    members = dict(pairs)
    if len(members) != len(pairs):
        duplicates.append("")
    return members


def _list_messages(value: Any) -> list[Message]:
    """Return the messages of a line: the object itself, or all objects in nested arrays."""
    messages, stack = [], [value]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            messages.append(each)
        elif isinstance(each, list):
            stack += reversed(each)
    return messages


def _is_flat(value: Any) -> bool:
    return all(isinstance(each, dict) for each in value)


def _could_ask(line: bytes) -> bool:
    """Return whether an unreadable line may be a permission request: its word, an escape, another encoding."""
    return _WORD in line.lower() or b"\\u" in line or b"\0" in line


def _escape_line_ends(line: bytes, value: Any) -> bytes:
    """Return the line unchanged, or reformatted if an editor may see a line end inside it."""
    text = line.decode("utf-8").removesuffix("\n").removesuffix("\r")
    return _format_line(value) if _ENDS.search(text) and _could_ask(line) else line


def _format_line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _find_id(line: bytes) -> Any:
    match = _ID.search(line)
    return json.loads(match.group(1).decode("utf-8", "replace")) if match else None
