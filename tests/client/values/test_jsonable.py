"""Values as JSON: exact where they are JSON, readable elsewhere, never too long, and never an exception."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.client.values.jsonable import LARGEST_BITS, LONGEST, MAX_DEPTH, PREVIEW, shorten, to_jsonable

TEXTS = st.text(st.sampled_from('a1 \\"\0ß☃\ud800\U0001f98a'), max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@draw(100)
@given(JSON)
def test_what_is_json_stays_as_it_is(value: Any) -> None:
    assert json.dumps(to_jsonable(value)) == json.dumps(value) == json.dumps(shorten(value))


class Level(enum.IntEnum):
    HIGH = 3


class Color(enum.StrEnum):
    RED = "red"


class Kind(enum.Enum):
    PAIR = (1, {"a": 2})


class Word(str):
    def __str__(self) -> str:
        return "something else"


class Sly(int):
    def __int__(self) -> int:
        raise RuntimeError("no number")


@dataclasses.dataclass
class Node:
    name: Any
    parent: Any = None
    children: Any = dataclasses.field(default_factory=list)


class Model:
    def __init__(self, dump: Any) -> None:
        self.dump = dump

    def model_dump(self, mode: str) -> Any:
        assert mode == "json"
        if isinstance(self.dump, Exception):
            raise self.dump
        return self.dump

    def __str__(self) -> str:
        return "a model"


@loop_over(("value", "expected"), [
    (Level.HIGH, 3), (Color.RED, "red"), (Kind.PAIR, [1, {"a": 2}]), (Word("as it is"), "as it is"), (Sly(7), 7),
    (math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf"), ((1, (2,)), [1, [2]]), (frozenset({5}), [5]),
    (b"abc", "(3 bytes)"),
    (Decimal("1.50"), "1.50"), (datetime.date(2026, 1, 2), "2026-01-02"),
    ({1: "a", None: "b"}, {"1": "a", "None": "b"}),
    (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}), (Node("n", children=[Node(1)]),
     {"name": "n", "parent": None, "children": [{"name": 1, "parent": None, "children": []}]}),
    (Model({"x": (1,)}), {"x": [1]}), (Model(ValueError("no")), "a model"), (Node, str(Node)), (Model, str(Model)),
    (ValueError("no"), "no"), ({"a": {"b": math.nan}}, {"a": {"b": "nan"}}),
])  # fmt: skip
def test_what_is_no_json_is_readable(value: Any, expected: Any) -> None:
    result = to_jsonable(value)
    assert result == expected
    assert type(result) is type(expected)
    json.dumps(result, allow_nan=False)


def test_a_huge_integer_is_text_that_says_its_size() -> None:
    """Python refuses to write an integer of more than 4,300 digits."""
    assert to_jsonable(2**LARGEST_BITS - 1) == 2**LARGEST_BITS - 1
    assert to_jsonable(2**LARGEST_BITS) == shorten(2**LARGEST_BITS) == f"(an integer of {LARGEST_BITS + 1} bits)"
    assert shorten({"n": [10**5000]}) == {"n": [to_jsonable(10**5000)]}


def test_a_key_never_hides_another_one() -> None:
    """The keys 1 and "1" are one key of JSON: both values stay to be read."""
    assert to_jsonable({1: "shown", "1": "hidden"}) == "{1: 'shown', '1': 'hidden'}"
    assert to_jsonable({"names": {True: 1, "True": 2}, "n": 1}) == {"names": "{True: 1, 'True': 2}", "n": 1}


class Broken(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no item")

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "a broken mapping"


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Sulky:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no attribute")

    def __str__(self) -> str:
        return "sulky"


@loop_over(("value", "expected"), [
    (Broken(), "a broken mapping"), (Mute(), "(Mute)"), ([Mute(), {"a": Mute()}], ["(Mute)", {"a": "(Mute)"}]),
    ({Mute(): 1}, {"(Mute)": 1}), (Sulky(), "sulky"), (Model(Broken()), "a broken mapping"),
])  # fmt: skip
def test_no_foreign_class_raises(value: Any, expected: Any) -> None:
    assert to_jsonable(value) == expected == shorten(value)


def test_a_value_that_contains_itself_ends() -> None:
    """Each level of a tree whose nodes know their parents would come again in each of its children."""
    loop: list[Any] = [1]
    loop += [loop, loop, loop]
    assert to_jsonable(loop) == [1, *["[1, [...], [...], [...]]"] * 3]
    root = Node("root")
    root.children = [Node(str(number), root, [Node("leaf")]) for number in range(4)]
    result = to_jsonable(root)
    assert [child["children"][0]["name"] for child in result["children"]] == ["leaf"] * 4
    assert all(isinstance(child["parent"], str) for child in result["children"])
    same = [1]
    assert to_jsonable([same, same]) == [[1], [1]]  # twice is not inside


def test_deep_values_become_text_at_the_depth_limit() -> None:
    def nest(depth: int) -> Any:
        value: Any = "x"
        for _ in range(depth):
            value = [value]
        return value

    assert to_jsonable(nest(MAX_DEPTH + 1)) == nest(MAX_DEPTH + 1)
    result: Any = to_jsonable(nest(MAX_DEPTH + 2))
    for _ in range(MAX_DEPTH + 1):
        (result,) = result
    assert result == "['x']"
    assert json.dumps(to_jsonable(nest(900)))


@loop_over("value", ["x" * (LONGEST - 2), ["x" * (LONGEST - 4)], {"a": 1}, ""])
def test_a_value_that_fits_is_not_shortened(value: Any) -> None:
    assert shorten(value) == value


@loop_over(("value", "length"), [
    ("x" * (LONGEST - 1), LONGEST - 1), (["x" * LONGEST], LONGEST + 4), ("\U0001f98a" * LONGEST, LONGEST),
    ("\ud800" * LONGEST, LONGEST), (list(range(200_000)), len(json.dumps(list(range(200_000))))),
])  # fmt: skip
def test_a_value_that_does_not_fit_is_the_beginning_of_its_text(value: Any, length: int) -> None:
    result = shorten(value)
    preview, mark, rest = result.rpartition("… (")
    assert mark and rest == f"{length} characters in all)"
    assert (value if isinstance(value, str) else json.dumps(value)).startswith(preview)
    assert PREVIEW // 4 <= len(preview) <= PREVIEW and len(json.dumps(result)) < LONGEST + 100
