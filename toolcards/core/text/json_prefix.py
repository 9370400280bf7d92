"""Check whether a partial text can become a JSON spelling of a known value.

One pass over the text, guided by the value. Accepts keys in any order, any white space, any escapes and any spelling of
a number. Steps are bounded by the length of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from toolcards.client.common.json_text import is_same_json

_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[-+.0-9A-Za-z]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_HALF_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{0,3})?\Z")
_HALF_PAIR = re.compile(r"\\u[dD][89abAB][0-9A-Fa-f]{2}(?:\\(?:u[0-9A-Fa-f]{0,3})?)?\Z")


class _Mismatch(Exception):
    """The text spells another value."""


class _Exhausted(Exception):
    """The text ended inside a value that it spells so far."""


def is_json_prefix(text: str, value: Any) -> bool:
    """Return whether the text begins or is JSON of the value."""
    try:
        end = _match_value(text, _skip_space(text, 0), value)
    except _Exhausted:
        return True
    except (_Mismatch, RecursionError):
        return False
    return _SPACE.fullmatch(text, end) is not None


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    position = match.end() if match else position
    if position >= len(text):
        raise _Exhausted
    return position


def _match_value(text: str, position: int, value: Any) -> int:
    """Return the position after the value that starts at `position`."""
    if isinstance(value, dict):
        return _match_object(text, position, value)
    if isinstance(value, list):
        return _match_array(text, position, value)
    if isinstance(value, str):
        return _match_string(text, position, (value,))[1]
    return _match_scalar(text, position, value)


def _match_object(text: str, position: int, value: dict[str, Any]) -> int:
    position = _skip_space(text, _expect(text, position, "{"))
    remaining = dict(value)
    while remaining:
        key, position = _match_string(text, position, remaining)
        position = _skip_space(text, _expect(text, _skip_space(text, position), ":"))
        position = _skip_space(text, _match_value(text, position, remaining.pop(key)))
        if remaining:
            position = _skip_space(text, _expect(text, position, ","))
    return _expect(text, position, "}")


def _match_array(text: str, position: int, value: list[Any]) -> int:
    position = _skip_space(text, _expect(text, position, "["))
    for index, item in enumerate(value):
        if index:
            position = _skip_space(text, _expect(text, position, ","))
        position = _skip_space(text, _match_value(text, position, item))
    return _expect(text, position, "]")


def _expect(text: str, position: int, sign: str) -> int:
    if text[position] != sign:
        raise _Mismatch
    return position + 1


def _match_string(text: str, position: int, candidates: Collection[str]) -> tuple[str, int]:
    """Return the candidate that is spelled at `position`, and the position after it."""
    if text[position] != '"':
        raise _Mismatch
    match = _STRING.match(text, position)
    if match is None:
        start = _decode(_drop_half_escape(text[position + 1 :]))
        if any(string.startswith(start) for string in candidates):
            raise _Exhausted
        raise _Mismatch
    string = _decode(match.group()[1:-1])
    if string not in candidates:
        raise _Mismatch
    return string, match.end()


def _drop_half_escape(start: str) -> str:
    """Return the text without an incomplete escape or surrogate pair at its end."""
    pair = _HALF_PAIR.search(start)
    if pair is not None and not _is_escaped(start, pair.start()):
        return start[: pair.start()]
    escape = _HALF_ESCAPE.search(start)
    if escape is not None and not _is_escaped(start, escape.start()):
        return start[: escape.start()]
    return start


def _is_escaped(text: str, position: int) -> bool:
    """Return whether an odd number of backslashes precedes `position`."""
    before = len(text[:position]) - len(text[:position].rstrip("\\"))
    return before % 2 == 1


def _decode(body: str) -> str:
    try:
        decoded_text: str = json.loads(f'"{body}"', strict=False)
    except ValueError:
        raise _Mismatch from None
    return decoded_text


def _match_scalar(text: str, position: int, value: Any) -> int:
    match = _SCALAR.match(text, position)
    end = match.end() if match else position
    word = text[position:end]
    try:
        if word and is_same_json(json.loads(word), value):
            return end
    except ValueError:
        pass
    if end == len(text) and _may_become(word, value):
        raise _Exhausted
    raise _Mismatch


def _may_become(word: str, value: Any) -> bool:
    """Return whether more characters can make the word a spelling of null, true, false or a number."""
    if value is None or isinstance(value, bool):
        return json.dumps(value).startswith(word)
    return re.fullmatch(r"-?[0-9]*\.?[0-9]*(?:[eE][-+]?[0-9]*)?", word) is not None
