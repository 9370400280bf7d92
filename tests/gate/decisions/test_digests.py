"""Digests of inputs and calls: equal exactly for what is equal, computed once, also without a canonical form."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.client.common import canonical_json
from toolcards.client.common.canonical_json import NotCanonical
from toolcards.core.calls.card import Card, CardDecision, CardTool
from toolcards.gate.decisions import digests

LARGE, HALF = 2**53 + 1, "\ud800"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=3), parts, max_size=3),
    max_leaves=8,
)


def make_card(value: Any, *, name: str = "bash", source: str = "", schema: str = "") -> Card:
    decision = CardDecision("allow", "default", schema_sha256=schema) if schema else None
    return Card("c", tool=CardTool(name, source=source), input=value, has_input=True, decision=decision)


@draw(150)
@given(VALUES)
def test_the_digest_of_an_input_is_that_of_its_canonical_json(value: Any) -> None:
    try:
        expected = canonical_json.digest(value)
    except NotCanonical:
        with pytest.raises(NotCanonical):
            digests.digest_value(value)
        assert digests.digest_input(make_card(value)) == canonical_json.digest(json.dumps(value, sort_keys=True))
        return
    assert digests.digest_value(value) == expected == digests.digest_value(copy.deepcopy(value))
    assert digests.digest_input(make_card(value)) == expected


@draw(100)
@given(VALUES, st.sampled_from(["bash", "mail"]), st.sampled_from(["", "server"]))
def test_the_digest_of_a_call_is_that_of_its_parts(value: Any, name: str, source: str) -> None:
    call = {"args": value, "schema_sha256": "s", "tool": {"name": name, "source": source}}
    card = make_card(value, name=name, source=source, schema="s")
    try:
        assert digests.digest_call(card) == canonical_json.digest(call)
    except NotCanonical:
        assert digests.digest_call(card) == digests.digest_call(
            make_card(copy.deepcopy(value), name=name, source=source, schema="s")
        )


@loop_over("value", [{"a": 1}, [1], "text", None, 0, {"n": LARGE}, [HALF]])
def test_every_part_of_a_call_counts(value: Any) -> None:
    parts = {"name": "bash", "source": "server", "schema": "s"}
    cards = [make_card(value, **parts), *(make_card(value, **parts | {part: "other"}) for part in parts)]
    cards += [make_card([value], **parts), make_card(value, name="bash", source="server")]
    assert len({digests.digest_call(card) for card in cards}) == len(cards)


def test_each_object_is_canonicalized_once_and_the_recent_ones_are_kept() -> None:
    values: list[Any] = [{"n": n} for n in range(digests.RECENT + 1)]
    for value in values:
        digests.digest_value(value)
    assert [entry.value for entry in digests._recent] == values[:0:-1]  # the newest first, without the oldest
    before = digests._recent
    digests.digest_input(make_card(values[-1]))
    digests.digest_call(make_card(values[1]))
    digests.digest_value("texts and numbers are soon computed")
    assert digests._recent is before


def test_an_equal_object_and_one_at_the_same_place_have_their_own_digests() -> None:
    assert digests.digest_value({"a": 1}) == digests.digest_value({"a": 1.0}) != digests.digest_value({"a": True})
    for number in range(3 * digests.RECENT):  # objects that are gone may have been at the same addresses
        assert digests.digest_value({"n": number}) == canonical_json.digest({"n": number})


@loop_over("value", [{"n": LARGE}, {"n": -LARGE}, [HALF], HALF, float("inf")])
def test_an_input_without_a_canonical_form_has_a_digest_that_its_neighbors_do_not(value: Any) -> None:
    digest = digests.digest_input(make_card(value))
    assert digest == digests.digest_input(make_card(copy.deepcopy(value))) and len(digest) == 64
    assert digest not in {digests.digest_input(make_card(other)) for other in ([value], {"n": LARGE + 2}, "\ud801")}
