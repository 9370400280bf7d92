"""Stored facts."""

from __future__ import annotations

import json
from dataclasses import is_dataclass, replace
from typing import Any

import pytest

from tests.support.fact_samples import SAMPLES
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.calls.card_codec import dump_card, load_card
from toolcards.core.calls.facts import (
    Actor,
    approval_facts,
    codec,
    dump,
    input_facts,
    load,
    outcome_facts,
    revise,
    run_facts,
)
from toolcards.core.runs.run_state import RunState

MODULES = (input_facts, approval_facts, outcome_facts, run_facts)
CLASSES = {value for module in MODULES for value in vars(module).values() if is_dataclass(value)} - {Actor}
CHUNK = f.InputChunk("c", "Bash", "{}")


@loop_over("fact", SAMPLES, ids=lambda fact: type(fact).__name__)
def test_a_revised_fact_is_a_copy_and_leaves_the_original_as_it_is(fact: Any) -> None:
    text, moment = dump(fact), fact.at
    assert revise(fact, call_id="other", at=moment + 1) == replace(fact, call_id="other", at=moment + 1)
    assert (dump(fact), fact.at) == (text, moment) and load(text, moment) == fact


def test_every_class_of_the_facts_is_logged_or_split_before() -> None:
    assert set(f.BY_TYPE.values()) | set(f.NEVER_LOGGED) == CLASSES
    assert {type(fact) for fact in [*SAMPLES, CHUNK]} == CLASSES


@loop_over("fact", [*SAMPLES, CHUNK], ids=lambda fact: type(fact).__name__)
def test_every_fact_is_completed_routed_and_what_that_gives_is_logged(fact: Any) -> None:
    state, completed = RunState(), revise(fact, at=2.0)
    assert completed == replace(fact, at=2.0)
    for ordinal, routed in state.route(completed):
        state.record(ordinal, routed)
        assert load(dump(routed), routed.at) == routed


def test_a_field_that_a_fact_does_not_have_is_refused() -> None:
    with pytest.raises(KeyError):
        revise(SAMPLES[0], nothing=1)


def test_an_unknown_fact_type_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown fact type"):
        f.load('{"type":"tomorrow"}')


def test_a_value_is_encoded_once_and_an_equal_one_for_itself():
    value = {"command": "ls", "emoji": "\ud83d"}
    text = codec.encode_value(value)
    assert codec.encode_value(value) is text
    assert codec.encode_value(dict(value)) == text
    assert json.loads(text) == value


def test_a_long_value_is_not_kept():
    value = {"text": "x" * codec.MAX_LENGTH}
    assert codec.encode_value(value) is not codec.encode_value(value)


def test_many_values_do_not_stay():
    for number in range(3 * codec.MAX_VALUES):
        codec.encode_value({"number": number})
    assert len(codec._texts_by_id) <= codec.MAX_VALUES


def test_a_record_without_other_members_is_an_object():
    assert json.loads(codec.encode_record({}, {"input": [1], "output": None})) == {"input": [1], "output": None}


def test_the_log_and_the_card_hold_the_same_input_and_output():
    value, output = {"path": "a.txt"}, ["done"]
    facts = [f.InputReady("c", "read", value, True), f.OutputReady("c", output)]
    assert [f.load(f.dump(fact)) for fact in facts] == facts
    card = load_card(dump_card(Card("c", input=value, has_input=True, output=output, has_output=True)))
    assert (card.input, card.output) == (value, output)
