"""Messages of MCP: one meaning or none, one way of writing, and the gateway's own answers."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.mcp.messages import (
    DEEPEST,
    contains_call,
    format_id,
    get_object,
    get_text,
    is_request,
    is_response,
    list_spellings,
    make_error,
    make_progress,
    make_similar_id,
    make_tool_error,
    parse,
    serialize,
)

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {"a": 1}}}


@loop_over(("data", "words"), [
    (b"", "Expecting value"), (b"{", "Expecting property"), (b"{} {}", "Extra data"), (b"\xff{}", "utf-8"),
    ("{}".encode("utf-16"), "utf-8"),
    (b'{"id":1,"id":2}', "duplicate"), (b'{"params":{"a":{"b":1,"b":2}}}', "duplicate"),
    (b'[{"id":1,"id":1}]', "duplicate"),
    (b'{"x":NaN}', "NaN"), (b'{"x":[-Infinity]}', "-Infinity"), (b'{"x":1e400}', "1e400 is too large"),
    (b'{"params":{"arguments":{"x":-1e999}}}', "too large"), (b"9" * 5000, "digits"),
    (b'{"Method":"tools/call"}', "'Method' differs from 'method'"), (b'{"ID":1}', "'ID'"),
    ('{"param\u017f":{}}'.encode(), "params"),
    (b'{"params":{"Name":"x"}}', "'Name'"), (b'{"params":{"ARGUMENTS":{}}}', "'ARGUMENTS'"),
    (b'[{"id":1},{"METHOD":"x"}]', "'METHOD'"),
    (b'{"method":["tools/call"]}', "must be a text"), (b'{"method":null}', "must be a text"),
    (b'{"id":7.5}', "The id"), (b'{"id":true}', "The id"), (b'{"id":[7]}', "The id"), (b'{"id":{}}', "The id"),
    (b"[" * 100_000, "nested too deeply"), (b'{"x":' * 100_000, "nested too deeply"),
])  # fmt: skip
def test_what_parsers_read_differently_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(data)


@loop_over("method", [
    "TOOLS/CALL", "Tools/Call", "tools/call ", " tools/call", "tools/call\0", "tools/call\n", "tools/call/",
    "/tools/call", "tools//call", "tools\\/call", "tools.call", "tools\uff0fcall", "t\u043eols/call",
    "tools/c\u200ball", "tools/call\u0301",
    "\uff54\uff4f\uff4f\uff4c\uff53/call", "tools/call\u2028", "Tools/List", "tools/list\t", "Elicitation/create",
    "notifications/Cancelled", "notifications/tools/list_changed ", "INITIALIZE",
])  # fmt: skip
def test_a_method_that_can_be_mistaken_for_one_that_is_read_is_refused(method: str) -> None:
    for message in ({"method": method, "id": 1}, [{"method": "ping"}, {"method": method}]):
        with pytest.raises(ValueError, match="can be mistaken for"):
            parse(json.dumps(message).encode())


@loop_over(
    ("number", "expected"), [(b"7.0", 7), (b"-0.0", 0), (b"7e0", 7), (b'"7"', "7"), (b'"7.0"', "7.0"), (b"7", 7)]
)
def test_an_id_is_written_as_servers_answer_it(number: bytes, expected: Any) -> None:
    message = parse(b'[{"id":%b}]' % number)[0]
    assert json.dumps(message["id"]) == json.dumps(expected)


@loop_over(("number", "expected"), [
    (7, [7, "7"]), (7.0, [7, "7"]), ("7", [7]), ("7.0", []), ("a", []), (None, []), (True, []), (math.nan, []),
    ([7], []), ("9" * 400, []),
])  # fmt: skip
def test_lenient_programs_take_some_ids_for_others(number: Any, expected: list[Any]) -> None:
    assert list_spellings(number) == expected


@loop_over("data", [
    b'{"params":{"arguments":{"Name":1,"name":2,"Method":3}}}',  # the tool's own names
    b'{"Result":1}', b'{"params":["Name"]}', b'{"params":{"clientInfo":{"Name":"x"}}}', b" {} ", b"[]", b"5", b'"text"',
    b'{"x":1e308}', b'{"x":1e-999}', b'{"method":"tools/calls"}', b'{"method":"tasks/list","id":null}',
])  # fmt: skip
def test_other_messages_are_read_as_they_are(data: bytes) -> None:
    assert parse(data) == json.loads(data)


def test_the_depth_limit_is_exact() -> None:
    for start, end in ((b"[", b"]"), (b'{"a":', b"}")):
        inside = b"[]" if start == b"[" else b"{}"
        assert parse(start * (DEEPEST - 1) + inside + end * (DEEPEST - 1))
        with pytest.raises(ValueError, match="deeply"):
            parse(start * DEEPEST + inside + end * DEEPEST)


TEXTS = st.text(st.sampled_from('ab"\\\n\r\u2028ß\U0001f98a'), max_size=5)
MESSAGES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@draw(100)
@given(MESSAGES)
def test_what_was_read_can_be_written_on_one_line_of_ascii(message: Any) -> None:
    data = serialize(message)
    assert (
        parse(data) == message and data.isascii() and not {b"\n", b"\r"} & {data[i : i + 1] for i in range(len(data))}
    )


@loop_over(("message", "request", "response"), [
    (CALL, True, False), ({"method": "ping", "id": 0}, True, False), ({"method": "ping", "id": ""}, True, False),
    ({"method": "ping"}, False, False), ({"method": "ping", "id": None}, False, False),
    ({"method": 5, "id": 1}, False, False),
    ({"id": 1, "result": {}}, False, True), ({"id": None, "error": {}}, False, True), ({"result": {}}, False, False),
    ({"id": 1, "method": None}, False, False), ([CALL], False, False), ("tools/call", False, False),
    (None, False, False), (5, False, False),
])  # fmt: skip
def test_a_message_is_a_request_a_response_or_neither(message: Any, request: bool, response: bool) -> None:
    assert (is_request(message), is_response(message)) == (request, response)
    assert is_request(message, "tools/call") is (request and message["method"] == "tools/call")


@loop_over(("message", "expected"), [
    (CALL, True), ({"method": "tools/call"}, True), ([CALL], True), ([{"method": "ping"}, CALL], True),
    ([[CALL]], True), (["text"], True),
    (5, True), (None, True), ("tools/call", True), ({"method": "ping"}, False),
    ([{"method": "ping"}, {"id": 1}], False), ([], False),
    ({"params": CALL}, False),
])  # fmt: skip
def test_what_is_or_may_hold_a_call_is_found(message: Any, expected: bool) -> None:
    assert contains_call(message) is expected


def test_ids_of_different_types_differ() -> None:
    assert len({format_id(number) for number in (1, "1", 1.5, True, None, "null", "true", [1], {"a": 1})}) == 9


@loop_over(("value", "kept_object", "kept_text"), [
    ({"a": {"b": 1}}, {"b": 1}, ""), ({"a": "x"}, {}, "x"), ({"a": [1]}, {}, ""), ({"a": None}, {}, ""), ({}, {}, ""),
    ([], {}, ""),
    (None, {}, ""), ("a", {}, ""), ({"a": 5}, {}, ""),
])  # fmt: skip
def test_a_member_of_another_type_is_empty(value: Any, kept_object: Any, kept_text: str) -> None:
    assert (get_object(value, "a"), get_text(value, "a")) == (kept_object, kept_text)


def test_the_gateways_answers_have_the_forms_of_the_protocol() -> None:
    assert make_error(7, -32600, "no") == {"jsonrpc": "2.0", "id": 7, "error": {"code": -32600, "message": "no"}}
    result = make_tool_error("a", "Denied.", "rule_deny")["result"]
    assert result["isError"] is True and result["content"] == [{"type": "text", "text": "Denied."}]
    assert result["resultType"] == "complete" and result["_meta"]["toolcards"]["code"] == "rule_deny"


def test_progress_grows_and_stays_below_what_a_server_reports() -> None:
    values = [make_progress("t", count)["params"]["progress"] for count in range(1, 1000)]
    assert values == sorted(set(values)) and values[0] > 0 and values[-1] < 0.01
    assert "id" not in make_progress("t", 1)


@loop_over("number", [1, "7", "abc", "req-12", "5d9f2c7e-93a1-4c86-9b58-6a3c0f8d1e24", -3, ""])
def test_an_id_of_the_gateway_looks_like_the_clients(number: Any) -> None:
    own_id = make_similar_id(number)
    assert type(own_id) is type(number) and own_id != number and not str(own_id).startswith("toolcards")
