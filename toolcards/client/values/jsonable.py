"""Values as JSON: exact if they are JSON, readable if they are not, shortened if they are huge."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["shorten", "to_jsonable"]

MAX_DEPTH = 24
LONGEST = 400_000  # characters of one value as JSON in ASCII; the server takes frames of 1 MiB
PREVIEW = 100_000


def to_jsonable(value: Any, depth: int = 0) -> Any:
    """Return the value as JSON; what JSON cannot express becomes text.

    Never raises.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value if type(value) in {type(None), bool, int, str} else _plain(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if depth > MAX_DEPTH:
        return _text(value)
    if isinstance(value, Mapping):
        return {_key(key): to_jsonable(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_jsonable(item, depth + 1) for item in value]
    return _object(value, depth)


def shorten(value: Any) -> Any:
    """Return the value as JSON, cut to fit one frame.

    A value that is too long becomes the beginning of its text.
    """
    jsonable = to_jsonable(value)
    encoded_text = json.dumps(jsonable)
    if len(encoded_text) <= LONGEST:
        return jsonable
    text = jsonable if isinstance(jsonable, str) else encoded_text
    preview = text[:PREVIEW]
    while len(json.dumps(preview)) > LONGEST:  # one character can take twelve
        preview = preview[: len(preview) // 2]
    return f"{preview}… ({len(text)} characters in all)"


def _object(value: Any, depth: int) -> Any:
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    if isinstance(value, enum.Enum):
        return to_jsonable(value.value, depth + 1)
    try:
        if callable(getattr(value, "model_dump", None)) and not isinstance(value, type):
            return to_jsonable(value.model_dump(mode="json"), depth + 1)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {
                field.name: to_jsonable(getattr(value, field.name), depth + 1) for field in dataclasses.fields(value)
            }
    except Exception:  # a foreign class
        return _text(value)
    return _text(value)


def _plain(value: Any) -> Any:
    """Return a subclass of str or int, for example an enum, as its base type."""
    return str.__str__(value) if isinstance(value, str) else int(value)


def _key(key: Any) -> str:
    return key if type(key) is str else _text(key)


def _text(value: Any) -> str:
    try:
        return str(value)[:PREVIEW]
    except Exception:
        return f"({type(value).__name__})"
