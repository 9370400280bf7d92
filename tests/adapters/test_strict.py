"""Strict JSON: the short way never differs from the long one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
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


@loop_over(
    ("text", "members"),
    [
        ('{"n":1,"x":{"n":2}}', {"n": 1, "x": {"n": 2}}), ("[" * 100 + "]" * 100, {}), ("5", {}), ("", {}), ("{", {}),
        ('{"n":1,"n":2}', {}), ('{"n":NaN}', {}), ('{"n":%s}' % ("9" * 5000), {}), ('{"n":' + "[" * 200_000, {}),
    ],
)  # fmt: skip
def test_the_members_of_what_is_no_frame_are_none(text: str, members: dict[str, Any]) -> None:
    assert strict.read_members(text) == members


def test_the_members_of_a_frame_are_read_at_any_depth() -> None:
    assert strict.read_members('{"n":7,"x":%s}' % ("[" * 300 + "]" * 300))["n"] == 7
