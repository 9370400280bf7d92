"""Whether a text that is still arriving can become one JSON spelling of a known value.

One pass over the text with the value as the guide: keys in any order, any white space, any escapes, any spelling of a
number. Steps are bounded by the length of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

from toolcards.client.common.json_text import same

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
    """Return whether the text is the start, or all, of a JSON spelling of the value."""
    try:
        end = _match_value(text, _skip_space(text, 0), value)
    except _Exhausted:
        return True
    except (_Mismatch, RecursionError):
        return False
    return _SPACE.fullmatch(text, end) is not None


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    at = match.end() if match else at
    if at >= len(text):
        raise _Exhausted
    return at


def _match_value(text: str, at: int, value: Any) -> int:
    """Return the position behind the value that starts at `at`."""
    if isinstance(value, dict):
        return _match_object(text, at, value)
    if isinstance(value, list):
        return _match_array(text, at, value)
    if isinstance(value, str):
        return _match_string(text, at, (value,))[1]
    return _match_scalar(text, at, value)


def _match_object(text: str, at: int, value: dict[str, Any]) -> int:
    at = _skip_space(text, _expect(text, at, "{"))
    left = dict(value)
    while left:
        key, at = _match_string(text, at, left)
        at = _skip_space(text, _expect(text, _skip_space(text, at), ":"))
        at = _skip_space(text, _match_value(text, at, left.pop(key)))
        if left:
            at = _skip_space(text, _expect(text, at, ","))
    return _expect(text, at, "}")


def _match_array(text: str, at: int, value: list[Any]) -> int:
    at = _skip_space(text, _expect(text, at, "["))
    for place, item in enumerate(value):
        if place:
            at = _skip_space(text, _expect(text, at, ","))
        at = _skip_space(text, _match_value(text, at, item))
    return _expect(text, at, "]")


def _expect(text: str, at: int, sign: str) -> int:
    if text[at] != sign:
        raise _Mismatch
    return at + 1


def _match_string(text: str, at: int, wanted: Collection[str]) -> tuple[str, int]:
    """Return which of the wanted strings is spelled at `at`, and the position behind it."""
    if text[at] != '"':
        raise _Mismatch
    match = _STRING.match(text, at)
    if match is None:
        half = _decode(_drop_half_escape(text[at + 1 :]))
        if any(string.startswith(half) for string in wanted):
            raise _Exhausted
        raise _Mismatch
    string = _decode(match.group()[1:-1])
    if string not in wanted:
        raise _Mismatch
    return string, match.end()


def _drop_half_escape(half: str) -> str:
    """Return the text without an escape, or half a surrogate pair, that is cut at its end."""
    pair = _HALF_PAIR.search(half)
    if pair is not None and not _is_escaped(half, pair.start()):
        return half[: pair.start()]
    escape = _HALF_ESCAPE.search(half)
    if escape is not None and not _is_escaped(half, escape.start()):
        return half[: escape.start()]
    return half


def _is_escaped(text: str, at: int) -> bool:
    """Return whether an odd number of backslashes stands before `at`."""
    before = len(text[:at]) - len(text[:at].rstrip("\\"))
    return before % 2 == 1


def _decode(body: str) -> str:
    try:
        decoded: str = json.loads(f'"{body}"', strict=False)
    except ValueError:
        raise _Mismatch from None
    return decoded


def _match_scalar(text: str, at: int, value: Any) -> int:
    match = _SCALAR.match(text, at)
    end = match.end() if match else at
    word = text[at:end]
    try:
        if word and same(json.loads(word), value):
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
