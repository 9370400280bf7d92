"""The client's check of schemas: it finds what the server finds, or leaves it to the server."""

# ruff: noqa: E501 - tables are read across
from __future__ import annotations

import random
from typing import Any

import pytest

from toolcards.client.values import schema as part
from toolcards.core import input_repair as whole

SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "required": ["city", "n"], "additionalProperties": False, "properties": {
        "city": {"type": "string", "minLength": 2}, "n": {"type": "integer", "minimum": 1, "exclusiveMaximum": 9}, "u": {"enum": ["a", "b", 1]}}},
    {"type": ["object", "null"], "$defs": {"x": {"anyOf": [{"type": "string"}, {"type": "object", "required": ["k"]}]}},
     "properties": {"l": {"type": "array", "items": {"$ref": "#/$defs/x"}, "minItems": 1, "uniqueItems": True}}, "additionalProperties": {"type": "number"}},
    {"oneOf": [{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}, {"type": "object", "properties": {"b": False}}]},
    {"allOf": [{"type": "object"}, {"properties": {"t": {"prefixItems": [{"type": "string"}, {"type": "boolean"}], "items": False}}}],
     "not": {"required": ["bad"]}, "maxProperties": 2},
]  # fmt: skip
NAMES = ["city", "n", "u", "l", "a", "b", "t", "bad", "k", "x/y~"]


def a_value(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.randrange(8) if depth < 3 else 7
    if kind < 2:
        return {dice.choice(NAMES): a_value(dice, depth + 1) for _ in range(dice.randrange(4))}
    if kind == 2:
        return [a_value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return dice.choice([None, True, False, 0, 1, 1.0, 2.5, 9, "a", "b", "", "Rome", "{}", -3])


def list_errors(value: Any) -> list[Any]:
    return sorted((one.pointer, one.keyword, sorted(one.unexpected), one.missing) for one in value)


def test_the_agents_side_finds_what_the_server_finds() -> None:
    wrong = 0
    for seed in range(3000):
        dice = random.Random(seed)
        against = dice.choice(SCHEMAS)
        value = a_value(dice) if seed % 3 else {name: a_value(dice, 1) for name in dice.sample(NAMES, 3)}
        expected = list_errors(whole.find_errors(against, value))
        wrong += bool(expected)
        assert list_errors(part.find_errors(against, value)) == expected, (against, value)
    assert wrong > 1000


@pytest.mark.parametrize("word", [{"pattern": "a+"}, {"$ref": "https://example.com/x"}, {"if": {}}, {"properties": {"a": {"contains": {}}}}, {"items": 3}])  # fmt: skip
def test_a_schema_with_a_word_that_is_not_read_leaves_it_to_the_server(word: dict[str, Any]) -> None:
    assert part.find_errors({"type": "string", **word}, {"a": 1}) == []
