"""The places where two JSON values differ: all of them, the smallest ones, in reading order."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.client.common.json_diff import JsonChange, diff
from toolcards.client.common.json_text import is_same_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from([0.0, 1.0, "", "a", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "", "/", "~1"]), inner,
     max_size=3),
    max_leaves=8,
)  # fmt: skip


@loop_over(("before", "after", "expected"), [
    (1, 2, [("", "~", 1, 2)]),
    (1, 1.0, []),
    (1, True, [("", "~", 1, True)]),
    (None, {}, [("", "~", None, {})]),
    ([], {}, [("", "~", [], {})]),
    ({"a": None}, {}, [("/a", "-", None, None)]),
    ({}, {"a": None}, [("/a", "+", None, None)]),
    ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [("/a/b/1", "~", 2, 3)]),
    ([1, 2, 3], [1], [("/1", "-", 2, None), ("/2", "-", 3, None)]),
    ([1], [1, {}], [("/1", "+", None, {})]),
    ({"a/b": 1, "m~n": 1, "": 1}, {"a/b": 2, "m~n": 2, "": 2},
     [("/a~1b", "~", 1, 2), ("/m~0n", "~", 1, 2), ("/", "~", 1, 2)]),
    ({"z": 1, "a": 1}, {"b": 2, "a": 2}, [("/z", "-", 1, None), ("/a", "~", 1, 2), ("/b", "+", None, 2)]),
])  # fmt: skip
def test_each_difference_has_its_place_and_sign(before: Any, after: Any, expected: list[tuple[Any, ...]]) -> None:
    assert diff(before, after) == [JsonChange(*change) for change in expected]


def apply_changes(value: Any, changes: list[JsonChange]) -> Any:
    """Return the value with the changes: what a reader of them does. Removals come last, from the end."""
    holder = [copy.deepcopy(value)]
    for change in sorted(changes, key=lambda each: each.sign == "-"):
        steps = ["0", *(step.replace("~1", "/").replace("~0", "~") for step in change.pointer.split("/")[1:])]
        place: Any = holder
        for step in steps[:-1]:
            place = place[int(step)] if isinstance(place, list) else place[step]
        last: Any = int(steps[-1]) if isinstance(place, list) else steps[-1]
        if change.sign == "-" and isinstance(place, list):
            place.pop()  # lists differ in length at their ends only
        elif change.sign == "-":
            del place[last]
        elif isinstance(place, list) and last == len(place):
            place.append(change.after)
        else:
            place[last] = change.after
    return holder[0]


@draw(300)
@given(JSON, JSON)
def test_the_changes_turn_one_value_into_the_other_and_equal_values_have_none(before: Any, after: Any) -> None:
    changes = diff(before, after)
    assert is_same_json(apply_changes(before, changes), after)
    assert bool(changes) != is_same_json(before, after)
    assert len({change.pointer for change in changes}) == len(changes)
    for change in changes:
        assert not (isinstance(change.before, dict) and isinstance(change.after, dict))  # a smaller place would differ
