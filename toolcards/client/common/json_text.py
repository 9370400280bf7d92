"""Strict parsing, comparison and display of JSON. Standard library only: the client has a copy."""

from __future__ import annotations

import json
import math
from typing import Any


def parse(text: str) -> tuple[bool, Any]:
    """Return whether the text is one JSON value, and the value."""
    if not text:  # an error of the parser is expensive, and a call whose input came whole has no text
        return False, None
    try:
        return True, _decode(text)
    except (ValueError, RecursionError):
        return False, None


def parse_strict_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object in these bytes.

    Raises ValueError if it is ambiguous.
    Refused: bytes that are not UTF-8, a duplicate key, NaN, numbers out of range, half a surrogate pair,
    and nesting that is too deep.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            parse_constant=_refuse,
            parse_float=_parse_finite,
            object_pairs_hook=build_object,
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # raises UnicodeEncodeError for half a pair
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def is_same_json(a: Any, b: Any) -> bool:
    """Return whether two JSON values are equal as in RFC 8785.

    1 equals 1.0; true does not equal 1.
    """
    try:
        return a is b or _is_equal(a, b)
    except RecursionError:
        return False


def format_text(value: Any) -> str:
    """Format a value: strings unchanged, None as "", others as ASCII JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return str(type(value).__name__)


def _is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(key in b and _is_equal(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_is_equal, a, b))
    return bool(a == b)


def build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; raises ValueError for a duplicate key."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object has a duplicate key")
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _parse_finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError("out of range")
    return value


_decode = json.JSONDecoder(parse_constant=_refuse, parse_float=_parse_finite).decode
