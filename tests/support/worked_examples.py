"""Worked examples of protocols: frames with the states that they lead to, and questions with their answers."""

from __future__ import annotations

import json
from typing import Any

from tests.support.trace_player import Player
from toolcards.adapters import ApprovalAnswer
from toolcards.adapters.ai_sdk_chunks import INTERRUPTED
from toolcards.core.calls.card import Card

IS, IA, AR = "input-streaming", "input-available", "approval-requested"
OA, OE, OD, AP = "output-available", "output-error", "output-denied", "approval-responded"


# ---------------------------------------------------------------- AG-UI and TanStack
def ag(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **({"toolCallId": "c"} if kind.startswith("TOOL_CALL") else {}), **more}


RUN = ag("RUN_STARTED", threadId="th", runId="r1")
BEGIN, ARGS, END = ag("TOOL_CALL_START", toolCallName="t"), ag("TOOL_CALL_ARGS", delta='{"q":1}'), ag("TOOL_CALL_END")
RESULT = ag("TOOL_CALL_RESULT", messageId="m", content="done")
LAST = ag("RUN_FINISHED", threadId="th", runId="r1")
FAILED = ag("TOOL_CALL_RESULT", content='{"error":"boom"}', metadata={"tanstack": {"state": "output-error"}})


def interrupt(*entries: dict[str, Any]) -> dict[str, Any]:
    return {**LAST, "outcome": {"type": "interrupt", "interrupts": list(entries)}}


def mark(outcome: str) -> dict[str, Any]:
    text = json.dumps({"pydantic_ai": {"outcome": outcome}})
    return ag("REASONING_ENCRYPTED_VALUE", subtype="message", entityId="m", encryptedValue=text)


def snapshot(**tool: Any) -> dict[str, Any]:
    return ag("MESSAGES_SNAPSHOT", messages=[{"id": "x", "role": "tool", "toolCallId": "c", "content": "told", **tool}])


INTERRUPT = interrupt({"id": "int-c", "reason": "tool_call", "toolCallId": "c", "message": "Really?"})
HITL = {"action_requests": [{"name": "t", "args": {"q": 1}, "description": "Sure?"}]}
AG_UI = [
    ("all goes well", [RUN, BEGIN, ARGS, END, RESULT, LAST], [IS, IA, OA], {"output": "done"}),
    ("result before end", [RUN, BEGIN, ARGS, RESULT, END, LAST], [IS, OA], {"input": {"q": 1}}),
    ("failed before end", [RUN, BEGIN, ARGS, FAILED, END, LAST], [IS, OE], {"message": "boom"}),
    ("failed and never ended", [RUN, BEGIN, ARGS, FAILED, LAST], [IS, OE], {}),
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
    ("Pydantic AI's denied mark", [RUN, BEGIN, END, INTERRUPT, RUN, RESULT, mark("denied")], [IS, IA, AR, OA, OD],
     {"codes": [], "ask": "denied"}),
    ("Pydantic AI's interrupted mark", [RUN, BEGIN, END, RESULT, mark("interrupted")], [IS, IA, OA, OE],
     {"soft": True}),
    ("a mark for another result", [RUN, BEGIN, END, RESULT, {**mark("failed"), "entityId": "other"}], [IS, IA, OA], {}),
    ("the run fails while writing", [RUN, BEGIN, ARGS, ag("RUN_ERROR", message="x")], [IS, OE],
     {"soft": True, "cause": "run-error"}),
    ("the run fails after its end", [RUN, BEGIN, ARGS, END, LAST, ag("RUN_ERROR", message="x")], [IS, IA, OE],
     {"soft": True, "cause": "run-error"}),
    ("a late failure leaves results", [RUN, BEGIN, END, RESULT, LAST, ag("RUN_ERROR", message="x")], [IS, IA, OA], {}),
    ("cancelled", [RUN, BEGIN, END, {**LAST, "outcome": {"type": "cancelled"}}], [IS, IA, OE],
     {"soft": True, "cause": "aborted"}),
    ("cancelled, the old way", [RUN, BEGIN, END, ag("RUN_CANCELLED", threadId="th", runId="r1")], [IS, IA, OE],
     {"cause": "aborted"}),
    ("a front-end tool", [RUN, BEGIN, ARGS, END, {**LAST, "outcome": {"type": "success", "pendingToolCallIds": ["c"]}}],
     [IS, IA], {"awaiting_client": True}),
    ("an outcome of the future is a success", [RUN, BEGIN, END, RESULT, {**LAST, "outcome": {"type": "x"}}],
     [IS, IA, OA], {}),
    ("finished with a call still open", [RUN, BEGIN, ARGS, LAST], [IS, IA], {"codes": ["protocol-violation"]}),
    ("asked", [RUN, BEGIN, ARGS, END, INTERRUPT], [IS, IA, AR], {"waiting": True, "reason": "Really?"}),
    ("the clock of a question", [RUN, BEGIN, interrupt({"id": "i", "reason": "tool_call", "toolCallId": "c",
     "expiresAt": "1970-01-01T00:01:00Z"})], [IS, AR], {"expires_at": 60.0}),
    ("written again after its approval", [RUN, BEGIN, ARGS, END, INTERRUPT, RUN, BEGIN, ARGS, END, RESULT], [IS, IA,
     AR, OA],
     {"input": {"q": 1}}),
    ("LangGraph's batch without ids", [RUN, BEGIN, ARGS, END,
     ag("CUSTOM", name="on_interrupt", value=json.dumps(HITL)), LAST], [IS, IA, AR], {"reason": "Sure?"}),
    ("LangGraph's batch in an outcome", [RUN, BEGIN, ARGS, END,
     interrupt({"id": "i", "reason": "langgraph:interrupt", "metadata": {"langgraph": {"raw": HITL}}})], [IS, IA,
     AR], {}),
    ("LangGraph's batch told twice, the second time with its id", [RUN, BEGIN, ARGS, END,
     ag("CUSTOM", name="on_interrupt", value=json.dumps(HITL)),
     interrupt({"id": "i", "reason": "langgraph:interrupt", "metadata": {"langgraph": {"raw": HITL}}})], [IS, IA, AR],
     {"source_id": "i#0"}),
    ("LangGraph per call", [RUN, BEGIN, ARGS, END, ag("CUSTOM", name="on_interrupt", value=json.dumps(
     {"type": "tool_approval", "tool_call_id": "c", "name": "t", "args": {}})), LAST], [IS, IA, AR], {}),
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
    ("a turn of TanStack is no end", [RUN, BEGIN, ARGS, {**LAST,
     "metadata": {"tanstack": {"finishReason": "tool_calls"}}}],
     [IS], {}),
    ("chunks", [RUN, ag("TOOL_CALL_CHUNK", toolCallName="t", delta='{"q"'), {"type": "TOOL_CALL_CHUNK", "delta": ":1}"},
     RESULT], [IS, IA, OA], {"input": {"q": 1}}),
    ("a sub-agent failed", [RUN, ag("SUBAGENT_STARTED", subagentRunId="s", name="helper"), {**BEGIN,
     "subagentRunId": "s"},
     ag("SUBAGENT_ERROR", subagentRunId="s", message="x")], [IS, OE], {"agent_path": ("main", "helper"), "soft": True}),
]  # fmt: skip


# ---------------------------------------------------------------- the AI SDK
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


ASK = {"reason": "request_reason", "ask": "state", "expires_at": "expires_at", "source_id": "source_id"}


def read_field(card: Card, name: str) -> Any:
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
    assert {name: read_field(card, name) for name in facts} == facts


# ---------------------------------------------------------------- answers
def list_questions(protocol: str, *frames: dict[str, Any]) -> list[Any]:
    """What the adapter kept of every open question, in order."""
    player = Player(protocol).frames(*frames)
    return [card.approval for card in player.board.cards.values() if card.approval]


def answer(ask: Any, approved: bool, reason: str = "", edited: Any = None) -> ApprovalAnswer:
    return ApprovalAnswer("c", ask.source_id, approved, reason, edited, ask.reply_to)
