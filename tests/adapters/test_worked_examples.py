"""Worked examples of each protocol, frame by frame, and the encoders' answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.tables import loop_over
from tests.support.trace_player import Player
from toolcards.adapters import ADAPTERS, ApprovalAnswer
from toolcards.adapters.ai_sdk_chunks import INTERRUPTED
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card

IS, IA, AR = "input-streaming", "input-available", "approval-requested"
OA, OE, OD, AP = "output-available", "output-error", "output-denied", "approval-responded"

# ---------------------------------------------------------------- AI SDK


def ai(kind: str, **more: Any) -> dict[str, Any]:
    named = {"toolCallId": "c"} if kind.startswith("tool-") and kind != "tool-approval-response" else {}
    named |= {"toolName": "t"} if kind.startswith("tool-input-") and kind != "tool-input-delta" else {}
    return {"type": kind, **named, **more}


START, DELTA = ai("tool-input-start"), ai("tool-input-delta", inputTextDelta='{"q":"1"}')
READY, OUTPUT = ai("tool-input-available", input={"q": "1"}), ai("tool-output-available", output=1)
PARTIAL = ai("tool-output-available", output=0, preliminary=True)
REQUEST = ai("tool-approval-request", approvalId="a")
STEP, ENDED = ai("start-step"), ai("finish", finishReason="stop")

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
    ("the text of a cancelled run without its abort", [READY, ai("tool-output-available", output=INTERRUPTED), ENDED],
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

# ---------------------------------------------------------------- AG-UI and TanStack


def ag(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **({"toolCallId": "c"} if kind.startswith("TOOL_CALL") else {}), **more}


RUN = ag("RUN_STARTED", threadId="th", runId="r1")
BEGIN, ARGS, END = ag("TOOL_CALL_START", toolCallName="t"), ag("TOOL_CALL_ARGS", delta='{"q":1}'), ag("TOOL_CALL_END")
RESULT = ag("TOOL_CALL_RESULT", messageId="m", content="done")
DONE = ag("RUN_FINISHED", threadId="th", runId="r1")
FAILED = ag("TOOL_CALL_RESULT", content='{"error":"boom"}', metadata={"tanstack": {"state": "output-error"}})


def interrupt(*entries: dict[str, Any]) -> dict[str, Any]:
    return {**DONE, "outcome": {"type": "interrupt", "interrupts": list(entries)}}


def mark(outcome: str) -> dict[str, Any]:
    text = json.dumps({"pydantic_ai": {"outcome": outcome}})
    return ag("REASONING_ENCRYPTED_VALUE", subtype="message", entityId="m", encryptedValue=text)


def snapshot(**tool: Any) -> dict[str, Any]:
    return ag("MESSAGES_SNAPSHOT", messages=[{"id": "x", "role": "tool", "toolCallId": "c", "content": "told", **tool}])


ASKED = interrupt({"id": "int-c", "reason": "tool_call", "toolCallId": "c", "message": "Really?"})
HITL = {"action_requests": [{"name": "t", "args": {"q": 1}, "description": "Sure?"}]}
AG_UI = [
    ("all goes well", [RUN, BEGIN, ARGS, END, RESULT, DONE], [IS, IA, OA], {"output": "done"}),
    ("result before end", [RUN, BEGIN, ARGS, RESULT, END, DONE], [IS, OA], {"input": {"q": 1}}),
    ("failed before end", [RUN, BEGIN, ARGS, FAILED, END, DONE], [IS, OE], {"message": "boom"}),
    ("failed and never ended", [RUN, BEGIN, ARGS, FAILED, DONE], [IS, OE], {}),
    ("an error in the text alone is a result", [RUN, BEGIN, END, {**RESULT, "content": '{"error":"boom"}'}],
     [IS, IA, OA], {"output": {"error": "boom"}}),
    ("an error field", [RUN, BEGIN, END, {**RESULT, "error": "boom"}], [IS, IA, OE], {"message": "boom"}),
    ("an empty error field", [RUN, BEGIN, END, {**RESULT, "content": "", "error": ""}], [IS, IA, OE], {"message": ""}),
    ("an old server's state", [RUN, BEGIN, END, {**RESULT, "state": "output-error"}], [IS, IA, OE], {}),
    ("an MCP error", [RUN, BEGIN, END, {**RESULT, "mcpResult": {"isError": True}}], [IS, IA, OE], {}),
    ("an empty TanStack error", [RUN, BEGIN, END, {**FAILED, "content": ""}], [IS, IA, OE], {"message": ""}),
    ("corrected by a snapshot", [RUN, BEGIN, END, RESULT, snapshot(error="error")], [IS, IA, OA, OE],
     {"codes": ["corrected-by-snapshot"], "message": "told"}),
    ("a snapshot corrects no failure", [RUN, BEGIN, END, {**RESULT, "error": "x"}, snapshot()], [IS, IA, OE], {}),
    ("Pydantic AI's failed mark", [RUN, BEGIN, END, RESULT, mark("failed")], [IS, IA, OA, OE], {"message": "done"}),
    ("Pydantic AI's denied mark", [RUN, BEGIN, END, ASKED, RUN, RESULT, mark("denied")], [IS, IA, AR, OA, OD],
     {"codes": [], "ask": "denied"}),
    ("Pydantic AI's interrupted mark", [RUN, BEGIN, END, RESULT, mark("interrupted")], [IS, IA, OA, OE],
     {"soft": True}),
    ("a mark for another result", [RUN, BEGIN, END, RESULT, {**mark("failed"), "entityId": "other"}], [IS, IA, OA], {}),
    ("the run fails while writing", [RUN, BEGIN, ARGS, ag("RUN_ERROR", message="x")], [IS, OE],
     {"soft": True, "cause": "run-error"}),
    ("the run fails after its end", [RUN, BEGIN, ARGS, END, DONE, ag("RUN_ERROR", message="x")], [IS, IA, OE],
     {"soft": True, "cause": "run-error"}),
    ("a late failure leaves results", [RUN, BEGIN, END, RESULT, DONE, ag("RUN_ERROR", message="x")], [IS, IA, OA], {}),
    ("cancelled", [RUN, BEGIN, END, {**DONE, "outcome": {"type": "cancelled"}}], [IS, IA, OE],
     {"soft": True, "cause": "aborted"}),
    ("cancelled, the old way", [RUN, BEGIN, END, ag("RUN_CANCELLED", threadId="th", runId="r1")], [IS, IA, OE],
     {"cause": "aborted"}),
    ("a front-end tool", [RUN, BEGIN, ARGS, END, {**DONE, "outcome": {"type": "success", "pendingToolCallIds": ["c"]}}],
     [IS, IA], {"awaiting_client": True}),
    ("an outcome of the future is a success", [RUN, BEGIN, END, RESULT, {**DONE, "outcome": {"type": "x"}}],
     [IS, IA, OA], {}),
    ("finished with a call still open", [RUN, BEGIN, ARGS, DONE], [IS, IA], {"codes": ["protocol-violation"]}),
    ("asked", [RUN, BEGIN, ARGS, END, ASKED], [IS, IA, AR], {"waiting": True, "reason": "Really?"}),
    ("the clock of a question", [RUN, BEGIN, interrupt({"id": "i", "reason": "tool_call", "toolCallId": "c",
     "expiresAt": "1970-01-01T00:01:00Z"})], [IS, AR], {"expires_at": 60.0}),
    ("written again after its approval", [RUN, BEGIN, ARGS, END, ASKED, RUN, BEGIN, ARGS, END, RESULT], [IS, IA,
     AR, OA],
     {"input": {"q": 1}}),
    ("LangGraph's batch without ids", [RUN, BEGIN, ARGS, END,
     ag("CUSTOM", name="on_interrupt", value=json.dumps(HITL)), DONE], [IS, IA, AR], {"reason": "Sure?"}),
    ("LangGraph's batch in an outcome", [RUN, BEGIN, ARGS, END,
     interrupt({"id": "i", "reason": "langgraph:interrupt", "metadata": {"langgraph": {"raw": HITL}}})], [IS, IA,
     AR], {}),
    ("LangGraph's batch told twice, the second time with its id", [RUN, BEGIN, ARGS, END,
     ag("CUSTOM", name="on_interrupt", value=json.dumps(HITL)),
     interrupt({"id": "i", "reason": "langgraph:interrupt", "metadata": {"langgraph": {"raw": HITL}}})], [IS, IA, AR],
     {"source_id": "i#0"}),
    ("LangGraph per call", [RUN, BEGIN, ARGS, END, ag("CUSTOM", name="on_interrupt", value=json.dumps(
     {"type": "tool_approval", "tool_call_id": "c", "name": "t", "args": {}})), DONE], [IS, IA, AR], {}),
    ("an interrupt of the program's own", [RUN, BEGIN, END, ag("CUSTOM", name="on_interrupt", value="Which city?"),
     interrupt({"id": "i", "reason": "input_required"})], [IS, IA], {}),
    ("TanStack's old question", [RUN, BEGIN, ARGS, END, ag("CUSTOM", name="approval-requested",
     value={"toolCallId": "c", "toolName": "t", "input": {}, "approval": {"id": "approval_c", "needsApproval": True}})],
     [IS, IA, AR], {}),
    ("TanStack's old word for a client tool", [RUN, BEGIN, ag("CUSTOM", name="tool-input-available",
     value={"toolCallId": "c", "toolName": "t", "input": {"q": 3}})], [IS, IA], {"input": {"q": 3}}),
    ("TanStack's client tool is no question", [RUN, BEGIN, ARGS, END, interrupt({"id": "client_tool_c",
     "toolCallId": "c",
     "reason": "tanstack:client_tool_execution", "metadata": {"kind": "client_tool"}})], [IS, IA],
     {"awaiting_client": True}),
    ("a turn of TanStack is no end", [RUN, BEGIN, ARGS, {**DONE,
     "metadata": {"tanstack": {"finishReason": "tool_calls"}}}],
     [IS], {}),
    ("chunks", [RUN, ag("TOOL_CALL_CHUNK", toolCallName="t", delta='{"q"'), {"type": "TOOL_CALL_CHUNK", "delta": ":1}"},
     RESULT], [IS, IA, OA], {"input": {"q": 1}}),
    ("a sub-agent failed", [RUN, ag("SUBAGENT_STARTED", subagentRunId="s", name="helper"), {**BEGIN,
     "subagentRunId": "s"},
     ag("SUBAGENT_ERROR", subagentRunId="s", message="x")], [IS, OE], {"agent_path": ("main", "helper"), "soft": True}),
]  # fmt: skip


ASK = {"reason": "request_reason", "ask": "state", "expires_at": "expires_at", "source_id": "source_id"}


def shown(card: Card, name: str) -> Any:
    if name == "message":
        return card.error.message if card.error else None
    if name == "codes":
        return [code for code, _ in card.anomalies]
    if name in ASK:
        return getattr(card.approval, ASK[name])
    return getattr(card, name)


def assert_story(protocol: str, frames: list[Any], states: list[str], facts: dict[str, Any]) -> None:
    player = Player(protocol).frames(*frames)
    card = player.board.find("c")
    assert card
    assert player.states("c") == states
    assert {name: shown(card, name) for name in facts} == facts


@loop_over(("frames", "states", "facts"), [pytest.param(*rest, id=name) for name, *rest in AI_SDK])
def test_an_ai_sdk_example_ends_as_written(frames: list[Any], states: list[str], facts: dict[str, Any]) -> None:
    assert_story("ai-sdk", frames, states, facts)


@loop_over(("frames", "states", "facts"), [pytest.param(*rest, id=name) for name, *rest in AI_SDK])
def test_the_socket_transport_tells_the_same(frames: list[Any], states: list[str], facts: dict[str, Any]) -> None:
    chunks = [{"type": "chunk", "requestId": "q", "sequence": n, "chunk": frame} for n, frame in enumerate(frames)]
    around = {"requestId": "q"}
    assert_story("ai-sdk", [{"type": "start", **around}, *chunks, {"type": "end", **around}], states, facts)


@loop_over("protocol", ["ag-ui", "tanstack"])
@loop_over(("frames", "states", "facts"), [pytest.param(*rest, id=name) for name, *rest in AG_UI])
def test_an_ag_ui_example_ends_as_written(
    protocol: str, frames: list[Any], states: list[str], facts: dict[str, Any]
) -> None:
    assert_story(protocol, frames, states, facts)


@loop_over(("frames", "states", "facts"), [pytest.param(*rest, id=name) for name, *rest in AG_UI])
def test_wrapped_chunks_tell_the_same(frames: list[Any], states: list[str], facts: dict[str, Any]) -> None:
    assert_story("tanstack", [{"id": str(n), "chunk": frame} for n, frame in enumerate(frames)], states, facts)


def test_the_same_id_in_a_later_step_is_another_call() -> None:
    player = Player("ai-sdk").frames(ai("start", messageId="m"), STEP, READY, OUTPUT, STEP, START, DELTA)
    assert [card.state for card in player.board.cards.values()] == [OA, IS]


def test_a_resumed_message_is_replayed_without_new_cards() -> None:
    story = [ai("start", messageId="m"), STEP, START, DELTA, READY, OUTPUT]
    player = Player("ai-sdk").frames(*story, *story, ENDED)
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


def test_parallel_questions_are_answered_apart() -> None:
    two = [{"id": f"i{n}", "reason": "tool_call", "toolCallId": f"c{n}"} for n in (1, 2)]
    begun = [{**BEGIN, "toolCallId": f"c{n}"} for n in (1, 2)]
    player = Player("ag-ui").frames(RUN, *begun, interrupt(*two))
    for n, approved in ((1, True), (2, False)):
        player.take(f.ApprovalAnswered(f"c{n}", approved, f"i{n}", by=f.Actor("human", "ann")))
    player.frames({**RUN, "runId": "r2"}, *({**RESULT, "toolCallId": f"c{n}"} for n in (1, 2)))
    assert player.states("c1")[-2:] == [AP, OA]
    assert player.states("c2")[-1] == OD


# ---------------------------------------------------------------- answers


def asked(protocol: str, *frames: dict[str, Any]) -> list[Any]:
    """What the adapter kept of every open question, in order."""
    player = Player(protocol).frames(*frames)
    return [card.approval for card in player.board.cards.values() if card.approval]


def answer(ask: Any, approved: bool, reason: str = "", edited: Any = None) -> ApprovalAnswer:
    return ApprovalAnswer("c", ask.source_id, approved, reason, edited, ask.reply_to)


TANSTACK = interrupt({"id": "approval_c", "reason": "tool_call", "toolCallId": "c",
                      "metadata": {"kind": "approval", "tanstack:interruptBinding": {}}})  # fmt: skip
PER_CALL = interrupt({"id": "i", "reason": "langgraph:interrupt", "toolCallId": "c", "metadata": {"langgraph": {
    "raw": {"type": "tool_approval", "tool_call_id": "c", "name": "t", "args": {}}}}})  # fmt: skip
PAYLOADS = [
    ("plain yes", ASKED, (True, "fine"), {"approved": True}),
    ("plain no", ASKED, (False, "no"), {"approved": False, "reason": "no"}),
    ("plain edit", ASKED, (True, "", {"q": 2}), {"approved": True, "editedArgs": {"q": 2}}),
    ("TanStack no", TANSTACK, (False, "no"), {"approved": False}),
    ("TanStack edit", TANSTACK, (True, "", {"q": 2}), {"approved": True, "editedArgs": {"q": 2}}),
    ("LangGraph yes", PER_CALL, (True,), {"type": "approve"}),
    ("LangGraph no", PER_CALL, (False, "no"), {"type": "reject", "message": "no"}),
    ("LangGraph edit", PER_CALL, (True, "", {"q": 2}),
     {"type": "edit", "edited_action": {"name": "t", "args": {"q": 2}}}),
]  # fmt: skip


@pytest.mark.parametrize(("question", "value", "payload"), [pytest.param(*rest, id=name) for name, *rest in PAYLOADS])
def test_an_answer_is_the_producers_own_resume_entry(question: Any, value: Any, payload: dict[str, Any]) -> None:
    (ask,) = asked("ag-ui", RUN, BEGIN, END, question)
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


def test_the_ai_sdk_is_answered_by_approval_id_and_takes_no_edits() -> None:
    (ask,) = asked("ai-sdk", READY, {**REQUEST, "signature": "s"})
    encode = ADAPTERS["ai-sdk"].encode
    reply = {"type": "tool-approval-response", "approvalId": "a", "approved": False, "reason": "no", "signature": "s"}
    assert encode(answer(ask, False, "no")) == reply
    assert encode(answer(ask, True, "", {"q": 2})) is None


def test_the_native_answer_is_a_frame_that_its_own_decoder_knows() -> None:
    reply = ADAPTERS["native"].encode(ApprovalAnswer("c", "a", True, "ok", {"q": 2}))
    assert reply["input"] == {"q": 2}
    assert ADAPTERS["native"].decode(json.dumps(reply)) == [f.ApprovalAnswered("c", True, "a", reason="ok")]
