"""Schema errors: the places where an input does not match its schema, as client and server report them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SchemaError:
    """One place that does not match: `pointer` into the input, the schema's `keyword`, and a message without values.

    `unexpected` are the property names that the schema does not allow there, `missing` those that it requires.
    """

    pointer: str
    keyword: str
    message: str
    unexpected: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


FindSchemaErrors = Callable[[Any, Any], list[SchemaError]]  # of a schema and a value; none if the schema cannot be used


def format_pointer(names: Iterable[Any]) -> str:
    """Return the JSON Pointer of the path."""
    return "".join("/" + str(name).replace("~", "~0").replace("/", "~1") for name in names)
