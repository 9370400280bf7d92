"""JSON Schema on the server: whole, offline and bounded, in messages without values.

The rules of repairs are tested where they are, in `client/common/test_input_repair.py`.
"""

from __future__ import annotations

import math
import time
from typing import Any

from tests.support.tables import loop_over
from toolcards.client.common.input_fixes import SchemaError
from toolcards.core import input_repair

OBJECT = {
    "type": "object",
    "properties": {"a/b": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}


def test_an_error_has_its_place_keyword_and_names() -> None:
    errors = input_repair.find_errors(OBJECT, {"a/b": "x", "Name": 1, "more": 2})
    places = {(error.pointer, error.keyword, error.unexpected, error.missing) for error in errors}
    assert places == {
        ("/a~1b", "type", (), ()), ("", "required", (), ("name",)), ("", "additionalProperties", ("Name", "more"), ()),
    }  # fmt: skip
    assert input_repair.find_errors({**OBJECT, "additionalProperties": True}, {"name": 1, "a/b": 2}) == []


def test_messages_hold_no_values_and_are_short() -> None:
    schema = {"properties": {"a": {"const": 1}, "b": {"pattern": "^x+$"}, "c": {"enum": ["y"]}, "d": {"maxLength": 3}}}
    value = dict.fromkeys("abcd", "hunter2 is the password")
    errors = input_repair.find_errors(schema, value)
    assert len(errors) == 4 and not any("hunter2" in error.message for error in errors)
    (error,) = input_repair.find_errors({"enum": ["x" * 10_000]}, 1)
    assert len(error.message) == 300


@loop_over("schema", [
    {"type": "no such type"}, {"$ref": "https://example.invalid/x"}, {"$ref": "#/nowhere"}, {"pattern": "("},
    ["no object"],
    "text", None, 5, {}, True, {"type": {1, 2}}, {"minimum": math.nan}, {"description": "x" * 64_001, "type": "string"},
])  # fmt: skip
def test_a_broken_distant_or_huge_schema_refuses_nothing(schema: Any) -> None:
    assert not input_repair.is_usable(schema)
    assert input_repair.find_errors(schema, {"x": 1}) == []
    offers = input_repair.parse_offers([{"name": "a", "input_schema": schema}])
    assert input_repair.check("a", {"x": 1}, offers) is None


def test_a_nested_schema_that_has_no_end_refuses_nothing() -> None:
    schema: dict[str, Any] = {}
    schema["properties"] = {"a": schema}
    assert not input_repair.is_usable(schema) and input_repair.find_errors(schema, {"a": 1}) == []


def test_a_schema_at_the_limit_is_read() -> None:
    schema = {"type": "object", "description": ""}
    schema["description"] = "x" * (input_repair.MAX_SCHEMA_LENGTH - len(input_repair._dump_schema(schema)))
    assert input_repair.is_usable(schema) and input_repair.find_errors(schema, [])
    schema["description"] += "x"
    assert not input_repair.is_usable(schema)


def test_a_value_has_at_most_twenty_errors() -> None:
    errors = input_repair.find_errors({"items": {"type": "string"}}, list(range(1000)))
    assert [error.pointer for error in errors] == [f"/{index}" for index in range(20)]


def test_a_pattern_that_never_ends_is_given_up() -> None:
    began = time.process_time()
    input_repair.find_errors({"pattern": r"^(?=(a+)+$)(a|a)*b$"}, "a" * 5000 + "c")
    assert time.process_time() - began < 5


@loop_over("value", [math.nan, math.inf, {1, 2}, object(), {1: 2}, b"x", 10**400])
def test_a_value_that_is_not_json_does_no_harm(value: Any) -> None:
    assert all(isinstance(error, SchemaError) for error in input_repair.find_errors({"type": "string"}, value))
    assert all(
        isinstance(error, SchemaError) for error in input_repair.find_errors({"items": {"type": "string"}}, [value])
    )


def test_formats_are_not_checked() -> None:
    """As the client does not: both find the same."""
    assert input_repair.find_errors({"type": "string", "format": "email"}, "no address") == []


def test_check_and_repair_use_the_whole_of_json_schema() -> None:
    """The client leaves a pattern to the server."""
    offers = input_repair.parse_offers(
        [{"name": "a", "input_schema": {"properties": {"n": {"type": "integer"}, "c": {"pattern": "^x"}}}}]
    )
    trouble = input_repair.check("a", {"c": "y"}, offers)
    assert trouble is not None and trouble.findings[0].keyword == "pattern"
    result = input_repair.repair("a", {"n": "5", "c": "x"}, offers)
    assert result is not None and result.input == {"n": 5, "c": "x"}
    assert input_repair.repair("a", {"n": "5", "c": "y"}, offers) is None
