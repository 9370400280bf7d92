"""Does an input fit a tool's JSON Schema (2020-12), and where not: a careful part of it, in the standard library.

A schema with a word that is not read here (a pattern, a reference to elsewhere, …) finds nothing: the server, which
reads all of them, has the last word anyway. What is found is what the server would find: the same places and words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .common.json_text import same
from .common.schema_errors import Finding, escaped

MAX_ERRORS = 20  # findings worth telling
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


class _Unsupported(Exception):
    """A word of the schema that is not read here."""


def find_errors(schema: Any, value: Any) -> list[Finding]:
    """Return where the value does not fit, at most `MOST` places; none where the schema is not read here."""
    if not isinstance(schema, dict):
        return []
    try:
        _require_supported(schema, 0)
        return list(_Validator(schema).read(schema, value, "", 0))[:MAX_ERRORS]
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
    """Raise _Unreadable where a word is not read here, even if this value would never come to it."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        raise _Unsupported
    for word, said in schema.items():
        if word in _ANNOTATIONS:
            if word in ("$defs", "definitions"):
                _require_all_supported(said, depth)
        elif word == "properties":
            _require_all_supported(said, depth)
        elif word in ("additionalProperties", "items", "not"):
            _require_supported(said, depth + 1)
        elif word in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for part in said if isinstance(said, list) else [None]:
                _require_supported(part, depth + 1)
        elif word not in _KEYWORDS:
            raise _Unsupported


def _require_all_supported(named: Any, depth: int) -> None:
    if not isinstance(named, dict):
        raise _Unsupported
    for part in named.values():
        _require_supported(part, depth + 1)


class _Validator:
    """One schema against one value."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root

    def read(self, schema: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
        if depth > MAX_DEPTH:
            raise _Unsupported
        if isinstance(schema, bool):
            if not schema:
                yield Finding(at, "falseSchema", "nothing is allowed here")
            return
        for word, said in schema.items():
            if word in _KEYWORDS:
                yield from _KEYWORDS[word](self, schema, said, value, at, depth)

    def fits(self, schema: Any, value: Any, depth: int) -> bool:
        return next(self.read(schema, value, "", depth + 1), None) is None

    def referred(self, name: Any) -> Any:
        if not isinstance(name, str) or not name.startswith("#"):
            raise _Unsupported
        found: Any = self.root
        for step in name[1:].split("/")[1:]:
            found = found[step.replace("~1", "/").replace("~0", "~")]
        _require_supported(found, 0)
        return found


# ---------------------------------------------------------------- one function per word


def _type(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    wanted = said if isinstance(said, list) else [said]
    if not any(_TYPES[name](value) for name in wanted):
        yield Finding(at, "type", f"it must be {' or '.join(wanted)}")


def _enum(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if not any(same(value, one) for one in said):
        yield Finding(at, "enum", "it is none of the values that are allowed")


def _const(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if not same(value, said):
        yield Finding(at, "const", "it is not the one value that is allowed")


def _required(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if isinstance(value, dict):
        gone = [name for name in said if name not in value]
        yield from (Finding(at, "required", f"{name!r} is missing", missing=(name,)) for name in gone)


def _properties(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if isinstance(value, dict):
        for name, part in said.items():
            if name in value:
                yield from reader.read(part, value[name], at + escaped([name]), depth + 1)


def _additional(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if not isinstance(value, dict):
        return
    more = [name for name in value if name not in schema.get("properties", {})]
    if said is False:
        if more:
            yield Finding(at, "additionalProperties", "it has names that are not allowed", tuple(more))
        return
    for name in more:
        yield from reader.read(said, value[name], at + escaped([name]), depth + 1)


def _items(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if isinstance(value, list):
        first = len(schema.get("prefixItems", ()))
        for index, item in enumerate(value[first:], first):
            yield from reader.read(said, item, f"{at}/{index}", depth + 1)


def _prefix(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if isinstance(value, list):
        for index, (part, item) in enumerate(zip(said, value, strict=False)):
            yield from reader.read(part, item, f"{at}/{index}", depth + 1)


def _any_of(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if not any(reader.fits(part, value, depth) for part in said):
        yield Finding(at, "anyOf", "it fits none of the shapes that are allowed")


def _one_of(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    count = sum(reader.fits(part, value, depth) for part in said)
    if count == 0:
        yield Finding(at, "oneOf", "it fits none of the shapes that are allowed")
    elif count > 1:
        yield Finding(at, "oneOf", "it fits more than one of the shapes")


def _all_of(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    for part in said:
        yield from reader.read(part, value, at, depth + 1)


def _not(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if reader.fits(said, value, depth):
        yield Finding(at, "not", "it has a shape that is not allowed")


def _ref(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    yield from reader.read(reader.referred(said), value, at, depth + 1)


def _make_limit(word: str, wanted: type | tuple[type, ...], fits: Callable[[Any, Any], bool]) -> Any:
    """A word that compares a value of some types with a number."""

    def check(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
        if isinstance(value, wanted) and not isinstance(value, bool) and not fits(value, said):
            yield Finding(at, word, f"{word} is {said}")

    return check


def _unique(reader: _Validator, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    twice = said and isinstance(value, list)
    if twice and any(same(one, other) for index, one in enumerate(value) for other in value[:index]):
        yield Finding(at, "uniqueItems", "an item comes twice")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


_NUMBERS = (int, float)
_KEYWORDS: dict[str, Callable[..., Iterator[Finding]]] = {
    "type": _type, "enum": _enum, "const": _const, "required": _required, "properties": _properties,
    "additionalProperties": _additional, "items": _items, "prefixItems": _prefix, "anyOf": _any_of, "oneOf": _one_of,
    "allOf": _all_of, "not": _not, "$ref": _ref, "uniqueItems": _unique,
    "minimum": _make_limit("minimum", _NUMBERS, lambda value, said: value >= said),
    "maximum": _make_limit("maximum", _NUMBERS, lambda value, said: value <= said),
    "exclusiveMinimum": _make_limit("exclusiveMinimum", _NUMBERS, lambda value, said: value > said),
    "exclusiveMaximum": _make_limit("exclusiveMaximum", _NUMBERS, lambda value, said: value < said),
    "minLength": _make_limit("minLength", str, lambda value, said: len(value) >= said),
    "maxLength": _make_limit("maxLength", str, lambda value, said: len(value) <= said),
    "minItems": _make_limit("minItems", list, lambda value, said: len(value) >= said),
    "maxItems": _make_limit("maxItems", list, lambda value, said: len(value) <= said),
    "minProperties": _make_limit("minProperties", dict, lambda value, said: len(value) >= said),
    "maxProperties": _make_limit("maxProperties", dict, lambda value, said: len(value) <= said),
}  # fmt: skip
