"""Answers in the native protocol."""

from __future__ import annotations

import json

from toolcards.adapters import ADAPTERS, ApprovalAnswer
from toolcards.core.calls import facts as f


def test_the_native_answer_is_a_frame_that_its_own_decoder_knows() -> None:
    reply = ADAPTERS["native"].encode(ApprovalAnswer("c", "a", True, "ok", {"q": 2}))
    assert reply["input"] == {"q": 2}
    assert ADAPTERS["native"].decode(json.dumps(reply)) == [f.ApprovalAnswered("c", True, "a", reason="ok")]
