"""Strict JSON (RFC 8259): no duplicate keys, no NaN, bounded nesting.

Parsers disagree about duplicate keys: policy could decide about the first value and the tool run with the second.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from toolcards.adapters.base import MAX_DEPTH, BadFrame

_BRACKETS = re.compile(r'"[^"\\]*(?:\\.?[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)  # a string is passed over whole
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHELTER = re.compile("[\U0010f800-\U0010ffff]")
_TO_SHELTER = {0xD800 + i: 0x10F800 + i for i in range(0x800)}
_FROM_SHELTER = {shelter: code for code, shelter in _TO_SHELTER.items()}
_TO_MARK = dict.fromkeys(_TO_SHELTER, "\ufffd")


def loads(text: str, depth: int = MAX_DEPTH) -> Any:
    """Return the value of the text; raises BadFrame with a code."""
    try:
        value = _DECODER.decode(text)
    except BadFrame:
        raise
    except (RecursionError, ValueError) as error:
        raise build_error(text, error, depth) from None
    if text.count("{") + text.count("[") > depth and is_deeper_than(value, depth):
        raise BadFrame(f"nested deeper than {depth} levels", "too_deep")
    return value


def read_members(text: str) -> dict[str, Any]:
    """Return the members of a frame, however deep; {} without any.

    For frames that `decode` has accepted, with the depth limit of the transport.
    """
    try:
        value = _DECODER.decode(text)
    except (RecursionError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def build_error(text: str, error: Exception, depth: int = MAX_DEPTH) -> BadFrame:
    """Return the BadFrame for a text that `json` could not parse.

    The depth at which `json` gives up differs between Python versions, so the depth is checked first.
    """
    if isinstance(error, RecursionError) or _count_open_brackets(text[: getattr(error, "pos", None)]) > depth:
        return BadFrame(f"nested deeper than {depth} levels", "too_deep")
    return BadFrame(f"not JSON: {error}", "not_json")


def parse_or_keep(text: str) -> Any:
    """Parse a JSON object or array; return other text unchanged."""
    if text[:1] not in {"{", "["}:
        return text
    try:
        return loads(text)
    except BadFrame:
        return text


def shelter_surrogates(value: Any) -> tuple[Any, bool]:
    """Replace lone surrogates by private characters.

    Returns the value, and whether it had any.
    JavaScript splits emoji over two deltas. A text that uses those private characters itself gets U+FFFD
    instead, so that `restore_surrogates` never adds surrogates.
    """
    text = json.dumps(value, ensure_ascii=False)
    if not _SURROGATE.search(text):
        return value, False
    if _SHELTER.search(text):
        return _translate(value, _TO_MARK), False
    return _translate(value, _TO_SHELTER), True


def restore_surrogates(value: Any) -> Any:
    """Return the value with the surrogates that `shelter_surrogates` moved."""
    return _translate(value, _FROM_SHELTER)


def _translate(value: Any, table: dict[int, Any]) -> Any:
    if isinstance(value, str):
        return value.translate(table)
    if isinstance(value, dict):
        return {_translate(key, table): _translate(inner, table) for key, inner in value.items()}
    if isinstance(value, list):
        return [_translate(inner, table) for inner in value]
    return value


def _count_open_brackets(text: str) -> int:
    """Return the maximum number of open brackets in the text."""
    level = deepest = 0
    for match in _BRACKETS.finditer(text):
        bracket = match[0]
        level += (bracket in "[{") - (bracket in "]}")
        deepest = max(deepest, level)
    return deepest


def is_deeper_than(value: Any, depth: int) -> bool:
    """Return whether the value is nested deeper than `depth` levels."""
    level = [value]
    for _ in range(depth):
        level = [inner for outer in level for inner in _list_children(outer) if isinstance(inner, (dict, list))]
        if not level:
            return False
    return True


def _list_children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        keys: set[str] = set()
        repeated_key = next(key for key, _ in pairs if key in keys or keys.add(key))  # type: ignore[func-returns-value]
        raise BadFrame(f"an object has the key {repeated_key[:80]!r} twice", "duplicate_key")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise BadFrame(f"{name} is not JSON", "not_json")


def _parse_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise BadFrame(f"the number {digits[:40]} is too large", "not_json")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_build_object, parse_constant=_refuse_constant, parse_float=_parse_float)
