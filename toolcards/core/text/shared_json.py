"""The JSON of inputs and outputs, which the log and the card share, so that each value is encoded once.

The values are never changed in place: an edit or a repair is a new value.
"""

from __future__ import annotations

import json
from typing import Any

SHARED = frozenset({"input", "output"})  # fields of facts and cards
MAX_LENGTH = 16_384  # characters of a text that is kept
MAX_VALUES = 256
_encode = json.JSONEncoder(separators=(",", ":")).encode
_texts_by_id: dict[int, tuple[Any, str]] = {}  # by identity; the value is kept, so that no other one gets its identity


def encode_value(value: Any) -> str:
    """Return the value as ASCII JSON."""
    entry = _texts_by_id.get(id(value))
    if entry is not None and entry[0] is value:
        return entry[1]
    text = _encode(value)
    if len(text) <= MAX_LENGTH:
        if len(_texts_by_id) >= MAX_VALUES:
            _texts_by_id.clear()
        _texts_by_id[id(value)] = (value, text)
    return text


def encode_record(record: dict[str, Any], shared_parts: dict[str, Any]) -> str:
    """Return an object with the members of both as ASCII JSON.

    The values of `shared_parts` are encoded once.
    """
    text = _encode(record)
    if not shared_parts:
        return text
    members = [f'"{name}":{encode_value(value)}' for name, value in shared_parts.items()]
    return f"{text[:-1]}{',' if record else ''}{','.join(members)}}}"
