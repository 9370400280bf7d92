"""A function's annotations as a JSON Schema, to check the arguments that a person has edited."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from .schema import find_errors

__all__ = ["EditMismatch", "build_schema", "check_edit"]

_TYPES: dict[Any, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object", type(None): "null",
}  # fmt: skip


class EditMismatch(TypeError):
    """A person's edit does not fit the function, so it was not called."""

    toolcards_code = "invalid_input"


def build_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the schema of the function's named parameters.

    An unknown annotation allows everything.
    """
    unnamed_kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    try:
        hints = get_type_hints(function)
        properties = {
            each.name: _describe(hints.get(each.name, Any)) for each in parameters if each.kind not in unnamed_kinds
        }
    except Exception:  # a name that exists only for type checkers
        return {}
    return {"type": "object", "properties": properties}


def check_edit(schema: dict[str, Any], original: Any, edited_args: Any) -> None:
    """Raise EditMismatch if only the original arguments fit the schema."""
    errors = find_errors(schema, edited_args)
    if errors and not find_errors(schema, original):  # annotations that the agent itself ignores bind no one
        places = "; ".join(f"{error.pointer or '(the whole input)'}: {error.message}" for error in errors)
        raise EditMismatch(f"A person edited the arguments, but they do not match the tool's schema. {places}.")


def _describe(annotation: Any) -> dict[str, Any]:
    if annotation in _TYPES:
        return {"type": _TYPES[annotation]}
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal and all(isinstance(part, (str, int, bool, type(None))) for part in parts):
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_describe(part) for part in parts]}
    if origin is list and len(parts) == 1:
        return {"type": "array", "items": _describe(parts[0])}
    if origin is dict and len(parts) == 2:
        return {"type": "object", "additionalProperties": _describe(parts[1])}
    return {}
