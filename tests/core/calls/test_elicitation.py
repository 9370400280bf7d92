"""The fields of forms of MCP servers, and which values fit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.core.calls.elicitation import InvalidAnswer, check_answers, read_fields
from toolcards.core.calls.questions import read_message, read_questions

TITLED = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]


def make_form(*, required: Any = (), definitions: Any = None, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"message": "Fill in", "requestedSchema": schema | ({"$defs": definitions} if definitions else {})}


@loop_over(
    ("schema", "good", "bad"),
    [
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd", 3, None]),
        ({"type": "string"}, ["", "x" * 4_000], ["x" * 4_001]),
        ({"type": "string", "format": "email"}, ["a@b.de"], ["a", "a@b c"]),
        ({"type": "string", "format": "uri"}, ["https://a.b/c"], ["a/b", "https:// a"]),
        ({"type": "string", "format": "date"}, ["2026-02-28"], ["2026-02-30", "20260228", "today"]),
        ({"type": "string", "format": "date-time"}, ["2026-02-28T10:00:00Z"], ["2026-02-28", "10:00"]),
        ({"type": "integer", "minimum": 1, "maximum": 9}, [1, 9], [0, 10, 1.5, True, "1", 2**60]),
        ({"type": "number", "exclusiveMinimum": 0}, [0.5, 3], [0, -1, float("nan"), float("inf"), False]),
        ({"type": "boolean"}, [True, False], ["true", 1, None]),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}, ["a"], ["A", "c", ""]),
        ({"type": "string", "oneOf": TITLED}, ["s"], ["Small"]),
        ({"type": "integer", "enum": [1, 2]}, [1], [True, 1.0, "1"]),
        ({"const": "yes"}, ["yes"], ["no"]),
        ({"type": ["string", "null"]}, ["a"], [1]),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}, [4], ["4"]),
        ({"$ref": "#/$defs/Size"}, ["s"], ["m"]),
        (
            {"type": "array", "items": {"anyOf": TITLED}, "minItems": 1},
            [["s"], ["s", "l"]],
            [[], ["m"], "s"],
        ),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}, "maxItems": 0}, [[]], [["a"]]),
    ],
)
def test_values_that_fit_pass_and_others_are_named(schema: Any, good: list[Any], bad: list[Any]) -> None:
    form = make_form(x=schema, definitions={"Size": {"type": "string", "enum": ["s", "l"]}})
    for value in good:
        check_answers(form, {"x": value})
    for value in bad:
        with pytest.raises(InvalidAnswer, match=r"^x: "):
            check_answers(form, {"x": value})


def test_required_fields_need_an_answer_and_unknown_ones_are_refused() -> None:
    form = make_form(required=["x"], x={"type": "string"}, y={"type": "string"})
    check_answers(form, {"x": ""})
    for answers in ({}, {"y": "a"}, {"x": "a", "z": "b"}, None, [], "x"):
        with pytest.raises(InvalidAnswer):
            check_answers(form, answers)


UNREADABLE = {
    "no message": {"requestedSchema": {"type": "object", "properties": {}}},
    "no schema": {"message": "x"},
    "a list of properties": {"message": "x", "requestedSchema": {"properties": []}},
    "a nested object": make_form(x={"type": "object", "properties": {}}),
    "a free list": make_form(x={"type": "array", "items": {"type": "string"}}),
    "two types": make_form(x={"type": ["string", "integer"]}),
    "a field that is a text": make_form(x="string"),
    "a reference to itself": make_form(x={"$ref": "#/$defs/a"}, definitions={"a": {"$ref": "#/$defs/a"}}),
    "a choice of objects": make_form(x={"type": "string", "enum": [{}]}),
    "201 options": make_form(x={"type": "string", "enum": [str(n) for n in range(201)]}),
    "51 fields": make_form(**{f"x{n}": {"type": "string"} for n in range(51)}),
    "a required field that is none": make_form(required=["y"], x={"type": "string"}),
    "required fields that are no texts": make_form(required=[{}], x={"type": "string"}),
    "required fields that are an object": {"message": "x", "requestedSchema": {"properties": {}, "required": {}}},
}


@pytest.mark.parametrize("form", UNREADABLE.values(), ids=UNREADABLE)
def test_a_form_that_cannot_be_shown_has_no_fields(form: Any) -> None:
    assert read_fields(form) is None and read_questions("elicitation/create", form) == ()


def test_limits_that_are_no_numbers_count_as_none() -> None:
    form = make_form(x={"type": "string", "maxLength": "9", "minLength": None}, y={"type": "number", "minimum": "a"})
    check_answers(form, {"x": "abc", "y": 1})


@pytest.mark.parametrize(("text", "value"), [("3", 3), ("-0.5", -0.5), ("1e3", 1000), ("2.0", 2)])
def test_typed_numbers_become_numbers(text: str, value: float) -> None:
    (field,) = read_fields(make_form(x={"type": "number"})) or ()
    assert field.parse_text(text) == value


@pytest.mark.parametrize("text", ["", "three", "1_000", "0x10", "nan", "inf", "1e999", "9" * 41, "٣", "1.5 "])
def test_texts_that_are_no_numbers_are_refused(text: str) -> None:
    (field,) = read_fields(make_form(x={"type": "number"})) or ()
    with pytest.raises(InvalidAnswer, match="x: enter a number"):
        field.parse_text(text)


def test_hundred_options_are_shown_and_long_texts_are_cut() -> None:
    names = [f"{n} {'<b>' * 300}" for n in range(100)]
    form = make_form(x={"type": "string", "enum": names, "description": "y" * 9_000, "default": names[7]})
    form["message"] = "z" * 9_000
    (question,) = read_questions("elicitation/create", form)
    assert len(question.options) == 100 and max(len(option.label) for option in question.options) == 501
    assert [option.is_default for option in question.options].index(True) == 7
    assert len(question.text) == 4_001 == len(read_message("elicitation/create", form))
