"""What every adapter promises: pure functions that answer any text, and agree with each other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.adapters import ADAPTERS, ApprovalAnswer, BadFrame, native
from toolcards.adapters.base import MAX_DEPTH, Adapter
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import SkippedFrame


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_an_error_has_its_message_its_code_and_perhaps_its_call() -> None:
    bad = BadFrame("no tool", "missing_field", "c")
    assert (str(bad), bad.message, bad.code, bad.call_id) == ("no tool", "no tool", "missing_field", "c")
    assert (BadFrame("no").code, BadFrame("no").call_id) == ("bad_frame", "")
    assert isinstance(bad, ValueError)


def test_a_protocol_without_more_has_no_answers_no_numbers_and_no_decisions_on_its_socket() -> None:
    plain = Adapter("plain", "1", lambda text, depth=MAX_DEPTH: [])
    answer = ApprovalAnswer("c", "a", True)
    assert (plain.encode(answer), plain.encode_all, plain.gated, plain.body_is_stream) == (None, None, False, True)
    assert (plain.find_run_id("{}"), plain.find_number("{}"), plain.find_piece("{}")) == ("", None, None)


def test_only_the_native_socket_carries_decisions_unless_the_connection_asks_for_them() -> None:
    assert [name for name, adapter in ADAPTERS.items() if adapter.gated] == ["native"]


def test_bodies_of_hooks_buses_and_proxies_end_without_ending_the_run() -> None:
    kept_open = {name for name, adapter in ADAPTERS.items() if not adapter.body_is_stream}
    assert kept_open == {"claude-code", "opencode", "acp"}


# ---------------------------------------------------------------- the functions agree
DEEP_FRAMES = [
    ("native", {"type": "tool.output.available", "call_id": "c", "n": 7}, "output", "", 7),
    ("ai-sdk", {"type": "chunk", "requestId": "q", "sequence": 3, "chunk": {"type": "finish"}}, "x", "", ("q", 3)),
    ("ag-ui", {"type": "RUN_STARTED", "threadId": "th", "runId": "r"}, "input", "th", None),
    ("tanstack", {"id": "1", "chunk": {"type": "RUN_STARTED", "threadId": "th", "runId": "r"}}, "x", "th", None),
    ("claude-code", {"hook_event_name": "PostToolUse", "session_id": "s", "tool_use_id": "c", "tool_name": "t",
     "tool_input": {}}, "tool_response", "s", None),
    ("opencode", {"type": "session.idle", "properties": {"sessionID": "s"}}, "x", "s", None),
    ("acp", {"dir": "<", "msg": {"method": "session/update", "params": {"sessionId": "s", "update": {
     "sessionUpdate": "plan"}}}, "n": 4}, "x", "s", 4),
]  # fmt: skip


@loop_over("extra", [1, 30, 31, 32, 60, 400])
@loop_over(("protocol", "frame", "member", "run", "number"), DEEP_FRAMES)
def test_the_run_and_the_number_of_a_frame_do_not_depend_on_its_depth(
    protocol: str, frame: dict[str, Any], member: str, run: str, number: Any, extra: int
) -> None:
    adapter = ADAPTERS[protocol]
    text = json.dumps(frame | {member: nested(extra)})
    assert isinstance(adapter.decode(text, extra + 3), list)
    assert (adapter.find_run_id(text), adapter.find_number(text)) == (run, number)


CALL_IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@draw(100)
@given(CALL_IDS, st.text(max_size=20), st.none() | st.integers(1, 10**18 - 1), st.booleans(), st.booleans())
def test_a_hot_frame_is_the_piece_that_the_whole_decoder_reads(
    call_id: str, delta: str, number: int | None, ascii_only: bool, is_compact: bool
) -> None:
    frame = ({} if number is None else {"n": number}) | {"type": "tool.input.delta", "call_id": call_id, "delta": delta}
    text = json.dumps(frame, ensure_ascii=ascii_only, separators=(",", ":") if is_compact else (", ", ": "))
    piece = native.find_piece(text)
    is_hot = is_compact and json.dumps(call_id, ensure_ascii=ascii_only)[1:-1] == call_id
    assert (piece is not None) == is_hot
    if piece is not None:
        assert [f.InputDelta(*piece[0])] == native._decode(text) and piece[1] == (native.find_number(text) or 0)


MEMBERS = (
    "type dir msg method params update result id n requestId sequence chunk threadId runId session_id hook_event_name "
    "properties sessionID info part state toolCallId call_id delta tool sessionUpdate metadata outcome"
)
KEYS = st.sampled_from(MEMBERS.split())
WORDS = st.sampled_from(
    ["chunk", "RUN_STARTED", "RUN_FINISHED", "session/update", "tool_call", "<", ">", "tool.input.delta", "PreToolUse",
     "message.part.updated", "session.created", "tool-input-available", "", "x", "\ud800"]
)  # fmt: skip
VALUES = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers(-1, 10**19) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)


@draw(150)
@given(st.sampled_from(sorted(ADAPTERS)), VALUES)
def test_every_text_gets_facts_or_an_error_and_no_crash(protocol: str, value: Any) -> None:
    adapter, text = ADAPTERS[protocol], json.dumps(value)
    try:
        facts = adapter.decode(text)
    except BadFrame as bad:
        assert bad.message and bad.code
    else:
        assert isinstance(facts, (list, SkippedFrame))
    number = adapter.find_number(text)
    assert isinstance(adapter.find_run_id(text), str)
    assert number is None or type(number) is int or (type(number[0]) is str and type(number[1]) is int)  # type: ignore[index]


@loop_over("protocol", sorted(ADAPTERS))
@loop_over("text", ["", "{", "[]", "null", '"sequence"', '{"n":', "[" * 100_000])
def test_what_is_no_frame_has_no_run_and_no_number(protocol: str, text: str) -> None:
    adapter = ADAPTERS[protocol]
    assert (adapter.find_run_id(text), adapter.find_number(text), adapter.find_piece(text)) == ("", None, None)
    with pytest.raises(BadFrame):
        adapter.decode(text)


@loop_over("text", ['{"type":"chunk","sequence":1}', '{"type":"chunk","requestId":["q"],"sequence":1}'])
def test_a_wrapped_chunk_without_its_request_has_no_number(text: str) -> None:
    assert ADAPTERS["ai-sdk"].find_number(text) is None


ANSWERS = [
    ApprovalAnswer("c", "a", approved, reason, edited, reply_to)
    for approved in (True, False)
    for reason in ("", "because")
    for edited in (None, {"q": 2})
    for reply_to in (None, {}, {"id": 1, "options": ["odd"]}, "odd", ["odd"])
]


@loop_over("protocol", sorted(ADAPTERS))
@loop_over("answer", ANSWERS)
def test_every_answer_is_an_object_of_the_protocol_or_none(protocol: str, answer: ApprovalAnswer) -> None:
    encoded = ADAPTERS[protocol].encode(answer)
    assert encoded is None or (isinstance(encoded, dict) and json.loads(json.dumps(encoded)) == encoded)
