"""Form fields that several rooms share: JSON, lists of names, and errors in one line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django import forms
from hypothesis import given
from hypothesis import strategies as st

from dashboard.form_fields import JsonField, NamesField, join_errors, read_json
from tests.support.effort import draw
from tests.support.tables import loop_over

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def read_error(field: forms.Field, value: Any) -> str:
    with pytest.raises(forms.ValidationError) as error:
        field.clean(value)
    return " ".join(error.value.messages)


@draw(60)
@given(JSON_VALUES)
def test_json_is_read_as_it_was_written(value: Any) -> None:
    assert read_json(json.dumps(value)) == value


@loop_over(("text", "reason"), [
    ("", "Expecting value"), ("{", "Expecting"), ("{'a': 1}", "Expecting"), ("[1,]", ""), ("1 2", "Extra data"),
    ("NaN", "NaN is not a JSON number"), ('{"a": [-Infinity]}', "-Infinity is not a JSON number"),
    ('{"a": 1, "a": 1}', "an object has a duplicate key"), ('[{"b": {"a": 1, "\\u0061": 2}}]', "duplicate key"),
    ('"\0"', "Invalid control character"), ("9" * 5_000, "a number has 5,000 digits."),
])  # fmt: skip
def test_what_is_not_json_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(forms.ValidationError) as error:
        read_json(text)
    assert error.value.message.startswith("This is not JSON: ") and reason in error.value.message


@loop_over("text", ["[" * 200_000, '{"a":' * 200_000])
def test_json_that_is_nested_too_deeply_is_refused_in_plain_words(text: str) -> None:
    with pytest.raises(forms.ValidationError, match="This JSON is nested too deeply"):
        read_json(text)


@loop_over(("text", "names"), [
    ("", []), (None, []), (" ,\n, ", []), ("a", ["a"]), ("b, a,b", ["b", "a", "b"]),
    ("a b\r\nc\n\nd", ["a b", "c", "d"]),
    ("group:lead,mcp__*", ["group:lead", "mcp__*"]), (" \u202ea ", ["\u202ea"]),
])  # fmt: skip
def test_names_are_separated_by_commas_and_line_breaks(text: str | None, names: list[str]) -> None:
    assert NamesField(required=False).clean(text) == names


@draw(60)
@given(st.lists(st.text(st.characters(blacklist_characters=",\0", blacklist_categories=["Cc", "Cs", "Z"]), min_size=1)))
def test_names_that_are_shown_are_read_again(names: list[str]) -> None:
    field = NamesField(required=False)
    assert field.clean(field.prepare_value(names)) == names


def test_typed_names_are_shown_again_as_they_were_typed() -> None:
    assert NamesField().prepare_value("a,\nb") == "a,\nb"


def test_the_length_of_names_is_that_of_the_text() -> None:
    field = NamesField(max_length=10, required=False)
    assert field.clean("a,b,c,d") == ["a", "b", "c", "d"]
    assert "at most 10 characters (it has 11)" in read_error(field, "a" * 11)


def test_names_without_a_name_are_missing_and_a_nul_is_refused() -> None:
    assert read_error(NamesField(), " , ") == read_error(NamesField(), "") == "This field is required."
    assert "Null characters" in read_error(NamesField(required=False), "a\0b")


@loop_over(("text", "value"), [("", {}), (None, {}), (" \n", {}), ("{}", {}), (' {"a": [1, null]} ', {"a": [1, None]})])
def test_an_object_is_read_and_nothing_is_an_empty_object(text: str | None, value: Any) -> None:
    assert JsonField(required=False).clean(text) == value


@loop_over("text", ["[]", "null", "1", '"a"', "false"])
def test_json_that_is_no_object_is_refused(text: str) -> None:
    assert read_error(JsonField(required=False), text) == "This must be an object in braces: {…}."


@draw(60)
@given(st.dictionaries(st.text(), JSON_VALUES, max_size=4))
def test_an_object_that_is_shown_is_read_again(value: dict[str, Any]) -> None:
    field = JsonField(required=False)
    assert field.clean(field.prepare_value(value)) == value


def test_an_object_is_shown_with_its_letters_and_broken_text_as_it_was_typed() -> None:
    assert JsonField().prepare_value({"a": "né<"}) == '{\n  "a": "né<"\n}'
    assert (JsonField().prepare_value({}), JsonField().prepare_value("{")) == ("", "{")


def test_errors_are_one_line_with_the_names_of_their_fields() -> None:
    class PairForm(forms.Form):
        first = NamesField()
        second = forms.IntegerField(max_value=3)

    assert join_errors(PairForm({"first": "a", "second": "1"})) == ""
    errors = join_errors(PairForm({"second": "7"}))
    assert errors == "first: This field is required. second: Ensure this value is less than or equal to 3."
