"""Results in every shape that clients and servers use: their output, their error, and never a container's spelling."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import loop_over
from tests.support.tool_result_shapes import FAILURES, OUTPUTS, REPORTED
from toolcards.client.common.tool_results import (
    ToolResult,
    describe_request,
    find_exit_code,
    format_result,
    is_exact,
    read_result,
)

NAMES = ["type", "text", "content", "isError", "error", "x", "stdout", "exit_code"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner),
    max_leaves=12,
)


@loop_over("client, result, output", OUTPUTS)
def test_a_result_is_read_as_the_model_reads_it(client: str, result: Any, output: Any) -> None:
    assert read_result(result) == ToolResult(output)


@loop_over("client, value, text", FAILURES)
def test_an_error_is_its_text(client: str, value: Any, text: str) -> None:
    assert format_result(value) == text


@loop_over("client, result, error, output", [*REPORTED, ("MCP: empty", {"content": [], "isError": True}, "", None)])
def test_a_result_that_says_that_it_is_an_error_is_one(client: str, result: Any, error: str, output: Any) -> None:
    assert read_result(result) == ToolResult(output, error)


@given(value=JSON)
def test_reading_is_stable_and_a_text_never_spells_a_container(value: Any) -> None:
    result = read_result(value)
    if result.error is None:
        assert read_result(result.output) == result
    text = format_result(value)
    assert isinstance(text, str) and (text == value or "{'" not in text or "{'" in json.dumps(value))


@loop_over("value, code", [
    ({"exit_code": 2}, 2), ({"exitCode": 0}, 0), ({"exit": True}, None), ({"exit": "1"}, None), ("exit 1", None),
    ({"returncode": -9}, -9),
])  # fmt: skip
def test_an_exit_code_is_an_integer_with_a_known_name(value: Any, code: int | None) -> None:
    assert find_exit_code(value) == code


DIFF = {"type": "diff", "path": "a.py", "oldText": "a=1", "newText": "a=2"}
TEXT = {"type": "content", "content": {"type": "text", "text": "Connect to shop?"}}
PLACES = [{"path": "/p/a.py", "line": 3}]


@loop_over("call, description, is_exact_call", [
    ({"rawInput": {"path": "a"}, "title": "t", "content": [DIFF]}, None, True),
    ({"title": "t", "kind": "edit", "content": [DIFF], "locations": PLACES, "status": "pending", "toolCallId": "c"},
     {"title": "t", "kind": "edit", "content": [DIFF], "locations": PLACES}, True),
    ({"rawInput": {}, "kind": "edit", "content": [DIFF, TEXT]}, {"kind": "edit", "content": [DIFF, TEXT]}, True),
    ({"kind": "edit", "content": [DIFF | {"oldText": None}]}, {"kind": "edit", "content": [DIFF | {"oldText": None}]},
     True),
    ({"content": [DIFF]}, {"content": [DIFF], "rawInput": None}, False),
    ({"kind": "execute", "content": [DIFF]}, {"kind": "execute", "content": [DIFF], "rawInput": None}, False),
    ({"kind": "fetch", "content": [DIFF]}, {"kind": "fetch", "content": [DIFF], "rawInput": None}, False),
    ({"kind": "edit", "content": [DIFF, {"type": "diff", "path": "b"}]},
     {"kind": "edit", "content": [DIFF, {"type": "diff", "path": "b"}], "rawInput": None}, False),
    ({"title": "t", "content": [TEXT]}, {"title": "t", "content": [TEXT], "rawInput": None}, False),
    ({"title": "npm test", "kind": "execute", "content": []},
     {"title": "npm test", "kind": "execute", "rawInput": None}, False),
    ({"locations": PLACES}, {"locations": PLACES, "rawInput": None}, False), ({}, {"rawInput": None}, False),
    ({"content": "text"}, {"content": "text", "rawInput": None}, False),
])  # fmt: skip
def test_a_request_without_raw_input_is_described_by_what_it_shows(
    call: dict[str, Any], description: Any, is_exact_call: bool
) -> None:
    assert describe_request(call) == description
    assert is_exact(description or call["rawInput"]) is is_exact_call


@loop_over("value", [{}, {"command": "ls"}, {"rawInput": None, "path": "a"}, {"rawInput": {}}, None, [], "text"])
def test_other_inputs_mean_the_same_call(value: Any) -> None:
    assert is_exact(value)
