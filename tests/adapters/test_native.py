"""Answers in the native protocol."""

from __future__ import annotations

import json

import pytest

from toolcards.adapters import ADAPTERS, ApprovalAnswer, native
from toolcards.core.calls import facts as f


def test_the_native_answer_is_a_frame_that_its_own_decoder_knows() -> None:
    reply = ADAPTERS["native"].encode(ApprovalAnswer("c", "a", True, "ok", {"q": 2}))
    assert reply["input"] == {"q": 2}
    assert ADAPTERS["native"].decode(json.dumps(reply)) == [f.ApprovalAnswered("c", True, "a", reason="ok")]


HOT = '{"n":7, "type":"tool.input.delta","call_id":"c","delta":"a"}'


@pytest.mark.parametrize(
    "text",
    [
        HOT, HOT.replace('"n":7, ', ""), HOT.replace('"a"', '"\\"}\\ud83d"'), HOT.replace("7", "999999999999999999"),
        HOT.replace('"a"', '""'),
    ],
)  # fmt: skip
def test_a_hot_frame_is_read_at_once_as_it_is_slowly(text: str) -> None:
    hot = native.find_piece(text)
    assert hot is not None
    assert [f.InputDelta(*hot[0])] == native.decode(text) == native._decode(text)
    assert hot[1] == (native.find_number(text) or 0)


@pytest.mark.parametrize(
    "text",
    [
        HOT[:-1], HOT + " ", HOT.replace("}", ',"at":1}'), HOT.replace("}", ',"delta":"b"}'),
        HOT.replace('"a"', '"\x01"'), HOT.replace('"c"', '""'), HOT.replace('"c"', '"\\u0063"'), HOT.replace("7", "0"),
        HOT.replace("delta", "text"), "",
    ],
)  # fmt: skip
def test_what_is_not_quite_a_hot_frame_is_read_slowly(text: str) -> None:
    assert native.find_piece(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ('{"n":7,"type":"text.delta","text":"a"}', 7), ('{"type":"text.delta","text":"a","n":12}', 12),
        ('{"type":"text.delta","text":"\\"n\\":3"}', None), ('{"type":"x","input":{"n":3}}', None), ("{", None),
        ('{"n":"7"}', None), ('["n"]', None),
    ],
)  # fmt: skip
def test_a_native_frame_tells_its_number(text: str, number: int | None) -> None:
    assert native.find_number(text) == number
