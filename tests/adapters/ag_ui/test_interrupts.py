"""Answers to AG-UI interrupts: each is the resume entry that its producer expects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.trace_player import Player
from tests.support.worked_examples import (
    AP,
    ARGS,
    BEGIN,
    END,
    INTERRUPT,
    OA,
    OD,
    RESULT,
    RUN,
    answer,
    interrupt,
    list_questions,
)
from toolcards.adapters import ADAPTERS, ApprovalAnswer
from toolcards.core.calls import facts as f


def test_parallel_questions_are_answered_apart() -> None:
    two = [{"id": f"i{n}", "reason": "tool_call", "toolCallId": f"c{n}"} for n in (1, 2)]
    start_frames = [{**BEGIN, "toolCallId": f"c{n}"} for n in (1, 2)]
    player = Player("ag-ui").frames(RUN, *start_frames, interrupt(*two))
    for n, approved in ((1, True), (2, False)):
        player.take(f.ApprovalAnswered(f"c{n}", approved, f"i{n}", by=f.Actor("human", "ann")))
    player.frames({**RUN, "runId": "r2"}, *({**RESULT, "toolCallId": f"c{n}"} for n in (1, 2)))
    assert player.states("c1")[-2:] == [AP, OA]
    assert player.states("c2")[-1] == OD


TANSTACK = interrupt({"id": "approval_c", "reason": "tool_call", "toolCallId": "c",
                      "metadata": {"kind": "approval", "tanstack:interruptBinding": {}}})  # fmt: skip
PER_CALL = interrupt({"id": "i", "reason": "langgraph:interrupt", "toolCallId": "c", "metadata": {"langgraph": {
    "raw": {"type": "tool_approval", "tool_call_id": "c", "name": "t", "args": {}}}}})  # fmt: skip
PAYLOADS = [
    ("plain yes", INTERRUPT, (True, "fine"), {"approved": True}),
    ("plain no", INTERRUPT, (False, "no"), {"approved": False, "reason": "no"}),
    ("plain edit", INTERRUPT, (True, "", {"q": 2}), {"approved": True, "editedArgs": {"q": 2}}),
    ("TanStack no", TANSTACK, (False, "no"), {"approved": False}),
    ("TanStack edit", TANSTACK, (True, "", {"q": 2}), {"approved": True, "editedArgs": {"q": 2}}),
    ("LangGraph yes", PER_CALL, (True,), {"type": "approve"}),
    ("LangGraph no", PER_CALL, (False, "no"), {"type": "reject", "message": "no"}),
    ("LangGraph edit", PER_CALL, (True, "", {"q": 2}),
     {"type": "edit", "edited_action": {"name": "t", "args": {"q": 2}}}),
]  # fmt: skip


@pytest.mark.parametrize(("question", "value", "payload"), [pytest.param(*rest, id=name) for name, *rest in PAYLOADS])
def test_an_answer_is_the_producers_own_resume_entry(question: Any, value: Any, payload: dict[str, Any]) -> None:
    (ask,) = list_questions("ag-ui", RUN, BEGIN, END, question)
    entry = ADAPTERS["ag-ui"].encode(answer(ask, *value))
    assert entry == {"interruptId": ask.source_id, "status": "resolved", "payload": payload}


def test_a_batch_is_answered_in_the_order_it_was_asked() -> None:
    actions = [{"name": "t", "args": {"n": n}} for n in range(3)]
    calls: list[dict[str, Any]] = []
    for n in (2, 0, 1):  # the calls run in another order than they are asked about
        calls += [{**BEGIN, "toolCallId": f"c{n}"}, {**ARGS, "toolCallId": f"c{n}", "delta": json.dumps({"n": n})},
                  {**END, "toolCallId": f"c{n}"}]  # fmt: skip
    raw = {"langgraph": {"raw": {"action_requests": actions}}}
    player = Player("ag-ui").frames(RUN, *calls, interrupt({"id": "i", "reason": "x", "metadata": raw}))
    answers = [
        ApprovalAnswer(
            card.call_id, card.approval.source_id, card.call_id != "c1", "no", reply_to=card.approval.reply_to
        )
        for card in player.board.cards.values()
        if card.approval
    ]
    encode_all = ADAPTERS["ag-ui"].encode_all
    assert encode_all
    decisions = [{"type": "approve"}, {"type": "reject", "message": "no"}, {"type": "approve"}]
    assert encode_all(answers) == [{"interruptId": "i", "status": "resolved", "payload": {"decisions": decisions}}]
