"""Worked examples of the AI SDK's chunks, frame by frame, and the answers to its requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from tests.support.trace_player import Player
from tests.support.worked_examples import (
    AP,
    AR,
    IA,
    IS,
    OA,
    OD,
    OE,
    answer,
    assert_story,
    list_questions,
)
from toolcards.adapters import ADAPTERS
from toolcards.adapters.ai_sdk_chunks import INTERRUPTED


def ai(kind: str, **more: Any) -> dict[str, Any]:
    id_field = {"toolCallId": "c"} if kind.startswith("tool-") and kind != "tool-approval-response" else {}
    id_field |= {"toolName": "t"} if kind.startswith("tool-input-") and kind != "tool-input-delta" else {}
    return {"type": kind, **id_field, **more}


START, DELTA = ai("tool-input-start"), ai("tool-input-delta", inputTextDelta='{"q":"1"}')
READY, OUTPUT = ai("tool-input-available", input={"q": "1"}), ai("tool-output-available", output=1)
PARTIAL = ai("tool-output-available", output=0, preliminary=True)
REQUEST = ai("tool-approval-request", approvalId="a")
STEP, FINISH = ai("start-step"), ai("finish", finishReason="stop")

AI_SDK = [
    ("all goes well", [START, DELTA, READY, OUTPUT], [IS, IA, OA], {}),
    ("no start", [READY, OUTPUT], [IA, OA], {}),
    ("invalid input", [START, DELTA, ai("tool-input-error", input="{", errorText="bad")], [IS, OE], {"input": "{"}),
    ("unknown tool", [START, ai("tool-input-error", input={}, errorText="no", dynamic=True)], [IS, OE], {}),
    ("repaired", [START, DELTA, ai("tool-input-available", input={"q": 1}), OUTPUT], [IS, IA, OA],
     {"input": {"q": 1}, "original_input": {"q": "1"}}),
    ("plain text is no repair", [ai("tool-input-start", inputEncoding="text"), ai("tool-input-delta",
     inputTextDelta="ls"),
     ai("tool-input-available", input="ls")], [IS, IA], {"input": "ls", "original_input": None, "repair": ""}),
    ("preliminary outputs", [READY, PARTIAL, PARTIAL, OUTPUT], [IA, OA], {"output": 1, "preliminary": False}),
    ("preliminary, still running", [READY, PARTIAL], [IA, OA], {"preliminary": True, "finished": False}),
    ("preliminary, then an error", [READY, PARTIAL, ai("tool-output-error", errorText="x")], [IA, OA, OE], {}),
    ("aborted while writing", [START, DELTA, ai("abort")], [IS, OE], {"soft": True, "cause": "aborted"}),
    ("aborted while running", [READY, ai("abort", reason="stop")], [IA, OE], {"soft": True, "cause": "aborted"}),
    ("cut by length", [START, DELTA, READY, ai("finish-step"), ai("finish", finishReason="length")], [IS, IA, OE],
     {"soft": True, "cause": "not-executed"}),
    ("a reason of the future means not executed", [READY, ai("finish", finishReason="new")], [IA, OE], {"soft": True}),
    ("the client's own tool", [READY, ai("finish", finishReason="tool-calls")], [IA], {"awaiting_client": True}),
    ("denied by policy", [READY, ai("tool-approval-request", approvalId="a", isAutomatic=True),
     ai("tool-approval-response", approvalId="a", approved=False, reason="no"), ai("tool-output-denied")], [IA, AR, OD],
     {"denied": "no", "waiting": False}),
    ("approved by policy", [READY, ai("tool-approval-request", approvalId="a", isAutomatic=True),
     ai("tool-approval-response", approvalId="a", approved=True), OUTPUT], [IA, AR, AP, OA], {"anomalies": ()}),
    ("approved, but the policy changed", [READY, REQUEST, ai("tool-approval-response", approvalId="a", approved=True),
     ai("tool-output-denied")], [IA, AR, AP, OD], {}),
    ("late frames change nothing", [START, DELTA, READY, OUTPUT, DELTA, START, READY], [IS, IA, OA], {}),
    ("an empty error is an error", [READY, ai("tool-output-error", errorText="")], [IA, OE], {"soft": False}),
    ("a result without output is null", [READY, ai("tool-output-available")], [IA, OA], {"output": None}),
    ("version 6 tells a bad call twice", [START, ai("tool-input-error", input={}, errorText="bad input"),
     ai("tool-output-error", errorText="An error occurred.")], [IS, OE], {"anomalies": ()}),
    ("the text of a cancelled run without its abort", [READY, ai("tool-output-available", output=INTERRUPTED), FINISH],
     [IA, OA], {"output": INTERRUPTED, "soft": False}),
    ("another result before an abort", [READY, OUTPUT, ai("abort")], [IA, OA], {"output": 1, "soft": False}),
    ("stopped by an error", [START, DELTA, READY, ai("finish", finishReason="error")], [IS, IA, OE],
     {"soft": True, "cause": "not-executed"}),
    ("Pydantic AI's cancelled run", [READY, ai("tool-output-available", output=INTERRUPTED), ai("abort")], [IA, OA, OE],
     {"soft": True, "cause": "aborted"}),
    ("Pydantic AI gives both ids alike", [READY, ai("tool-approval-request", approvalId="c"), ai("tool-output-denied")],
     [IA, AR, OD], {}),
    ("an error ends nothing by itself", [READY, ai("error", errorText="x"), OUTPUT], [IA, OA], {}),
    ("an answer before its question waits", [READY, ai("tool-approval-response", approvalId="a", approved=False),
     REQUEST], [IA, AR, OD], {}),
    ("a stub for an unknown call", [OUTPUT], [OA], {}),
]  # fmt: skip


@loop_over(("frames", "states", "facts"), [pytest.param(*rest, id=name) for name, *rest in AI_SDK])
def test_an_ai_sdk_example_ends_as_written(frames: list[Any], states: list[str], facts: dict[str, Any]) -> None:
    assert_story("ai-sdk", frames, states, facts)


@loop_over(("frames", "states", "facts"), [pytest.param(*rest, id=name) for name, *rest in AI_SDK])
def test_the_socket_transport_tells_the_same(frames: list[Any], states: list[str], facts: dict[str, Any]) -> None:
    chunks = [{"type": "chunk", "requestId": "q", "sequence": n, "chunk": frame} for n, frame in enumerate(frames)]
    around = {"requestId": "q"}
    assert_story("ai-sdk", [{"type": "start", **around}, *chunks, {"type": "end", **around}], states, facts)


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


def test_the_ai_sdk_is_answered_by_approval_id_and_takes_no_edits() -> None:
    (ask,) = list_questions("ai-sdk", READY, {**REQUEST, "signature": "s"})
    encode = ADAPTERS["ai-sdk"].encode
    reply = {"type": "tool-approval-response", "approvalId": "a", "approved": False, "reason": "no", "signature": "s"}
    assert encode(answer(ask, False, "no")) == reply
    assert encode(answer(ask, True, "", {"q": 2})) is None
