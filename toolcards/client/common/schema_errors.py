"""Where an input does not fit its schema: what the readers of schemas find, ours and the server's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One place that does not fit: `pointer` into the input, the schema's `keyword`, and words without values.

    `unexpected` are the property names that the schema closes out there, `missing` those that it wants.
    """

    pointer: str
    keyword: str
    message: str
    unexpected: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


Findings = Callable[[Any, Any], list[Finding]]  # of a schema and a value; none where the schema cannot be used


def escaped(names: Iterable[Any]) -> str:
    """Return the JSON Pointer of the path."""
    return "".join("/" + str(name).replace("~", "~0").replace("/", "~1") for name in names)
