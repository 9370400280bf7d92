"""One place of an input at a time: its one possible repair, or the value itself."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.client.common.input_fixes import SchemaError, fix_finding, format_pointer, strip_separators
from toolcards.client.common.json_text import is_same_json


def fix_type(value: Any, schema: Any, pointer: str = "") -> tuple[Any, str]:
    """Return the value after a `type` error at the place, and the method."""
    result, method, names = fix_finding(value, SchemaError(pointer, "type", ""), schema)
    assert names == ()
    return result, method


def fix_names(value: Any, unexpected: tuple[str, ...], schema: Any, pointer: str = "") -> Any:
    return fix_finding(value, SchemaError(pointer, "additionalProperties", "", unexpected), schema)


@loop_over(("text", "kind", "expected"), [
    ("5", "integer", 5), ("-3", "integer", -3), ("0", "integer", 0),
    ("12345678901234567", "integer", 12345678901234567),
    ("0.5", "number", 0.5), ("5", "number", 5), ("-0.25", "number", -0.25), ("true", "boolean", True),
    ("false", "boolean", False), ("{}", "object", {}), ("[1]", "array", [1]), (' {"a": 1} ', "object", {"a": 1}),
    ("", "object", {}), (" \n", "object", {}), ("[1]", "object", [1]),  # what is then still wrong is found again
])  # fmt: skip
def test_a_text_that_spells_one_value_becomes_it(text: str, kind: str, expected: Any) -> None:
    result, method = fix_type(text, {"type": kind})
    assert (result, type(result)) == (expected, type(expected)) and method


@loop_over(("text", "kind"), [
    ("5.0", "integer"), ("0.5", "integer"), ("true", "integer"), ("+5", "integer"), ("05", "integer"),
    (" 5", "integer"),
    ("5 ", "integer"), ("-0", "integer"), ("1e3", "integer"), ("123456789012345678", "integer"), ("", "integer"),
    ("٥", "integer"), ("five", "number"), ("1e3", "number"), ("1.50", "number"), ("0.1000000000000000055", "number"),
    ("1e400", "number"), ("NaN", "number"), ("-Infinity", "number"), (".5", "number"), ("false", "number"),
    ("True", "boolean"), ("1", "boolean"), ("yes", "boolean"), ("null", "boolean"), (" true", "boolean"),
    ("Rome", "object"), ("5", "object"), ('"{}"', "object"), ("null", "object"), ('{"a": NaN}', "object"),
    ('{"a": 1, "a": 2}', "object"), ('{"a": {"b": 1, "b": 1}}', "object"), ('{"a": 1e999}', "object"), ("{", "object"),
    ("[" * 100_000, "array"), ("9" * 5000, "object"), ("9" * 5000, "number"), (5, "object"), (None, "object"),
    ([], "object"),
])  # fmt: skip
def test_any_other_value_is_left_alone(text: Any, kind: str) -> None:
    result, method = fix_type(text, {"type": kind})
    assert result is text and method == ""


@draw(200)
@given(
    st.text(st.sampled_from("0123456789-+.eE ntruefals"), max_size=18),
    st.sampled_from(["integer", "number", "boolean"]),
)
def test_a_scalar_is_read_only_from_the_text_that_json_writes_for_it(text: str, kind: str) -> None:
    result, method = fix_type(text, {"type": kind})
    if method:
        assert json.dumps(result) == text and len(text) <= 17
        assert isinstance(result, bool) == (kind == "boolean")


@loop_over(("value", "pointer", "schema", "expected"), [
    ({"a": {"n": "5"}}, "/a/n", {"properties": {"a": {"properties": {"n": {"type": "integer"}}}}}, {"a": {"n": 5}}),
    ({"r": ["1", "2"]}, "/r/1", {"properties": {"r": {"items": {"type": "integer"}}}}, {"r": ["1", 2]}),
    ({"a/b": {"m~n": "1"}}, "/a~1b/m~0n", {"properties": {"a/b": {"properties": {"m~n": {"type": "integer"}}}}},
     {"a/b": {"m~n": 1}}),
    ({"a": "5"}, "/a", {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}, {"a": 5}),
    ("5", "", {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, 5),
    ({"a": "5"}, "/a", {"properties": {"a": {"type": ["integer", "null"]}}}, {"a": "5"}),  # more than one wanted type
    ({"a": "5"}, "/a", {"properties": {"a": {"$ref": "https://example.invalid/n"}}}, {"a": "5"}),
    ({"a": "5"}, "/a", {"properties": {"a": {"$ref": "#/$defs/nowhere"}}}, {"a": "5"}),
    ({"a": "5"}, "/a", {"properties": ["no object"]}, {"a": "5"}),
    ({"a": "5"}, "/a", "no schema", {"a": "5"}),
    ({"a": "5"}, "/b/c", {"type": "integer"}, {"a": "5"}),  # no such place
    (["5"], "/1", {"items": {"type": "integer"}}, ["5"]),
    (["5"], "/-1", {"items": {"type": "integer"}}, ["5"]),
    (["5"], "/\u00b2", {"items": {"type": "integer"}}, ["5"]),  # a digit, but no number
    (["5"], "/" + "9" * 5_000, {"items": {"type": "integer"}}, ["5"]),
    ({"a": "5"}, "/a", {"properties": {"a": {"$ref": "#/allOf/\u00b2"}}, "allOf": [{}]}, {"a": "5"}),
])  # fmt: skip
def test_a_repair_is_at_its_place_by_the_schema_of_that_place(
    value: Any, pointer: str, schema: Any, expected: Any
) -> None:
    before = json.dumps(value)
    result, _ = fix_type(value, schema, pointer)
    assert is_same_json(result, expected)
    assert json.dumps(value) == before  # the input as written is kept


@loop_over(("fields", "unexpected", "expected"), [
    ({"maxN": 1}, ("maxN",), {"max_n": 1}),
    ({"Max-N": 1, "dry_run": True}, ("Max-N",), {"max_n": 1, "dry_run": True}),
    ({"DRYRUN": 1, "MAXN": 2}, ("DRYRUN", "MAXN"), {"dry_run": 1, "max_n": 2}),
])  # fmt: skip
def test_a_field_gets_the_one_free_name_that_is_like_it(fields: Any, unexpected: Any, expected: Any) -> None:
    result, method, names = fix_names(fields, unexpected, {"properties": {"max_n": {}, "dry_run": {}, "n": {}}})
    assert result == expected and list(result) == list(expected) and method == "field name"
    assert set(names) == set(expected) - set(fields)


@loop_over(("fields", "unexpected", "properties"), [
    ({"other": 1}, ("other",), {"max_n": {}}),  # nothing is like it
    ({"MAX_N": 1, "max_n": 2}, ("MAX_N",), {"max_n": {}}),  # the name is taken
    ({"MAX_N": 1, "maxN": 2}, ("MAX_N", "maxN"), {"max_n": {}}),  # two for one name
    ({"MAXN": 1}, ("MAXN",), {"max_n": {}, "maxn": {}}),  # two names for one
    ({"MAXN": 1, "other": 1}, ("MAXN", "other"), {"max_n": {}}),  # half a repair is not enough
    ({"maх_n": 1}, ("maх_n",), {"max_n": {}}),  # a Cyrillic х
    ({"m" * 201: 1}, ("m" * 201,), {"M" * 201: {}}),
    ({"_-_": 1}, ("_-_",), {"--": {}}),  # names without a letter are not alike
    ({"MAXN": 1}, ("MAXN",), ["no object"]),
])  # fmt: skip
def test_a_field_keeps_its_name_otherwise(fields: Any, unexpected: Any, properties: Any) -> None:
    result, method, names = fix_names(fields, unexpected, {"properties": properties})
    assert result is fields and (method, names) == ("", ())


def test_only_what_is_named_as_unexpected_is_renamed() -> None:
    """A pattern may allow a field that is like another one."""
    value = {"MAXN": 1}
    result, method, names = fix_names(value, (), {"properties": {"max_n": {}}})
    assert result == value and (method, names) == ("", ())


def test_errors_of_other_keywords_have_no_repair() -> None:
    for keyword in ("required", "enum", "minimum", "", "json"):
        value = {"n": "5"}
        assert fix_finding(value, SchemaError("/n", keyword, ""), {"properties": {"n": {"type": "integer"}}}) == (
            value,
            "",
            (),
        )


def test_separators_are_dashes_and_underscores() -> None:
    assert strip_separators("a-b_c.d e") == "abc.d e" and strip_separators("-_") == ""


# ---------------------------------------------------------------- errors


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
