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

MOST = 20  # findings worth telling
DEEPEST = 40
_SILENT = frozenset([
    "$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType", "contentSchema",
])  # fmt: skip
_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: _number(value),
    "integer": lambda value: _number(value) and (isinstance(value, int) or value.is_integer()),
}


class _Unreadable(Exception):
    """A word of the schema that is not read here."""


def findings(schema: Any, value: Any) -> list[Finding]:
    """Return where the value does not fit, at most `MOST` places; none where the schema is not read here."""
    if not isinstance(schema, dict):
        return []
    try:
        _readable(schema, 0)
        return list(_Reader(schema).read(schema, value, "", 0))[:MOST]
    except (_Unreadable, RecursionError, TypeError, ValueError, KeyError, AttributeError, OverflowError):
        return []


def usable(schema: Any) -> bool:
    """Return whether the schema can be used to check anything."""
    try:
        _readable(schema, 0)
    except (_Unreadable, RecursionError):
        return False
    return isinstance(schema, dict) and bool(schema)


def _readable(schema: Any, depth: int) -> None:
    """Raise _Unreadable where a word is not read here, even if this value would never come to it."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict) or depth > DEEPEST:
        raise _Unreadable
    for word, said in schema.items():
        if word in _SILENT:
            if word in ("$defs", "definitions"):
                _all_readable(said, depth)
        elif word == "properties":
            _all_readable(said, depth)
        elif word in ("additionalProperties", "items", "not"):
            _readable(said, depth + 1)
        elif word in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for part in said if isinstance(said, list) else [None]:
                _readable(part, depth + 1)
        elif word not in _WORDS:
            raise _Unreadable


def _all_readable(named: Any, depth: int) -> None:
    if not isinstance(named, dict):
        raise _Unreadable
    for part in named.values():
        _readable(part, depth + 1)


class _Reader:
    """One schema against one value."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root

    def read(self, schema: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
        if depth > DEEPEST:
            raise _Unreadable
        if isinstance(schema, bool):
            if not schema:
                yield Finding(at, "falseSchema", "nothing is allowed here")
            return
        for word, said in schema.items():
            if word in _WORDS:
                yield from _WORDS[word](self, schema, said, value, at, depth)

    def fits(self, schema: Any, value: Any, depth: int) -> bool:
        return next(self.read(schema, value, "", depth + 1), None) is None

    def referred(self, name: Any) -> Any:
        if not isinstance(name, str) or not name.startswith("#"):
            raise _Unreadable
        found: Any = self.root
        for step in name[1:].split("/")[1:]:
            found = found[step.replace("~1", "/").replace("~0", "~")]
        _readable(found, 0)
        return found


# ---------------------------------------------------------------- one function per word


def _type(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    wanted = said if isinstance(said, list) else [said]
    if not any(_TYPES[name](value) for name in wanted):
        yield Finding(at, "type", f"it must be {' or '.join(wanted)}")


def _enum(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if not any(same(value, one) for one in said):
        yield Finding(at, "enum", "it is none of the values that are allowed")


def _const(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if not same(value, said):
        yield Finding(at, "const", "it is not the one value that is allowed")


def _required(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if isinstance(value, dict):
        gone = [name for name in said if name not in value]
        yield from (Finding(at, "required", f"{name!r} is missing", missing=(name,)) for name in gone)


def _properties(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if isinstance(value, dict):
        for name, part in said.items():
            if name in value:
                yield from reader.read(part, value[name], at + escaped([name]), depth + 1)


def _additional(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if not isinstance(value, dict):
        return
    more = [name for name in value if name not in schema.get("properties", {})]
    if said is False:
        if more:
            yield Finding(at, "additionalProperties", "it has names that are not allowed", tuple(more))
        return
    for name in more:
        yield from reader.read(said, value[name], at + escaped([name]), depth + 1)


def _items(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if isinstance(value, list):
        first = len(schema.get("prefixItems", ()))
        for index, item in enumerate(value[first:], first):
            yield from reader.read(said, item, f"{at}/{index}", depth + 1)


def _prefix(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if isinstance(value, list):
        for index, (part, item) in enumerate(zip(said, value, strict=False)):
            yield from reader.read(part, item, f"{at}/{index}", depth + 1)


def _any_of(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if not any(reader.fits(part, value, depth) for part in said):
        yield Finding(at, "anyOf", "it fits none of the shapes that are allowed")


def _one_of(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    count = sum(reader.fits(part, value, depth) for part in said)
    if count == 0:
        yield Finding(at, "oneOf", "it fits none of the shapes that are allowed")
    elif count > 1:
        yield Finding(at, "oneOf", "it fits more than one of the shapes")


def _all_of(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    for part in said:
        yield from reader.read(part, value, at, depth + 1)


def _not(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    if reader.fits(said, value, depth):
        yield Finding(at, "not", "it has a shape that is not allowed")


def _ref(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    yield from reader.read(reader.referred(said), value, at, depth + 1)


def _limit(word: str, wanted: type | tuple[type, ...], fits: Callable[[Any, Any], bool]) -> Any:
    """A word that compares a value of some types with a number."""

    def check(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
        if isinstance(value, wanted) and not isinstance(value, bool) and not fits(value, said):
            yield Finding(at, word, f"{word} is {said}")

    return check


def _unique(reader: _Reader, schema: Any, said: Any, value: Any, at: str, depth: int) -> Iterator[Finding]:
    twice = said and isinstance(value, list)
    if twice and any(same(one, other) for index, one in enumerate(value) for other in value[:index]):
        yield Finding(at, "uniqueItems", "an item comes twice")


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


_NUMBERS = (int, float)
_WORDS: dict[str, Callable[..., Iterator[Finding]]] = {
    "type": _type, "enum": _enum, "const": _const, "required": _required, "properties": _properties,
    "additionalProperties": _additional, "items": _items, "prefixItems": _prefix, "anyOf": _any_of, "oneOf": _one_of,
    "allOf": _all_of, "not": _not, "$ref": _ref, "uniqueItems": _unique,
    "minimum": _limit("minimum", _NUMBERS, lambda value, said: value >= said),
    "maximum": _limit("maximum", _NUMBERS, lambda value, said: value <= said),
    "exclusiveMinimum": _limit("exclusiveMinimum", _NUMBERS, lambda value, said: value > said),
    "exclusiveMaximum": _limit("exclusiveMaximum", _NUMBERS, lambda value, said: value < said),
    "minLength": _limit("minLength", str, lambda value, said: len(value) >= said),
    "maxLength": _limit("maxLength", str, lambda value, said: len(value) <= said),
    "minItems": _limit("minItems", list, lambda value, said: len(value) >= said),
    "maxItems": _limit("maxItems", list, lambda value, said: len(value) <= said),
    "minProperties": _limit("minProperties", dict, lambda value, said: len(value) >= said),
    "maxProperties": _limit("maxProperties", dict, lambda value, said: len(value) <= said),
}  # fmt: skip
