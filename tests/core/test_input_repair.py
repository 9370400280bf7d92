"""Input repair: one unambiguous repair or none, and never to a more dangerous call."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.client.common.json_diff import diff
from toolcards.core import input_repair

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}, "opts": {"type": "object"}}, "required": ["city"],
           "additionalProperties": False}  # fmt: skip
LIMITS = {
    "type": "object",
    "additionalProperties": False,
    "$defs": {"row": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    "properties": {
        "max_items": {"type": "integer"},
        "share": {"type": "number"},
        "strict": {"type": "boolean"},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/row"}},
    },
}
DEPLOY = {
    "type": "object",
    "properties": {"service": {"type": "string"}, "twin_a": {}, "twinA": {}},
    "additionalProperties": False,
}
OFFERS = input_repair.parse_offers([
    {"name": "get_weather", "input_schema": WEATHER},
    {"name": "delete_file", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}},
    {"name": "clean-up", "kind": "delete"}, {"name": "purge_cache"},
    {"name": "no_args", "inputSchema": {"type": "object", "additionalProperties": False}},
    {"name": "set_limits", "input_schema": LIMITS}, {"name": "deploy", "input_schema": DEPLOY},
    {"name": "twin_a"}, {"name": "twin-a"},
    {"name": "mcp__filesystem__read_file", "parameters": {"type": "object"}},
])  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "value", "expected"),
    [
        ("GetWeather", {"city": "Rome"}, ("get_weather", {"city": "Rome"}, "tool name")),
        ("get-weather", {"city": "Rome"}, ("get_weather", {"city": "Rome"}, "tool name")),
        ("functions.get_weather", {"city": "Rome"}, ("get_weather", {"city": "Rome"}, "tool name")),
        ("read_file", {}, ("mcp__filesystem__read_file", {}, "tool name")),
        ("get_weather", '{"city": "Rome"}', ("get_weather", {"city": "Rome"}, "JSON inside a text")),
        ("get_weather", {"City": "Rome"}, ("get_weather", {"city": "Rome"}, "field name")),
        ("get_weather", {"city": "Rome", "OPTS": {"a": 1}}, ("get_weather", {"city": "Rome", "opts": {"a": 1}}, "field name")),
        ("set_limits", {"maxItems": "5", "share": "0.5", "strict": "true"},
         ("set_limits", {"max_items": 5, "share": 0.5, "strict": True}, "number inside a text, boolean inside a text, field name, integer inside a text")),
        ("set_limits", {"rows": [{"n": "-3"}]}, ("set_limits", {"rows": [{"n": -3}]}, "integer inside a text")),
        ("get_weather", {"city": "Rome", "opts": "{}"}, ("get_weather", {"city": "Rome", "opts": {}}, "JSON inside a text")),
        ("no_args", "", ("no_args", {}, "empty input")),
        ("get_weather", '{"City":"Rome"}', ("get_weather", {"city": "Rome"}, "JSON inside a text, field name")),
        ("Get_Weather", '{"city":"Rome"}', ("get_weather", {"city": "Rome"}, "tool name, JSON inside a text")),
    ],
)  # fmt: skip
def test_an_input_with_only_one_possible_meaning_is_repaired(
    tool: str, value: Any, expected: tuple[str, Any, str]
) -> None:
    repair = input_repair.repair(tool, value, OFFERS)
    assert repair is not None
    assert (repair.tool, repair.input, repair.method) == expected


@loop_over(
    ("tool", "value"),
    [
        ("get_wether", {"city": "Rome"}),  # no guessing by likeness
        ("TwinA", {}),  # two candidates
        ("gеt_weather", {"city": "Rome"}),  # a Cyrillic е
        ("purgecache", {}),  # what it was called says nothing of deleting
        ("CleanUp", {}),  # announced as deleting
        ("get_weather", {}),  # no defaults for what is missing
        ("get_weather", {"city": 42}),  # no guessing of values
        ("get_weather", {"city": "Rome", "x": 1}),  # no field is dropped
        ("deploy", {"service": "shop", "dry_run": True}),
        ("deploy", {"service": "shop", "Service": "other"}),  # the name is taken
        ("deploy", {"SERVICE": "a", "Service": "b"}),
        ("deploy", {"Twin-A": 1}),  # two names fit
        ("deploy", {"sеrvice": "a"}),  # a Cyrillic е
        ("set_limits", {"max_items": "5.0"}),
        ("set_limits", {"max_items": "05"}),
        ("set_limits", {"max_items": " 5"}),
        ("set_limits", {"max_items": "five"}),
        ("set_limits", {"max_items": "9" * 40}),
        ("set_limits", {"share": "1e400"}),
        ("set_limits", {"share": "NaN"}),
        ("set_limits", {"strict": "yes"}),
        ("set_limits", {"strict": "1"}),
        ("get_weather", "Rome"),
        ("get_weather", ""),  # the schema does not accept {}
        ("get_weather", '{"city": "Rome"'),
        ("get_weather", '{"town": "Rome"}'),
        ("get_weather", '{"city": "Rome", "city": "Oslo"}'),  # which of the two?
        ("", {}),
    ],
)
def test_everything_else_is_left_broken(tool: str, value: Any) -> None:
    assert input_repair.check(tool, value, OFFERS) is not None
    assert input_repair.repair(tool, value, OFFERS) is None


def test_a_dangerous_name_may_be_repaired_to_the_same_danger() -> None:
    assert input_repair.repair("DeleteFile", {"path": "x"}, OFFERS).tool == "delete_file"


def test_a_call_that_fits_is_left_alone() -> None:
    assert input_repair.check("get_weather", {"city": "Rome"}, OFFERS) is None
    assert input_repair.repair("get_weather", {"city": "Rome"}, OFFERS) is None


def test_nothing_is_checked_where_the_run_offered_nothing() -> None:
    assert input_repair.check("anything", {"a": 1}, {}) is None


def test_a_broken_or_distant_schema_refuses_nothing() -> None:
    offers = input_repair.parse_offers([
        {"name": "a", "input_schema": {"type": "no such type"}}, {"name": "b", "input_schema": {"$ref": "https://example.invalid/x"}},
        {"name": "c", "input_schema": ["no object"]}, {"name": "d"}, {"nameless": 1}, "no object",
    ])  # fmt: skip
    assert list(offers) == ["a", "b", "c", "d"]
    assert all(input_repair.check(name, {"x": 1}, offers) is None for name in offers)


def test_input_that_is_not_json_is_invalid_and_not_repaired() -> None:
    trouble = input_repair.check("get_weather", None, OFFERS, has_input=False)
    assert trouble.code == "invalid_input"
    assert input_repair.repair("get_weather", None, OFFERS, has_input=False) is None


def test_the_model_receives_the_places_and_the_tools_but_no_values() -> None:
    trouble = input_repair.check("get_weather", {"city": 4711, "x": "hunter2"}, OFFERS)
    result = trouble.message(OFFERS)
    assert "/city" in result and "get_weather, delete_file" in result and "Do not repeat" in result
    assert "4711" not in result and "hunter2" not in result
    assert (
        input_repair.check("nope", {}, OFFERS)
        .message(OFFERS)
        .startswith("no_such_tool: there is no tool named “nope”.")
    )


def test_the_same_mistake_has_the_same_fingerprint() -> None:
    one, two = (input_repair.check("get_weather", {"city": n}, OFFERS) for n in (1, 2))
    assert one.fingerprint == two.fingerprint != input_repair.check("get_weather", {}, OFFERS).fingerprint


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "{}", "[]", '{"a":1}', '{"b":{"c":2}}', "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc/~"), inner, max_size=3),
    max_leaves=6,
)
SCHEMAS = st.recursive(
    st.sampled_from([{"type": "object"}, {"type": "array"}, {"type": "string"}, {"type": "object", "additionalProperties": False}]),
    lambda inner: st.builds(
        lambda props, is_closed: {"type": "object", "properties": props} | ({"additionalProperties": False} if is_closed else {}),
        st.dictionaries(st.sampled_from("abc/~"), inner, max_size=3), st.booleans(),
    ),
    max_leaves=4,
)  # fmt: skip


@draw(300)
@given(SCHEMAS, JSON)
def test_a_repaired_input_fits_and_differs_only_where_it_failed(against: Any, value: Any) -> None:
    offers = input_repair.parse_offers([{"name": "t", "input_schema": against}])
    trouble, repair = input_repair.check("t", value, offers), input_repair.repair("t", value, offers)
    if repair is None:
        return
    assert trouble is not None
    assert not input_repair.find_errors(against, repair.input)
    assert diff(value, repair.input)
    assert input_repair.fits(value, repair.input, trouble.findings)


def list_values(value: Any) -> Counter[str]:
    """Return all single values inside, with what texts hold as JSON in the place of the text."""
    if isinstance(value, str) and value != "" and value[0] in "{[0123456789-tf":
        try:
            value = json.loads(value)
        except ValueError:
            return Counter([json.dumps(value)])
    if isinstance(value, dict | list):
        return sum(
            (list_values(item) for item in (value.values() if isinstance(value, dict) else value)), Counter[str]()
        )
    return Counter([] if value == "" else [json.dumps(value)])  # an empty text may mean an empty object


FIELDS = st.sampled_from(["a", "A", "b", "max_n", "maxN", "Max-N", "dry_run"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.sampled_from(["", "5", "-1", "0.5", "true", "x", '{"A":1}', '{"dry_run":true}', "[1]"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=8,
)  # fmt: skip
CLOSED_SCHEMAS = st.recursive(
    st.sampled_from([{}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}, {"type": "string"}, {"type": "array"}]),
    lambda inner: st.builds(
        lambda props: {"type": "object", "properties": props, "additionalProperties": False},
        st.dictionaries(st.sampled_from(["a", "b", "max_n", "maxN"]), inner, min_size=1, max_size=3),
    ), max_leaves=4,
)  # fmt: skip


@draw(500)
@given(CLOSED_SCHEMAS, VALUES)
def test_every_value_of_the_input_survives_a_repair(against: Any, value: Any) -> None:
    repair = input_repair.repair("t", value, input_repair.parse_offers([{"name": "t", "input_schema": against}]))
    if repair is not None:
        assert list_values(repair.input) == list_values(value)
