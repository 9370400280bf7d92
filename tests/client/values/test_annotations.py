"""A function's annotations as a schema, and edits of people that do not fit them."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any, Literal, Optional, Union

import pytest

from tests.support.tables import loop_over
from toolcards.client.values.annotations import EditMismatch, build_schema, check_edit

if typing.TYPE_CHECKING:
    from nowhere import Secret


def all_plain(a: bool, b: int, c: float, d: str, e: list, f: dict, g: None, h) -> None:  # type: ignore[no-untyped-def,type-arg]
    """Take one of each type."""


def nested(a: list[int], b: dict[str, list[bool]], c: int | None, d: Union[str, list[str]], e: Optional[float]) -> None:  # noqa: UP007, UP045
    """Take types with parts."""


def literal(a: Literal["x", 1, None, True], b: Literal[b"y"]) -> None:
    """Take single values."""


def unknown(a: Callable[..., int], b: tuple[int, str], c: set[int], d: bytes, e: Any, f: object) -> None:
    """Take what has no schema here."""


def odd(a: list[int, str], b: dict[str]) -> None:  # type: ignore[type-arg]
    """Take types with too many parts, or too few."""


def unnamed(a: int, /, *rest: int, b: int = 0, **more: str) -> None:
    """Take arguments without names too."""


def only_for_checkers(a: Secret, b: int) -> None:
    """Take a type that does not exist while the program runs."""


@loop_over(("function", "properties"), [
    (all_plain, {"a": {"type": "boolean"}, "b": {"type": "integer"}, "c": {"type": "number"}, "d": {"type": "string"},
                 "e": {"type": "array"}, "f": {"type": "object"}, "g": {"type": "null"}, "h": {}}),
    (nested, {
        "a": {"type": "array", "items": {"type": "integer"}},
        "b": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "boolean"}}},
        "c": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "d": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "e": {"anyOf": [{"type": "number"}, {"type": "null"}]}}),
    (literal, {"a": {"enum": ["x", 1, None, True]}, "b": {}}),
    (unknown, {"a": {}, "b": {}, "c": {}, "d": {}, "e": {}, "f": {}}),
    (odd, {"a": {}, "b": {}}),
    (unnamed, {"a": {"type": "integer"}, "b": {"type": "integer"}}),
])  # fmt: skip
def test_annotations_are_a_schema_of_the_named_parameters(function: Any, properties: dict[str, Any]) -> None:
    assert build_schema(function) == {"type": "object", "properties": properties}


def test_a_name_that_exists_only_for_type_checkers_allows_everything() -> None:
    assert build_schema(only_for_checkers) == {}
    check_edit({}, {"a": 1}, {"a": "anything"})


SCHEMA = build_schema(nested)
FITS = {"a": [1], "b": {"k": [True]}, "c": None, "d": "x", "e": 0.5}


@loop_over(("field", "value", "place"), [
    ("a", "12", "/a"), ("a", ["1"], "/a/0"), ("a", [True], "/a/0"), ("b", {"k": [1]}, "/b/k/0"), ("c", "5", "/c"),
    ("d", 5, "/d"),
    ("d", [5], "/d"), ("e", "0.5", "/e"),
])  # fmt: skip
def test_an_edit_that_does_not_fit_is_refused_by_its_place(field: str, value: Any, place: str) -> None:
    with pytest.raises(EditMismatch, match=f"A person edited the arguments.* {place}: ") as raised:
        check_edit(SCHEMA, FITS, FITS | {field: value})
    assert raised.value.toolcards_code == "invalid_input" and isinstance(raised.value, TypeError)


@loop_over("edited", [{}, {"a": []}, {"c": 3}, {"d": ["x", "y"]}, {"e": 1}, {"more": object}])
def test_an_edit_that_fits_passes(edited: dict[str, Any]) -> None:
    check_edit(SCHEMA, FITS, FITS | edited)


def test_an_edit_that_is_no_object_is_refused_as_a_whole() -> None:
    with pytest.raises(EditMismatch, match="the whole input"):
        check_edit(SCHEMA, FITS, [])


def test_annotations_that_the_agent_itself_ignores_bind_no_one() -> None:
    check_edit(SCHEMA, FITS | {"a": "not a list"}, FITS | {"a": 5})
