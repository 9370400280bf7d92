"""What every decoder knows, what it skips, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.tables import loop_over
from tests.support.trace_player import Player, bodies, texts_of
from toolcards.adapters import ADAPTERS, BadFrame, ag_ui, ai_sdk, native
from toolcards.adapters.base import Adapter
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import SkippedFrame

FULL = {  # every field that the protocols' schemas require
    "toolCallId": "c", "toolCallName": "t", "toolName": "t", "messageId": "m", "delta": "d", "inputTextDelta": "d",
    "input": {}, "output": 1, "errorText": "e", "approvalId": "a", "approved": True, "content": "x", "threadId": "th",
    "runId": "r", "message": "no", "stepName": "s", "name": "n", "value": 1, "messages": [], "subtype": "message",
    "entityId": "m", "encryptedValue": "x", "subagentRunId": "s", "id": "i", "snapshot": {}, "event": {}, "url": "u",
    "call_id": "c", "tool": "t", "text": "x", "error": {"message": "e"}, "approval_id": "a", "outcome": None,
    "original": 1, "method": "m", "step": 1, "data": 1, "mediaType": "x", "kind": "a.b", "parts": [],
}  # fmt: skip
AI_SDK = (
    "start start-step finish-step reset-step finish abort error message-metadata text-start text-delta text-end "
    "reasoning-start reasoning-delta reasoning-end source-url source-document file reasoning-file custom "
    "steering-message data-weather tool-input-start tool-input-delta tool-input-available tool-input-error "
    "tool-approval-request tool-approval-response tool-output-available tool-output-error tool-output-denied"
)
AG_UI = (
    "RUN_STARTED RUN_FINISHED RUN_ERROR STEP_STARTED STEP_FINISHED TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT "
    "TEXT_MESSAGE_END TEXT_MESSAGE_CHUNK TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_CHUNK TOOL_CALL_RESULT "
    "STATE_SNAPSHOT STATE_DELTA MESSAGES_SNAPSHOT ACTIVITY_SNAPSHOT ACTIVITY_DELTA RAW CUSTOM REASONING_START "
    "REASONING_END REASONING_MESSAGE_START REASONING_MESSAGE_CONTENT REASONING_MESSAGE_END REASONING_MESSAGE_CHUNK "
    "REASONING_ENCRYPTED_VALUE SUBAGENT_STARTED SUBAGENT_FINISHED SUBAGENT_ERROR"
)
LEGACY = "RUN_CANCELLED THINKING_START THINKING_END THINKING_TEXT_MESSAGE_START THINKING_TEXT_MESSAGE_CONTENT"
NATIVE = (
    "run.started step.started step.finished text.delta reasoning.delta tool.input.started tool.input.delta "
    "tool.input.available tool.input.invalid tool.input.repaired approval.requested approval.responded "
    "tool.output.partial tool.output.available tool.output.deferred tool.output.error tool.output.denied run.finished"
)
FRAME_KINDS = [
    *(("ai-sdk", name) for name in AI_SDK.split()), *(("native", name) for name in NATIVE.split()),
    *((protocol, name) for protocol in ("ag-ui", "tanstack") for name in f"{AG_UI} {LEGACY}".split()),
]  # fmt: skip
DELTAS = {
    "native": {"type": "tool.input.delta", "call_id": "c", "delta": "x"},
    "ai-sdk": {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": "x"},
    "ag-ui": {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "x"},
    "tanstack": {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "x"},
}
INPUTS = {
    "native": '{"type":"tool.input.available","call_id":"c","tool":"t","input":%s}',
    "ai-sdk": '{"type":"tool-input-available","toolCallId":"c","toolName":"t","input":%s}',
    "ag-ui": '{"type":"TOOL_CALL_END","toolCallId":"c","metadata":{"tanstack":{"input":%s}}}',
    "tanstack": '{"type":"TOOL_CALL_END","toolCallId":"c","metadata":{"tanstack":{"input":%s}}}',
}
# Those whose frames have a `type` and stream their input; hooks and bus have tests of their own.
PROTOCOLS = sorted(DELTAS)


def full(kind: str) -> str:
    frame = {**FULL, "type": kind}
    if kind == "run.finished":
        frame["outcome"] = "success"
    if kind in {"tool.input.invalid", "tool.output.error"}:
        frame["error"] = {"message": "e", "code": "c", "retryable": False, "authority": "tool"}
    return json.dumps(frame)


def catch_refusal(adapter: Adapter, text: str) -> BadFrame:
    with pytest.raises(BadFrame) as caught:
        adapter.decode(text)
    return caught.value


def test_the_protocols_have_as_many_types_as_we_list() -> None:
    assert len(AG_UI.split()) == 31
    assert len(NATIVE.split()) == 18
    assert len(AI_SDK.split()) == 30


@loop_over(("protocol", "kind"), FRAME_KINDS)
def test_every_type_of_the_protocol_is_known(protocol: str, kind: str) -> None:
    assert isinstance(ADAPTERS[protocol].decode(full(kind)), list)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_unknown_type_is_skipped(protocol: str) -> None:
    assert ADAPTERS[protocol].decode('{"type":"from-the-future","x":{"y":1}}') == SkippedFrame("from-the-future")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_unknown_fields_pass(protocol: str) -> None:
    adapter = ADAPTERS[protocol]
    assert adapter.decode(json.dumps({**DELTAS[protocol], "extra": {"a": [1, None]}})) == [f.InputDelta("c", "x")]


BROKEN = [
    ("not JSON", "{", "not_json"), ("empty", "", "not_json"), ("two values", "{}{}", "not_json"),
    ("single quotes", "{'type':'x'}", "not_json"), ("NaN", '{"type":"x","a":NaN}', "not_json"),
    ("Infinity", '{"type":"x","a":[-Infinity]}', "not_json"),
    ("a number too large", '{"type":"x","a":1e999}', "not_json"),
    ("a number too long", '{"type":"x","a":%s}' % ("9" * 5000), "not_json"),
    ("an array", "[]", "not_object"), ("null", "null", "not_object"), ("a text", '"x"', "not_object"),
    ("no type", "{}", "missing_field"), ("a type that is no text", '{"type":5}', "bad_field"),
    ("the type twice", '{"type":"x","type":"y"}', "duplicate_key"),
    ("a key twice, inside", '{"type":"x","a":[{"b":1,"b":1}]}', "duplicate_key"),
    ("a key twice, escaped once", '{"type":"x","a":1,"\\u0061":2}', "duplicate_key"),
    ("too deep", '{"type":"x","a":%s}' % ("[" * 40 + "]" * 40), "too_deep"),
    # Pythons differ in how deep they read before they complain, and of what.
    ("too deep, and never closed", '{"type":"x","a":' + "[" * 5000, "too_deep"),
    ("too deep, and broken at the end", '{"type":"x","a":%s x}' % ("[" * 40 + "]" * 40), "too_deep"),
    ("brackets in a text are no depth", '{"type":"x","a":"' + "[" * 40 + '\\"' + "[" * 40 + '" x}', "not_json"),
    ("brackets behind the fault are no depth", '{"type":"x" x "a":%s}' % ("[" * 40 + "]" * 40), "not_json"),
    ("far too deep", '{"type":"x","a":%s}' % ("[" * 200_000 + "]" * 200_000), "too_deep"),
]  # fmt: skip


@loop_over("protocol", PROTOCOLS)
@loop_over(("text", "code"), [pytest.param(*rest, id=name) for name, *rest in BROKEN])
def test_a_broken_frame_is_refused_with_its_code(protocol: str, text: str, code: str) -> None:
    assert catch_refusal(ADAPTERS[protocol], text).code == code


@loop_over("protocol", PROTOCOLS)
@loop_over("value", ['{"a":1,"a":2}', "NaN", '{"a":{"b":[{"c":1,"c":1}]}}', "-Infinity", "1e400"])
def test_the_agents_values_are_read_strictly(protocol: str, value: str) -> None:
    assert catch_refusal(ADAPTERS[protocol], INPUTS[protocol] % value).code in {"duplicate_key", "not_json"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_depth_limit_is_exact_and_can_be_set(protocol: str) -> None:
    decode, own = ADAPTERS[protocol].decode, 3 if protocol in {"ag-ui", "tanstack"} else 1
    text = INPUTS[protocol] % ("[" * 5 + "]" * 5)
    assert isinstance(decode(text, own + 5), list)
    with pytest.raises(BadFrame):
        decode(text, own + 4)


@loop_over("protocol", PROTOCOLS)
@loop_over("field", [0, 1, 2])
@loop_over("value", ["a\\", "b", 'c"', 5, None, {"d": "e"}])
def test_a_delta_that_says_something_twice_is_refused(protocol: str, field: int, value: Any) -> None:
    plain = json.dumps(DELTAS[protocol])[1:-1]
    key = list(DELTAS[protocol])[field]
    hidden = f"\\u{ord(key[0]):04x}{key[1:]}"
    for name in (key, hidden):
        text = f'{{"{name}":{json.dumps(value)},{plain}}}'
        assert catch_refusal(ADAPTERS[protocol], text).code == "duplicate_key"
    strange = f'"{key}\\\\":"x\\\\"'
    assert catch_refusal(ADAPTERS[protocol], f"{{{strange},{plain},{strange}}}").code == "duplicate_key"


@loop_over("protocol", PROTOCOLS)
@loop_over("piece", ["", '"', "\\", '\\"', '{"a":"b\\\\"}', "\\\\", "Zoë 🦊", "\x00", "a\nb", '","delta":"'])
def test_a_delta_keeps_every_character(protocol: str, piece: str) -> None:
    frame = dict(DELTAS[protocol])
    frame[list(frame)[2]] = piece
    for text in (json.dumps(frame), json.dumps(frame, ensure_ascii=False)):
        assert ADAPTERS[protocol].decode(text) == [f.InputDelta("c", piece)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_half_an_emoji_loses_no_frame(protocol: str) -> None:
    player = Player(protocol)
    frame = dict(DELTAS[protocol])
    for half in ('{"q":"\ud83e', '\udd8a"}'):
        frame[list(frame)[2]] = half
        player.frame(json.dumps(frame))
    card = player.board.find("c")
    assert card and str(card.text) == '{"q":"🦊"}'
    player.take(f.InputReady("c"))
    card = player.board.find("c")
    assert card and card.input == {"q": "🦊"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_half_an_emoji_in_a_value_is_kept(protocol: str) -> None:
    facts = ADAPTERS[protocol].decode(INPUTS[protocol] % '{"a":["x\\ud83d"],"\\udc00":1}')
    assert facts and isinstance(facts[0], f.InputReady)
    assert facts[0].input == {"a": ["x\ud83d"], "\udc00": 1}


def test_what_looks_like_our_own_shelter_is_never_turned_into_half_an_emoji() -> None:
    facts = ADAPTERS["native"].decode(INPUTS["native"] % '"\U0010f83d\\ud83d"')
    assert facts and facts[0].input == "\U0010f83d\ufffd"  # type: ignore[union-attr]


REQUIRED_FIELDS = [
    ("native", "tool.input.started", "call_id"), ("native", "tool.input.started", "tool"),
    ("native", "text.delta", "text"),
    ("native", "tool.input.available", "input"), ("native", "tool.input.invalid", "error"),
    ("native", "tool.output.error", "error"), ("native", "approval.requested", "approval_id"),
    ("native", "approval.responded", "approved"), ("native", "run.finished", "outcome"),
    ("ai-sdk", "tool-input-start", "toolName"), ("ai-sdk", "tool-input-available", "input"),
    ("ai-sdk", "tool-input-delta", "inputTextDelta"), ("ai-sdk", "tool-output-error", "errorText"),
    ("ai-sdk", "tool-output-denied", "toolCallId"), ("ai-sdk", "tool-approval-response", "approved"),
    ("ai-sdk", "error", "errorText"), ("ai-sdk", "text-delta", "delta"),
    ("ag-ui", "RUN_STARTED", "runId"), ("ag-ui", "TOOL_CALL_START", "toolCallName"),
    ("ag-ui", "TOOL_CALL_ARGS", "delta"),
    ("ag-ui", "TOOL_CALL_END", "toolCallId"), ("ag-ui", "TOOL_CALL_RESULT", "content"),
    ("ag-ui", "RUN_ERROR", "message"),
    ("tanstack", "MESSAGES_SNAPSHOT", "messages"), ("ag-ui", "SUBAGENT_STARTED", "name"),
]  # fmt: skip


@loop_over(("protocol", "kind", "field"), REQUIRED_FIELDS)
def test_a_missing_field_is_named(protocol: str, kind: str, field: str) -> None:
    frame = json.loads(full(kind))
    del frame[field]
    error = catch_refusal(ADAPTERS[protocol], json.dumps(frame))
    assert error.code == "missing_field"
    assert field in error.message
    assert kind in error.message


ILL_TYPED = [
    ("native", "tool.input.delta", "delta", 5), ("native", "tool.input.delta", "call_id", None),
    ("native", "tool.input.delta", "call_id", ""), ("native", "approval.responded", "approved", "yes"),
    ("native", "tool.input.delta", "n", 0), ("native", "tool.input.delta", "n", "1"),
    ("native", "run.started", "tools", {}),
    ("native", "run.finished", "outcome", "great"), ("native", "tool.output.error", "error", {"retryable": "no"}),
    ("ai-sdk", "tool-input-start", "toolCallId", 7), ("ai-sdk", "tool-approval-response", "approved", 1),
    ("ai-sdk", "tool-output-error", "errorText", None), ("ai-sdk", "tool-output-available", "preliminary", "no"),
    ("ag-ui", "TOOL_CALL_ARGS", "delta", {}), ("ag-ui", "TOOL_CALL_RESULT", "content", 5),
    ("tanstack", "TOOL_CALL_START", "toolCallId", []), ("ag-ui", "RUN_FINISHED", "outcome", "interrupt"),
]  # fmt: skip


@loop_over(("protocol", "kind", "field", "value"), ILL_TYPED)
def test_an_ill_typed_field_is_named(protocol: str, kind: str, field: str, value: Any) -> None:
    error = catch_refusal(ADAPTERS[protocol], json.dumps({**json.loads(full(kind)), field: value}))
    assert error.code == "bad_field"
    assert field in error.message


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ('{"type":"RUN_STARTED","threadId":"t1","runId":"r"}', "t1"), ('{"type":"TOOL_CALL_END","toolCallId":"c"}', ""),
        ('{"id":"5","chunk":{"type":"RUN_STARTED","threadId":"t2","runId":"r"}}', "t2"), ('{"threadId":', ""),
        ('{"type":"CUSTOM","name":"x","value":{"threadId":"no"}}', ""),
    ],
)  # fmt: skip
def test_an_ag_ui_frame_tells_its_run(text: str, run: str) -> None:
    assert ag_ui.find_run_id(text) == run


def test_the_hot_frames_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcards.adapters.strict.loads", lambda *args: pytest.fail("read twice"))
    for protocol, frame in DELTAS.items():
        quoted = {**frame, list(frame)[2]: '":"Rome"'}
        assert isinstance(ADAPTERS[protocol].decode(json.dumps(quoted, separators=(",", ":"))), list)
    assert ai_sdk.decode('{"type":"text-delta","id":"1","delta":"x"}') == [f.TextDelta(text="x")]
    assert native.decode('{"n":4,"at":1.5,"type":"text.delta","text":"x"}') == [f.TextDelta(text="x")]
    assert ag_ui.decode('{"type":"TOOL_CALL_ARGS","timestamp":17,"toolCallId":"c","delta":"x"}') == [
        f.InputDelta("c", "x")
    ]


def test_no_recorded_frame_is_broken() -> None:
    frames = 0
    for _, _, protocol, turns, _ in bodies():
        for text in (text for turn in turns for text in texts_of(turn)):
            assert isinstance(ADAPTERS[protocol].decode(text), list)
            frames += 1
    assert frames > 2500
