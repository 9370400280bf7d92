"""Inputs and outputs are encoded once, for the log and the card."""

import json

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.calls.card_codec import dump_card, load_card
from toolcards.core.text import shared_json


def test_a_value_is_encoded_once_and_an_equal_one_for_itself():
    value = {"command": "ls", "emoji": "\ud83d"}
    text = shared_json.encode_value(value)
    assert shared_json.encode_value(value) is text
    assert shared_json.encode_value(dict(value)) == text
    assert json.loads(text) == value


def test_a_long_value_is_not_kept():
    value = {"text": "x" * shared_json.MAX_LENGTH}
    assert shared_json.encode_value(value) is not shared_json.encode_value(value)


def test_many_values_do_not_stay():
    for number in range(3 * shared_json.MAX_VALUES):
        shared_json.encode_value({"number": number})
    assert len(shared_json._texts_by_id) <= shared_json.MAX_VALUES


def test_a_record_without_other_members_is_an_object():
    assert json.loads(shared_json.encode_record({}, {"input": [1], "output": None})) == {"input": [1], "output": None}


def test_the_log_and_the_card_hold_the_same_input_and_output():
    value, output = {"path": "a.txt"}, ["done"]
    facts = [f.InputReady("c", "read", value, True), f.OutputReady("c", output)]
    assert [f.load(f.dump(fact)) for fact in facts] == facts
    card = load_card(dump_card(Card("c", input=value, has_input=True, output=output, has_output=True)))
    assert (card.input, card.output) == (value, output)
