"""The AI SDK's socket transport, and the answers to its requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tables import loop_over
from tests.support.worked_examples import AI_SDK, READY, REQUEST, answer, assert_story, list_questions
from toolcards.adapters import ADAPTERS


@loop_over(("frames", "states", "facts"), [pytest.param(*rest, id=name) for name, *rest in AI_SDK])
def test_the_socket_transport_tells_the_same(frames: list[Any], states: list[str], facts: dict[str, Any]) -> None:
    chunks = [{"type": "chunk", "requestId": "q", "sequence": n, "chunk": frame} for n, frame in enumerate(frames)]
    around = {"requestId": "q"}
    assert_story("ai-sdk", [{"type": "start", **around}, *chunks, {"type": "end", **around}], states, facts)


def test_the_ai_sdk_is_answered_by_approval_id_and_takes_no_edits() -> None:
    (ask,) = list_questions("ai-sdk", READY, {**REQUEST, "signature": "s"})
    encode = ADAPTERS["ai-sdk"].encode
    reply = {"type": "tool-approval-response", "approvalId": "a", "approved": False, "reason": "no", "signature": "s"}
    assert encode(answer(ask, False, "no")) == reply
    assert encode(answer(ask, True, "", {"q": 2})) is None
