"""Results that cannot be used (`bad_output`): the tool ran, but what it returned is no JSON, too long, or unfit."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Mapping
from typing import Any

from . import schema
from .jsonable import DEEPEST, LONGEST, to_jsonable

__all__ = ["BadOutput", "find_output_trouble"]

PLACES = 5  # that are told
_UNFINISHED = (inspect.isgenerator, inspect.isasyncgen, inspect.iscoroutine)


class BadOutput(ValueError):
    """The function ran, but its result does not fit the schema that was declared for it. `output` is the result."""

    toolcards_code = "bad_output"

    def __init__(self, reason: str, output: Any) -> None:
        super().__init__(reason)
        self.output = output


def find_output_trouble(value: Any, against: Any = None, *, longest: bool = False) -> str:
    """Return why the result cannot be used, "" where it can; never raises.

    `against`: the JSON Schema that was declared for it, if any. `longest`: it is for a model, which takes no more
    than a frame does.
    """
    dumb = _find_unserializable(value, ())
    if dumb:
        return f"The result has no form in JSON: {dumb}."
    if against is None and not longest:
        return ""
    told = to_jsonable(value)
    if longest and (size := len(told if isinstance(told, str) else json.dumps(told))) > LONGEST:
        return f"The result has {size} characters; {LONGEST} is the most."
    found = schema.find_errors(against, told)
    places = "; ".join(f"{each.pointer or '(the whole result)'}: {each.message}" for each in found[:PLACES])
    return f"The result does not fit its schema. {places}." if found else ""


def _find_unserializable(value: Any, inside: tuple[int, ...]) -> str:
    """What in the value neither JSON nor a text of its own can tell, "" if nothing."""
    if isinstance(value, (str, int, float, bytes, type(None))):
        return ""
    if id(value) in inside:
        return f"a {type(value).__name__} that holds itself"
    within = _list_members(value)
    if within is None:
        return "" if _has_text(value) else f"a {type(value).__name__}"
    if len(inside) > DEEPEST:
        return ""
    return next((found for each in within if (found := _find_unserializable(each, (*inside, id(value))))), "")


def _list_members(value: Any) -> list[Any] | None:
    """What the value holds, None where it is one thing."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return None


def _has_text(value: Any) -> bool:
    """Whether it has words of its own; Python's name and address for an object are none."""
    if callable(getattr(value, "model_dump", None)):
        return True
    kind: Any = type(value)
    if any(unfinished(value) for unfinished in _UNFINISHED):
        return False
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return False
    try:
        return bool(str(value) or True)
    except Exception:  # somebody else's class
        return False
