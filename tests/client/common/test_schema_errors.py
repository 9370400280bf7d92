"""JSON Pointers of schema errors, as RFC 6901 writes them."""

from __future__ import annotations

from typing import Any

from tests.support.tables import loop_over
from toolcards.client.common.schema_errors import SchemaError, format_pointer


@loop_over(("names", "pointer"), [
    ([], ""), ([""], "/"), (["a"], "/a"), (["a", 0, "b"], "/a/0/b"), (["a/b"], "/a~1b"), (["m~n"], "/m~0n"),
    (["~1"], "/~01"), (["/~"], "/~1~0"), (["", ""], "//"), (["ö", " "], "/ö/ "),
])  # fmt: skip
def test_a_pointer_names_the_path(names: list[Any], pointer: str) -> None:
    assert format_pointer(names) == pointer
    assert [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]] == [str(n) for n in names]


def test_a_pointer_takes_any_iterable_of_names() -> None:
    assert format_pointer(str(n) for n in range(3)) == "/0/1/2"


def test_an_error_is_a_key_of_its_place_and_keyword() -> None:
    """Repairs collect errors; equal ones are one."""
    one, two = SchemaError("/a", "type", "it must be string"), SchemaError("/a", "type", "it must be string")
    assert {one, two} == {one} and (one.unexpected, one.missing) == ((), ())
    assert one != SchemaError("/a", "required", "it must be string", missing=("b",))
