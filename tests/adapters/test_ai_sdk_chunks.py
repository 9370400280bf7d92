"""Chunks of the AI SDK, one by one and in worked examples."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from tests.support.tables import loop_over
from tests.support.trace_player import Player
from tests.support.worked_examples import (
    AI_SDK,
    DELTA,
    FINISH,
    IA,
    IS,
    OA,
    OUTPUT,
    READY,
    START,
    STEP,
    ai,
    assert_story,
)
from toolcards.adapters import BadFrame, ai_sdk
from toolcards.adapters.ai_sdk_chunks import INTERRUPTED, IgnoredChunk
from toolcards.core.calls import facts as f


@loop_over(("frames", "states", "facts"), [pytest.param(*rest, id=name) for name, *rest in AI_SDK])
def test_an_ai_sdk_example_ends_as_written(frames: list[Any], states: list[str], facts: dict[str, Any]) -> None:
    assert_story("ai-sdk", frames, states, facts)


def test_the_same_id_in_a_later_step_is_another_call() -> None:
    player = Player("ai-sdk").frames(ai("start", messageId="m"), STEP, READY, OUTPUT, STEP, START, DELTA)
    assert [card.state for card in player.board.cards.values()] == [OA, IS]


def test_a_resumed_message_is_replayed_without_new_cards() -> None:
    story = [ai("start", messageId="m"), STEP, START, DELTA, READY, OUTPUT]
    player = Player("ai-sdk").frames(*story, *story, FINISH)
    assert [card.state for card in player.board.cards.values()] == [OA]
    assert player.states("c") == [IS, IA, OA]


def test_the_sockets_own_frames_are_no_chunks() -> None:
    around = [{"type": kind, "requestId": "q"} for kind in ("start", "no-active", "end")]
    player = Player("ai-sdk").frames(*around)
    assert player.log == []
    player.frames({"type": "error", "requestId": "q"})
    assert player.board.context.error


def test_a_reset_step_takes_its_cards_along() -> None:
    player = Player("ai-sdk").frames(STEP, START, ai("reset-step"), DELTA)
    assert [card.removed for card in player.board.cards.values()] == [True]


# ---------------------------------------------------------------- one by one
INPUT = {"toolName": "t"}
IDENTITY: dict[str, Any] = {"title": "Title", "kind": "read", "per_step": True, "provider_executed": True}
ALL = {"title": "Title", "toolMetadata": {"kind": "read"}, "providerExecuted": True}
CHUNKS: list[tuple[str, dict[str, Any], Any]] = [
    ("start", {}, f.MessageStarted()), ("start", {"messageId": "m"}, f.MessageStarted(message_id="m")),
    ("start-step", {}, f.StepStarted()), ("finish-step", {}, f.StepFinished()), ("reset-step", {}, f.StepReset()),
    ("finish", {}, f.RunEnded()), ("finish", {"finishReason": None}, f.RunEnded()),
    ("finish", {"finishReason": "stop"}, f.RunEnded()), ("finish", {"finishReason": "tool-calls"}, f.RunEnded()),
    ("finish", {"finishReason": "length"}, f.RunEnded(outcome="not-executed", reason="The model stopped: length")),
    ("abort", {}, f.RunEnded(outcome="aborted", interrupted_output=INTERRUPTED)),
    ("abort", {"reason": "stop"}, f.RunEnded(outcome="aborted", reason="stop", interrupted_output=INTERRUPTED)),
    ("error", {"errorText": "boom"}, f.ErrorReported(message="boom")), ("error", {"errorText": ""}, f.ErrorReported()),
    ("error", {"requestId": "q"}, f.ErrorReported()),
    ("text-delta", {"id": "1", "delta": "x"}, f.TextDelta(text="x")),
    ("reasoning-delta", {"id": "1", "delta": "x"}, f.TextDelta(text="x", channel="reasoning")),
    ("tool-input-start", INPUT, f.InputStarted("c", "t", per_step=True)),
    ("tool-input-start", INPUT | ALL | {"dynamic": True, "inputEncoding": "json"},
     f.InputStarted("c", "t", dynamic=True, **IDENTITY)),
    ("tool-input-start", INPUT | {"toolMetadata": {"kind": 5}}, f.InputStarted("c", "t", per_step=True)),
    ("tool-input-delta", {"inputTextDelta": "{"}, f.InputDelta("c", "{")),
    ("tool-input-available", INPUT | {"input": None}, f.InputReady("c", "t", None, True, per_step=True)),
    ("tool-input-available", INPUT | ALL | {"input": [1]}, f.InputReady("c", "t", [1], True, **IDENTITY)),
    ("tool-input-error", INPUT | {"errorText": "bad"}, f.InputInvalid("c", "t", None, "bad", per_step=True)),
    ("tool-input-error", INPUT | {"errorText": "", "input": "{", "dynamic": True},
     f.InputInvalid("c", "t", "{", "", per_step=True, dynamic=True)),
    ("tool-approval-request", {"approvalId": "a"}, f.ApprovalRequested("c", "a")),
    ("tool-approval-request", {"approvalId": "a", "reason": "why", "isAutomatic": True, "signature": "s"},
     f.ApprovalRequested("c", "a", reason="why", automatic=True, reply_to={"signature": "s"})),
    ("tool-approval-request", {"approvalId": "a", "signature": ""}, f.ApprovalRequested("c", "a")),
    ("tool-approval-response", {"approvalId": "a", "approved": True}, f.ApprovalAnswered("", True, "a")),
    ("tool-approval-response", {"approvalId": "a", "approved": False, "reason": "no"},
     f.ApprovalAnswered("", False, "a", reason="no")),
    ("tool-output-available", {}, f.OutputReady("c")), ("tool-output-available", {"output": 0}, f.OutputReady("c", 0)),
    ("tool-output-available", {"output": "x", "preliminary": True}, f.OutputPartial("c", "x")),
    ("tool-output-available", {"output": "x", "preliminary": False}, f.OutputReady("c", "x")),
    ("tool-output-error", {"errorText": "boom"}, f.OutputFailed("c", "boom")),
    ("tool-output-denied", {}, f.OutputDenied("c")),
]  # fmt: skip


def decode(chunk_type: str, **fields: Any) -> Any:
    return ai_sdk.decode(json.dumps({"type": chunk_type, "toolCallId": "c", **fields}))


@loop_over(("chunk_type", "fields", "fact"), CHUNKS)
def test_a_chunk_tells_one_fact_with_all_that_it_has(chunk_type: str, fields: dict[str, Any], fact: Any) -> None:
    assert decode(chunk_type, **fields) == [fact]
    assert decode(chunk_type, **fields, more={"a": 1}) == [fact]


def test_every_class_of_chunks_with_facts_is_in_the_table() -> None:
    (union, _) = get_args(ai_sdk.Chunks)
    kinds = {kind for cls in get_args(union) for kind in get_args(cls.model_fields["type"].annotation)}
    quiet = set(get_args(IgnoredChunk.model_fields["type"].annotation))
    assert kinds - quiet - {"chunk"} == {kind for kind, _, _ in CHUNKS}
    assert all(decode(kind) == [] for kind in quiet)


REFUSED_CHUNKS = [
    ("error", {}, "missing_field", "errorText"), ("error", {"errorText": None}, "missing_field", "errorText"),
    ("tool-input-delta", {"toolCallId": "", "inputTextDelta": "x"}, "bad_field", "toolCallId"),
    ("tool-input-start", {"toolName": None}, "bad_field", "toolName"),
    ("tool-input-start", INPUT | {"dynamic": "yes"}, "bad_field", "dynamic"),
    ("tool-input-start", INPUT | {"inputEncoding": "xml"}, "bad_field", "inputEncoding"),
    ("tool-input-start", INPUT | {"toolMetadata": []}, "bad_field", "toolMetadata"),
    ("tool-input-error", INPUT, "missing_field", "errorText"), ("text-delta", {"delta": "x"}, "missing_field", "id"),
    ("finish", {"finishReason": 5}, "bad_field", "finishReason"), ("start", {"messageId": 5}, "bad_field", "messageId"),
    ("tool-approval-request", {}, "missing_field", "approvalId"),
]  # fmt: skip


@loop_over(("chunk_type", "fields", "code", "words"), REFUSED_CHUNKS)
def test_a_chunk_that_cannot_be_meant_is_refused(chunk_type: str, fields: Any, code: str, words: str) -> None:
    with pytest.raises(BadFrame) as caught:
        decode(chunk_type, **fields)
    assert caught.value.code == code and words in caught.value.message and chunk_type in caught.value.message
