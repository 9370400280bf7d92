"""Input repair: one unambiguous repair or none, and never to a more dangerous call.

Client and server share the rules and have a validator each; every rule holds with both.
"""

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
from toolcards.client.common import input_repair
from toolcards.client.common.input_fixes import FindSchemaErrors, SchemaError
from toolcards.client.common.input_repair import Offer, Repair, Trouble, fits, parse_offers
from toolcards.client.common.json_diff import diff
from toolcards.client.values import schema
from toolcards.core import input_repair as core

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
OFFERS = parse_offers([
    {"name": "get_weather", "input_schema": WEATHER},
    {"name": "delete_file", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}},
    {"name": "clean-up", "kind": "delete"}, {"name": "purge_cache"},
    {"name": "no_args", "inputSchema": {"type": "object", "additionalProperties": False}},
    {"name": "set_limits", "input_schema": LIMITS}, {"name": "deploy", "input_schema": DEPLOY},
    {"name": "twin_a"}, {"name": "twin-a"},
    {"name": "mcp__filesystem__read_file", "parameters": {"type": "object"}},
])  # fmt: skip
VALIDATORS: dict[str, FindSchemaErrors] = {"client": schema.find_errors, "server": core.find_errors}


@pytest.fixture(params=VALIDATORS)
def findings(request: pytest.FixtureRequest) -> FindSchemaErrors:
    return VALIDATORS[request.param]


def check(tool: str, value: Any, **more: Any) -> Trouble:
    """Return what both validators find wrong with the call."""
    troubles = [input_repair.check(tool, value, OFFERS, findings=each, **more) for each in VALIDATORS.values()]
    assert all(trouble is not None for trouble in troubles)
    assert len({trouble.fingerprint for trouble in troubles if trouble is not None}) == 1
    assert troubles[0] is not None
    return troubles[0]


def repair(tool: str, value: Any, **more: Any) -> Repair | None:
    """Return the repair, which is the same with both validators."""
    one, other = (input_repair.repair(tool, value, OFFERS, findings=each, **more) for each in VALIDATORS.values())
    assert (one and (one.tool, one.input)) == (other and (other.tool, other.input))
    return one


@loop_over(
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
         ("set_limits", {"max_items": 5, "share": 0.5, "strict": True}, "field name, number inside a text, boolean inside a text, integer inside a text")),
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
    result = repair(tool, value)
    assert result is not None
    assert (result.tool, result.input) == expected[:2]
    assert sorted(result.method.split(", ")) == sorted(expected[2].split(", "))  # validators report in any order


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
    assert check(tool, value)
    assert repair(tool, value) is None


def test_a_dangerous_name_may_be_repaired_to_the_same_danger() -> None:
    result = repair("DeleteFile", {"path": "x"})
    assert result is not None and result.tool == "delete_file"


def test_a_call_that_fits_is_left_alone(findings: FindSchemaErrors) -> None:
    assert input_repair.check("get_weather", {"city": "Rome"}, OFFERS, findings=findings) is None
    assert input_repair.repair("get_weather", {"city": "Rome"}, OFFERS, findings=findings) is None


def test_nothing_is_checked_where_the_run_offered_nothing(findings: FindSchemaErrors) -> None:
    assert input_repair.check("anything", {"a": 1}, {}, findings=findings) is None
    assert input_repair.check("", None, {}, findings=findings, has_input=False) is None


def test_input_that_is_not_json_is_invalid_and_not_repaired() -> None:
    trouble = check("get_weather", None, has_input=False)
    assert trouble.code == "invalid_input" and "not valid JSON" in trouble.message(OFFERS)
    assert repair("get_weather", None, has_input=False) is None
    assert repair("GetWeather", None, has_input=False) is None  # the name alone is not enough


def test_the_model_receives_the_places_and_the_tools_but_no_values() -> None:
    for findings in VALIDATORS.values():
        trouble = input_repair.check("get_weather", {"city": 4711, "x": "hunter2"}, OFFERS, findings=findings)
        assert trouble is not None
        text = trouble.message(OFFERS)
        assert "/city" in text and "get_weather, delete_file" in text and "Do not repeat" in text
        assert "4711" not in text and "hunter2" not in text
    assert check("nope", {}).message(OFFERS).startswith("no_such_tool: there is no tool named “nope”.")


def test_a_message_names_the_whole_input_where_it_has_no_place() -> None:
    assert "(the whole input): " in check("get_weather", [1]).message(OFFERS)


def test_a_message_is_short_whatever_the_model_wrote_and_the_run_offered() -> None:
    many = parse_offers({"name": f"tool_{number}"} for number in range(1000))
    text = Trouble("no_such_tool", "x" * 10_000).message(many)
    assert "tool_29 and 970 more." in text and "tool_30" not in text and len(text) < 1000
    few = parse_offers({"name": f"tool_{number}"} for number in range(30))
    assert "more" not in Trouble("no_such_tool", "x").message(few)
    assert "Allowed tools" not in Trouble("no_such_tool", "x").message({})


def test_the_same_mistake_has_the_same_fingerprint() -> None:
    one, two = (check("get_weather", {"city": n}) for n in (1, 2))
    assert one.fingerprint == two.fingerprint != check("get_weather", {}).fingerprint
    assert check("nope", {"a": 1}).fingerprint == check("nope", {}).fingerprint != check("nope2", {}).fingerprint
    places = (SchemaError("/a", "type", "one"), SchemaError("/b", "type", "two"))
    assert Trouble("invalid_input", "t", places).fingerprint == Trouble("invalid_input", "t", places[::-1]).fingerprint


# ---------------------------------------------------------------- offers


@loop_over(("announcement", "expected"), [
    ({"name": "a"}, Offer("a")),
    ({"name": "delete_file"}, Offer("delete_file", "delete")),
    ({"name": "delete_file", "kind": "read"}, Offer("delete_file", "delete")),  # the more dangerous of the two
    ({"name": "a", "kind": "execute"}, Offer("a", "execute")),
    ({"name": "a", "kind": "harmless"}, Offer("a")),
    ({"name": "a", "kind": ["read"]}, Offer("a")),
    ({"name": "a", "input_schema": {}, "inputSchema": {"type": "object"}}, Offer("a", schema={"type": "object"})),
    ({"name": "a", "parameters": {"type": "object"}, "output_schema": {"type": "array"}},
     Offer("a", schema={"type": "object"}, output={"type": "array"})),
    ({"name": "a", "input_schema": ["no object"]}, Offer("a", schema=["no object"])),
])  # fmt: skip
def test_a_tool_is_read_as_it_was_announced(announcement: Any, expected: Offer) -> None:
    assert Offer.parse(announcement) == expected == parse_offers([announcement])[expected.name]


def test_what_names_no_tool_is_no_offer_and_of_two_with_one_name_the_later_counts() -> None:
    odd = [{}, {"name": ""}, {"name": 5}, {"name": None}, {"name": ["a"]}, "a", None, 3, ["name", "a"]]
    offers = parse_offers([*odd, {"name": "a", "kind": "read"}, {"name": "b"}, {"name": "a", "kind": "execute"}])
    assert {name: offer.kind for name, offer in offers.items()} == {"a": "execute", "b": "other"}


# ---------------------------------------------------------------- what a repair may change


@loop_over(("original", "candidate", "errors", "expected"), [
    ({"a": "1"}, {"a": 1}, [SchemaError("/a", "type", "")], True),
    ({"a": {"b": "1"}}, {"a": {"b": 1}}, [SchemaError("/a", "type", "")], True),  # inside of the place
    ({"ab": "1"}, {"ab": 1}, [SchemaError("/a", "type", "")], False),  # a name that only begins alike
    ({"a": "1", "b": "1"}, {"a": 1, "b": 1}, [SchemaError("/a", "type", "")], False),
    ({"a": "1"}, {"a": "1"}, [SchemaError("/a", "type", "")], False),  # nothing was changed
    ({"A": 1}, {"a": 1}, [SchemaError("", "additionalProperties", "", ("A",)), SchemaError("", "required", "", (), ("a",))], True),
    ({"A": 1}, {"a": 1}, [SchemaError("", "additionalProperties", "", ("A",))], False),  # another field appeared
    ({"x": {"A": 1}}, {"x": {"a": 1}}, [SchemaError("/x", "additionalProperties", "", ("A",)), SchemaError("/x", "required", "", (), ("a",))], True),
    ("{}", {}, [SchemaError("", "type", "")], True),
    ({"a": 1}, {"a": 2}, [], False),
])  # fmt: skip
def test_a_repair_differs_only_at_the_invalid_places(
    original: Any, candidate: Any, errors: list[SchemaError], expected: bool
) -> None:
    assert fits(original, candidate, errors) is expected


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
    offers = parse_offers([{"name": "t", "input_schema": against}])
    for findings in VALIDATORS.values():
        trouble = input_repair.check("t", value, offers, findings=findings)
        result = input_repair.repair("t", value, offers, findings=findings)
        if result is None:
            continue
        assert trouble is not None
        assert not core.find_errors(against, result.input)
        assert diff(value, result.input)
        assert fits(value, result.input, trouble.findings)


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
    offers = parse_offers([{"name": "t", "input_schema": against}])
    for findings in VALIDATORS.values():
        result = input_repair.repair("t", value, offers, findings=findings)
        if result is not None:
            assert list_values(result.input) == list_values(value)
