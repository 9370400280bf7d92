"""Finds unusable results (`bad_output`): not JSON, too long, or not fitting their schema."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Mapping
from typing import Any

from . import schema
from .jsonable import LONGEST, MAX_DEPTH, to_jsonable

__all__ = ["BadOutput", "find_output_trouble"]

PLACES = 5  # in the message
_UNFINISHED = (inspect.isgenerator, inspect.isasyncgen, inspect.iscoroutine)


class BadOutput(ValueError):
    """The function ran, but its result does not fit its schema. `output` is the result."""

    toolcards_code = "bad_output"

    def __init__(self, reason: str, output: Any) -> None:
        super().__init__(reason)
        self.output = output


def find_output_trouble(value: Any, against: Any = None, *, longest: bool = False) -> str:
    """Return why the result is unusable, "" if it is usable.

    Never raises.
    `against`: its declared JSON Schema, if any. `longest`: limit it to the length of a frame, for a model.
    """
    unserializable = _find_unserializable(value, ())
    if unserializable:
        return f"The result cannot be represented as JSON: {unserializable}."
    if against is None and not longest:
        return ""
    jsonable = to_jsonable(value)
    if longest and (size := len(jsonable if isinstance(jsonable, str) else json.dumps(jsonable))) > LONGEST:
        return f"The result has {size} characters; the limit is {LONGEST}."
    errors = schema.find_errors(against, jsonable)
    places = "; ".join(f"{each.pointer or '(the whole result)'}: {each.message}" for each in errors[:PLACES])
    return f"The result does not match its schema. {places}." if errors else ""


def _find_unserializable(value: Any, inside: tuple[int, ...]) -> str:
    """Name a part of the value that neither JSON nor text can express, or return ""."""
    if isinstance(value, (str, int, float, bytes, type(None))):
        return ""
    if id(value) in inside:
        return f"a {type(value).__name__} that contains itself"
    try:
        members = _list_members(value)
    except Exception:  # a foreign class
        members = None
    if members is None:
        return "" if _has_text(value) else f"a {type(value).__name__}"
    if len(inside) > MAX_DEPTH:
        return ""
    return next((problem for each in members if (problem := _find_unserializable(each, (*inside, id(value))))), "")


def _list_members(value: Any) -> list[Any] | None:
    """Return the members of a container, None for other values."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return None


def _has_text(value: Any) -> bool:
    """Return whether the value has a text other than Python's default name and address."""
    if callable(getattr(value, "model_dump", None)):
        return True
    kind: Any = type(value)
    if any(is_unfinished(value) for is_unfinished in _UNFINISHED):
        return False
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return False
    try:
        return bool(str(value) or True)
    except Exception:  # a foreign class
        return False
