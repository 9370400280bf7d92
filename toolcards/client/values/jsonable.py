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
LARGEST_BITS = 2_000  # of an integer: Python refuses to write much longer ones


def to_jsonable(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """Return the value as JSON; what JSON cannot express becomes text.

    Never raises. A value that contains itself is text where it comes again. `inside`: the values around this one.
    """
    try:
        return _convert(value, inside)
    except Exception:  # a foreign class, or a container that another thread changes
        return _text(value)


def _convert(value: Any, inside: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value if type(value) in {type(None), bool, str} else str.__str__(value)
    if isinstance(value, int):
        number = int.__int__(value)  # an enum, for example, is its number
        return number if number.bit_length() <= LARGEST_BITS else f"(an integer of {number.bit_length()} bits)"
    if isinstance(value, float):
        return value if math.isfinite(value) else float.__repr__(value)
    if len(inside) > MAX_DEPTH or id(value) in inside:
        return _text(value)
    parents = (*inside, id(value))
    if isinstance(value, Mapping):
        members = {_key(key): to_jsonable(item, parents) for key, item in value.items()}
        return members if len(members) == len(value) else _text(value)  # of two equal keys, one would hide the other
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_jsonable(item, parents) for item in value]
    return _object(value, parents)


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


def _object(value: Any, parents: tuple[int, ...]) -> Any:
    if isinstance(value, bytes):
        return f"({len(value)} bytes)"
    if isinstance(value, enum.Enum):
        return to_jsonable(value.value, parents)
    if callable(getattr(value, "model_dump", None)) and not isinstance(value, type):
        return to_jsonable(value.model_dump(mode="json"), parents)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_jsonable(getattr(value, field.name), parents) for field in dataclasses.fields(value)}
    return _text(value)


def _key(key: Any) -> str:
    return key if type(key) is str else _text(key)


def _text(value: Any) -> str:
    try:
        return str(value)[:PREVIEW]
    except Exception:
        return f"({type(value).__name__})"
