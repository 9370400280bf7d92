"""Lines of the wire, read so that no permission request of the agent passes for something else.

One message a line is what the Agent Client Protocol sends, and all that this relay has to understand. An editor may
understand more: arrays of messages as JSON-RPC has them, deeper nesting, the first of two members of one name, other
ends of a line. So whatever could be a permission request and is not plainly none is held back.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

Said = dict[str, Any]
ASKS = "session/request_permission"
_WORD = b"permission"
_ENDS = re.compile("[\r\x85\u2028\u2029]")  # where editors may end a line, beside the line feed
_ID = re.compile(rb'"id"\s*:\s*("[^"\\]{0,200}"|-?[0-9]{1,18})')


@dataclass(frozen=True, slots=True)
class Sifted:
    """A line of the agent: its permission requests, what of it may pass, and ids whose messages were held back."""

    asks: list[Said] = field(default_factory=list)
    passes: bytes = b""
    message: Said | None = None
    refused: list[Any] = field(default_factory=list)


def read(line: bytes) -> Said | None:
    """Return the message of a line, None where it is none."""
    try:
        msg = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return msg if isinstance(msg, dict) else None


def sift(line: bytes) -> Sifted:
    """Take the permission requests out of a line."""
    try:
        twice: list[str] = []
        value = json.loads(line.decode("utf-8"), object_pairs_hook=lambda pairs: _object(pairs, twice))
        inner = _members(value)
    except (ValueError, RecursionError):
        return Sifted(refused=[_id(line)]) if _could_ask(line) else Sifted(passes=line)
    if twice and _could_ask(line):
        return Sifted(refused=[value.get("id") if isinstance(value, dict) else _id(line)])
    asks = [each for each in inner if each.get("method") == ASKS]
    unanswerable = [each for each in asks if "id" not in each]
    if unanswerable or (asks and not isinstance(value, dict) and not _flat(value)):
        return Sifted(refused=[each.get("id") for each in asks])
    if not asks:
        message = value if isinstance(value, dict) else None
        return Sifted(passes=_in_one_line(line, value), message=message)
    rest = [each for each in value if each not in asks] if isinstance(value, list) else []
    return Sifted(asks, _spelled(rest) if rest else b"")


def _object(pairs: list[tuple[str, Any]], twice: list[str]) -> Said:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice.append("")
    return made


def _members(value: Any) -> list[Said]:
    """The messages of a line: itself, or all that an array of arrays holds."""
    found, rest = [], [value]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            found.append(each)
        elif isinstance(each, list):
            rest += reversed(each)
    return found


def _flat(value: Any) -> bool:
    return all(isinstance(each, dict) for each in value)


def _could_ask(line: bytes) -> bool:
    """Whether a line that we cannot read may be a permission request: by its word, an escape, or another encoding."""
    return _WORD in line.lower() or b"\\u" in line or b"\0" in line


def _in_one_line(line: bytes, value: Any) -> bytes:
    """The line as it came; written anew where something in it may be read as the end of a line."""
    text = line.decode("utf-8").removesuffix("\n").removesuffix("\r")
    return _spelled(value) if _ENDS.search(text) and _could_ask(line) else line


def _spelled(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _id(line: bytes) -> Any:
    found = _ID.search(line)
    return json.loads(found.group(1).decode("utf-8", "replace")) if found else None
