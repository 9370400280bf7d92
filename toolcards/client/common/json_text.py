"""JSON as agents write it: strict to read, careful to compare, plain to show.

Standard library only: our client carries a copy.
"""

from __future__ import annotations

import json
import math
from typing import Any


def parse(text: str) -> tuple[bool, Any]:
    """Return whether the text is one whole JSON value, and the value; NaN and endless numbers are not JSON."""
    try:
        return True, json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return False, None


def strict_object(data: bytes) -> dict[str, Any]:
    """Return the JSON object that these bytes are, in one reading only; raises ValueError for everything else.

    Refused: bytes that are not UTF-8, a key that comes twice, NaN, numbers out of range, half a surrogate pair,
    and nesting too deep to read.
    """
    try:
        value = json.loads(
            data.decode("utf-8"), parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_distinct
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # raises UnicodeEncodeError for half a pair
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def same(a: Any, b: Any) -> bool:
    """Return whether two JSON values are equal in RFC 8785's sense: 1 is 1.0, but true is not 1."""
    try:
        return a is b or _equal(a, b)
    except RecursionError:
        return False


def as_text(value: Any) -> str:
    """Return a string as it is, nothing as nothing, everything else as ASCII JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value)
    except (ValueError, TypeError, RecursionError):
        return str(type(value).__name__)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(key in b and _equal(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key comes twice in one object")
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError("out of range")
    return value
