"""One digest in three places: the server's, the Python client's and the JavaScript client's RFC 8785 form."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.javascript import NODE, Node
from tests.support.tables import loop_over
from toolcards.client.common.canonical_json import NotCanonical, call_digest, digest
from toolcards.client.decisions.question import CallRequest

# JSON texts and their RFC 8785 form, None for invalid input. Texts, because parsing loses the spelling of a number.
TABLE: dict[str, str | None] = {
    "0": "0", "-0": "0", "-0.0": "0", "1": "1", "1.0": "1", "1e0": "1", "10e-1": "1", "0.1": "0.1", "1e-7": "1e-7",
    "0.000001": "0.000001", "1e21": "1e+21", "1E21": "1e+21", "1.5e300": "1.5e+300", "5e-324": "5e-324",
    "9007199254740991": "9007199254740991", "-9007199254740991": "-9007199254740991",
    "9007199254740992": None, "9007199254740993": None, "-9007199254740992": None, "1e999": None, "-1e999": None,
    "NaN": None, "Infinity": None, "333333333.33333329": "333333333.3333333", "4.50": "4.5", "2e-3": "0.002",
    "true": "true", "null": "null", '""': '""', '"\\u20ac\\u0000"': None, '"\\u20ac"': '"€"', '"\\/"': '"/"',
    '"\\u000f\\n\\t\\b\\f\\r"': '"\\u000f\\n\\t\\b\\f\\r"', '"\\u007f\\u2028"': '"\x7f\u2028"', '"é"': '"é"',
    '"e\\u0301"': '"e\u0301"', '"\\ud83d\\ude00"': '"😀"', '"\\ud83d"': None, '"\\ude00\\ud83d"': None,
    "[]": "[]", "{}": "{}", "[1, [2, {}]]": "[1,[2,{}]]", '{"b": 1, "a": 2}': '{"a":2,"b":1}',
    '{"\\ufb33": 1, "\\ud83d\\ude00": 2, "\\u20ac": 3, "\\r": 4, "1": 5, "10": 6, "2": 7, "": 8}':
        '{"":8,"\\r":4,"1":5,"10":6,"2":7,"€":3,"😀":2,"\ufb33":1}',
    '{"__proto__": {"a": 1}, "constructor": 2}': '{"__proto__":{"a":1},"constructor":2}',
    '{"a\\u0000": 1}': None, '{"\\ud800": 1}': None, "[" * 32 + "]" * 32: "[" * 32 + "]" * 32,
    "[" * 33 + "]" * 33: None,
    json.dumps([0] * 9_999): json.dumps([0] * 9_999, separators=(",", ":")), json.dumps([0] * 10_000): None,
}  # fmt: skip


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    if NODE is None:
        pytest.skip("not here: Node.js")
    with Node(tmp_path_factory.mktemp("node")) as running:
        yield running


def in_python(text: str) -> str:
    try:
        return digest(json.loads(text))
    except ValueError:
        return "refused"


def in_javascript(node: Node, texts: list[str]) -> list[str]:
    result: list[str] = node.play(digests=texts)["digests"]
    return ["refused" if each.startswith("refused") else each for each in result]


def sha256(text: str | None) -> str:
    return "refused" if text is None else hashlib.sha256(text.encode()).hexdigest()


@loop_over("text", TABLE, ids=lambda text: text[:40])
def test_the_table_in_python(text: str) -> None:
    assert in_python(text) == sha256(TABLE[text])


def test_the_table_in_javascript(node: Node) -> None:
    result = dict(zip(TABLE, in_javascript(node, list(TABLE)), strict=True))
    assert {text: result[text] for text in TABLE if result[text] != sha256(TABLE[text])} == {}


TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"))
WHOLE = st.integers(-(2**53) + 1, 2**53 - 1)
FRACTION = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: abs(number) >= 1e21 or abs(number) < 2**53 or not number.is_integer()
)
JSON = st.recursive(
    st.none() | st.booleans() | WHOLE | FRACTION | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


@given(st.lists(JSON, min_size=1, max_size=20))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_python_and_javascript_agree_on_every_value(node: Node, values: list[Any]) -> None:
    texts = [json.dumps(value) for value in values]
    assert in_javascript(node, texts) == [in_python(text) for text in texts]


@given(JSON)
@settings(deadline=None)
def test_a_value_and_the_same_value_over_the_wire_have_one_digest(value: Any) -> None:
    again = json.loads(json.dumps(value))
    assert digest(value) == digest(again)


def test_integers_of_a_float_beyond_2_to_53_are_refused_in_javascript(node: Node) -> None:
    """Python tells 1e20 from 100000000000000000000; JavaScript sends both as digits, which the server refuses."""
    assert in_python("1e20") != "refused" and in_javascript(node, ["1e20"]) == ["refused"]


# ---------------------------------------------------------------- the whole call


def test_the_digest_of_a_call_covers_arguments_tool_server_and_schema() -> None:
    fields = {"name": "bash", "source": "mcp", "schema_sha256": "ab"}
    whole = '{"args":{"a":1},"schema_sha256":"ab","tool":{"name":"bash","source":"mcp"}}'
    assert call_digest({"a": 1}, **fields) == sha256(whole)
    others = [{"name": "Bash"}, {"source": ""}, {"schema_sha256": ""}]
    assert len({call_digest({"a": 1}, **fields | other) for other in others} | {call_digest({}, **fields)}) == 4


def test_what_can_be_judged_can_be_bound() -> None:
    """The limits are those of the arguments, though they stand one level deeper in the whole."""
    deepest = json.loads("[" * 32 + "]" * 32)
    assert call_digest(deepest, name="t") and call_digest([0] * 9_999, name="t")


def test_a_question_is_about_what_is_sent() -> None:
    result = CallRequest.about("r", "c", "bash", {"a": (1, 2.0), 3: None})
    assert result.args == {"a": [1, 2.0], "3": None} and result.args_sha256 == digest({"a": [1, 2], "3": None})
    for wrong in ({"a": math.nan}, {"a": {1}}, {"a": 2**53}, {"a": b"x"}):
        with pytest.raises((TypeError, ValueError)):
            CallRequest.about("r", "c", "bash", wrong)
    with pytest.raises(NotCanonical):
        CallRequest.about("r", "c", "bash", "\ud800")
