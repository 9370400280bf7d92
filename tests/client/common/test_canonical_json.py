"""One spelling for one value."""

import json
import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.tables import loop_over
from toolcards.client.common.canonical_json import NotCanonical, canonicalize, digest

# RFC 8785, appendix B
NUMBERS = [
    ("0000000000000000", "0"), ("8000000000000000", "0"), ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"), ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"), ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"), ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"), ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"), ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"), ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"), ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"), ("41b3de4355555554", "333333333.33333325"),
    ("becbf647612f3696", "-0.0000033333333333333333"), ("43143ff3c1cb0959", "1424953923781206.2"),
]  # fmt: skip


@loop_over(("bits", "text"), NUMBERS)
def test_numbers_are_spelled_as_ecmascript_does(bits, text):
    assert canonicalize(struct.unpack(">d", bytes.fromhex(bits))[0]).decode() == text


def test_the_example_of_the_rfc():
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": '\u20ac$\u000f\nA\'B"\\\\"/',
        "literals": [None, True, False],
    }
    assert canonicalize(value).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_keys_are_sorted_by_utf16():
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7}
    assert list(json.loads(canonicalize(value))) == ["\r", "1", "\x80", "\xf6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (math.nan, ""), ([math.inf], "/0"), ({"a": 2**53}, "/a"), (-(2**53), ""), ("\ud800", ""),
        ({"a/b": ["x\0"]}, "/a~1b/0"),
        ({"\udfff": 1}, "/\udfff"), ({1: 2}, ""), ((1,), ""), (b"x", ""), ({1, 2}, ""), (1j, ""), ([object()], "/0"),
    ],
)  # fmt: skip
def test_what_has_no_single_spelling_is_refused(value, pointer):
    with pytest.raises(NotCanonical) as error:
        canonicalize(value)
    assert error.value.pointer == pointer


def test_depth_and_size_are_bounded():
    deep = []
    for _ in range(31):
        deep = [deep]
    canonicalize(deep)
    for value in ([deep], list(range(10_000))):
        with pytest.raises(NotCanonical):
            canonicalize(value)
    circle = []
    circle.append(circle)
    with pytest.raises(NotCanonical):
        canonicalize(circle)


def test_types_are_distinguished_but_equal_numbers_are_not():
    assert canonicalize(1) == canonicalize(1.0) != canonicalize(True)
    assert canonicalize("1") != canonicalize(1)
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1.0})
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(values)
def test_canonical_bytes_say_the_same_and_say_it_once(value):
    result = canonicalize(value)
    assert json.loads(result, parse_int=float) == value
    assert canonicalize(json.loads(result, parse_int=float)) == result
