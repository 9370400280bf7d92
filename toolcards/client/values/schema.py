"""Validates an input against a tool's JSON Schema (2020-12): a subset of it, with the standard library only.

A schema with an unsupported keyword (a pattern, a remote reference, …) gives no errors: the server supports all
keywords and checks again. The errors are those that the server would find: the same pointers and keywords.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..common.input_fixes import SchemaError, format_pointer
from ..common.json_text import is_same_json

MAX_ERRORS = 20
MAX_DEPTH = 40
_ANNOTATIONS = frozenset([
    "$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType", "contentSchema",
])  # fmt: skip
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value.is_integer()),
}


Errors = Iterator[SchemaError]


class _Unsupported(Exception):
    """The schema has a keyword that is not supported here."""


def find_errors(schema: Any, value: Any) -> list[SchemaError]:
    """Return at most `MAX_ERRORS` errors; none for an unsupported schema."""
    if not isinstance(schema, dict):
        return []
    try:
        _require_supported(schema, 0)
        return list(_Validator(schema).iterate_errors(schema, value, "", 0))[:MAX_ERRORS]
    except (_Unsupported, RecursionError, TypeError, ValueError, KeyError, AttributeError, OverflowError):
        return []


def is_usable(schema: Any) -> bool:
    """Return whether the schema can be used to check anything."""
    try:
        _require_supported(schema, 0)
    except (_Unsupported, RecursionError):
        return False
    return isinstance(schema, dict) and bool(schema)


def _require_supported(schema: Any, depth: int) -> None:
    """Raise _Unsupported for an unsupported keyword, even in a part that the value does not use."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        raise _Unsupported
    for keyword, operand in schema.items():
        if keyword in _ANNOTATIONS:
            if keyword in ("$defs", "definitions"):
                _require_all_supported(operand, depth)
        elif keyword == "properties":
            _require_all_supported(operand, depth)
        elif keyword in ("additionalProperties", "items", "not"):
            _require_supported(operand, depth + 1)
        elif keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for part in operand if isinstance(operand, list) else [None]:
                _require_supported(part, depth + 1)
        elif keyword not in _KEYWORDS:
            raise _Unsupported


def _require_all_supported(schemas: Any, depth: int) -> None:
    if not isinstance(schemas, dict):
        raise _Unsupported
    for part in schemas.values():
        _require_supported(part, depth + 1)


class _Validator:
    """One schema against one value."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root

    def iterate_errors(self, schema: Any, value: Any, pointer: str, depth: int) -> Errors:
        if depth > MAX_DEPTH:
            raise _Unsupported
        if isinstance(schema, bool):
            if not schema:
                yield SchemaError(pointer, "falseSchema", "no value is allowed here")
            return
        for keyword, operand in schema.items():
            if keyword in _KEYWORDS:
                yield from _KEYWORDS[keyword](self, schema, operand, value, pointer, depth)

    def fits(self, schema: Any, value: Any, depth: int) -> bool:
        return next(self.iterate_errors(schema, value, "", depth + 1), None) is None

    def resolve(self, name: Any) -> Any:
        if not isinstance(name, str) or not name.startswith("#"):
            raise _Unsupported
        target: Any = self.root
        for step in name[1:].split("/")[1:]:
            target = target[step.replace("~1", "/").replace("~0", "~")]
        _require_supported(target, 0)
        return target


# ---------------------------------------------------------------- one function per keyword


def _type(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    types = operand if isinstance(operand, list) else [operand]
    if not any(_TYPES[name](value) for name in types):
        yield SchemaError(pointer, "type", f"it must be {' or '.join(types)}")


def _enum(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    if not any(is_same_json(value, allowed_value) for allowed_value in operand):
        yield SchemaError(pointer, "enum", "it is not one of the allowed values")


def _const(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    if not is_same_json(value, operand):
        yield SchemaError(pointer, "const", "it is not the allowed value")


def _required(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    if isinstance(value, dict):
        absent = [name for name in operand if name not in value]
        yield from (SchemaError(pointer, "required", f"{name!r} is missing", missing=(name,)) for name in absent)


def _properties(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    if isinstance(value, dict):
        for name, part in operand.items():
            if name in value:
                yield from validator.iterate_errors(part, value[name], pointer + format_pointer([name]), depth + 1)


def _additional(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    if not isinstance(value, dict):
        return
    more = [name for name in value if name not in schema.get("properties", {})]
    if operand is False:
        if more:
            yield SchemaError(pointer, "additionalProperties", "it has properties that are not allowed", tuple(more))
        return
    for name in more:
        yield from validator.iterate_errors(operand, value[name], pointer + format_pointer([name]), depth + 1)


def _items(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    if isinstance(value, list):
        first = len(schema.get("prefixItems", ()))
        for index, item in enumerate(value[first:], first):
            yield from validator.iterate_errors(operand, item, f"{pointer}/{index}", depth + 1)


def _prefix(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    if isinstance(value, list):
        for index, (part, item) in enumerate(zip(operand, value, strict=False)):
            yield from validator.iterate_errors(part, item, f"{pointer}/{index}", depth + 1)


def _any_of(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    if not any(validator.fits(part, value, depth) for part in operand):
        yield SchemaError(pointer, "anyOf", "it matches none of the allowed schemas")


def _one_of(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    count = sum(validator.fits(part, value, depth) for part in operand)
    if count == 0:
        yield SchemaError(pointer, "oneOf", "it matches none of the allowed schemas")
    elif count > 1:
        yield SchemaError(pointer, "oneOf", "it matches more than one of the schemas")


def _all_of(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    for part in operand:
        yield from validator.iterate_errors(part, value, pointer, depth + 1)


def _not(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    if validator.fits(operand, value, depth):
        yield SchemaError(pointer, "not", "it matches a schema that is not allowed")


def _ref(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    yield from validator.iterate_errors(validator.resolve(operand), value, pointer, depth + 1)


def _make_limit(keyword: str, types: type | tuple[type, ...], fits: Callable[[Any, Any], bool]) -> Any:
    """Return the check of a keyword that compares a value of these types with a number."""

    def check(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
        if isinstance(value, types) and not isinstance(value, bool) and not fits(value, operand):
            yield SchemaError(pointer, keyword, f"{keyword} is {operand}")

    return check


def _unique(validator: _Validator, schema: Any, operand: Any, value: Any, pointer: str, depth: int) -> Errors:
    is_checked = operand and isinstance(value, list)
    if is_checked and any(is_same_json(item, earlier) for index, item in enumerate(value) for earlier in value[:index]):
        yield SchemaError(pointer, "uniqueItems", "it has duplicate items")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


_NUMBERS = (int, float)
_KEYWORDS: dict[str, Callable[..., Errors]] = {
    "type": _type, "enum": _enum, "const": _const, "required": _required, "properties": _properties,
    "additionalProperties": _additional, "items": _items, "prefixItems": _prefix, "anyOf": _any_of, "oneOf": _one_of,
    "allOf": _all_of, "not": _not, "$ref": _ref, "uniqueItems": _unique,
    "minimum": _make_limit("minimum", _NUMBERS, lambda value, operand: value >= operand),
    "maximum": _make_limit("maximum", _NUMBERS, lambda value, operand: value <= operand),
    "exclusiveMinimum": _make_limit("exclusiveMinimum", _NUMBERS, lambda value, operand: value > operand),
    "exclusiveMaximum": _make_limit("exclusiveMaximum", _NUMBERS, lambda value, operand: value < operand),
    "minLength": _make_limit("minLength", str, lambda value, operand: len(value) >= operand),
    "maxLength": _make_limit("maxLength", str, lambda value, operand: len(value) <= operand),
    "minItems": _make_limit("minItems", list, lambda value, operand: len(value) >= operand),
    "maxItems": _make_limit("maxItems", list, lambda value, operand: len(value) <= operand),
    "minProperties": _make_limit("minProperties", dict, lambda value, operand: len(value) >= operand),
    "maxProperties": _make_limit("maxProperties", dict, lambda value, operand: len(value) <= operand),
}  # fmt: skip
