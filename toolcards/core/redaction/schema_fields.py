"""Schemas of an object's fields: the name of a field makes its values secret, not its description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_TYPES = ("string", "number", "integer", "boolean", "array", "object")
_VALUES = ("default", "const", "enum", "examples")  # the members that hold values of the field


def mask_schemas(fields: dict[str, Any], mask: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the `properties` of a JSON Schema with secrets masked.

    `mask` masks a value of any kind.
    """
    if (names := list(mask(dict.fromkeys(fields)))) != list(fields):  # a name is a secret
        return {new: mask({name: schema})[new] for new, (name, schema) in zip(names, fields.items(), strict=True)}
    result = {name: _mask_schema(name, schema, mask) for name, schema in fields.items()}
    return fields if all(map(lambda old, new: old is new, fields.values(), result.values())) else result


def _mask_schema(name: str, schema: Any, mask: Callable[[Any], Any]) -> Any:
    if type(schema) is not dict or schema.get("type") not in _TYPES:
        return _mask_member(name, schema, mask)
    description = mask({key: part for key, part in schema.items() if key not in _VALUES})
    values = {key: _mask_member(name, schema[key], mask) for key in _VALUES if key in schema}
    result = description | values
    return schema if result == schema else result


def _mask_member(name: str, value: Any, mask: Callable[[Any], Any]) -> Any:
    """Return the value as it is masked below this name."""
    return next(iter(mask({name: value}).values()))
