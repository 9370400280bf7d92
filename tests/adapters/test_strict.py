"""Strict JSON: the short way never differs from the long one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from toolcards.adapters import BadFrame, ai_sdk, strict

NAMES = st.sampled_from(["type", "toolCallId", "inputTextDelta", "x", r"\u0074ype", r"toolCallId\\", r"a\"b", ""])
SCALARS = st.sampled_from(
    ['"tool-input-delta"', '"c"', '""', r'"\\"', r'"\""', r'"\\\""', "1", "null", "NaN", '{"a":1}', r'["\\"]', "1e999"]
)
RIGHT = [("type", '"tool-input-delta"'), ("toolCallId", '"c"'), ("inputTextDelta", r'"{\"q\""')]


@draw(500)
@given(st.lists(st.tuples(NAMES, SCALARS), max_size=7), st.booleans())
def test_the_short_way_never_differs_from_the_long_one(pairs: list[tuple[str, str]], right: bool) -> None:
    text = "{" + ",".join(f'"{name}":{value}' for name, value in [*pairs, *(RIGHT if right else [])]) + "}"
    assert outcome(ai_sdk.decode, text) == outcome(lambda text: ai_sdk.DECODER.decode_value(strict.loads(text)), text)


def outcome(decode: Callable[[str], Any], text: str) -> Any:
    try:
        return decode(text)
    except BadFrame as error:
        return error.code
