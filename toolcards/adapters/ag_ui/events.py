"""AG-UI 1.0: all 31 events, legacy events still in use, and the extensions of its producers.

Source: `@ag-ui/core` 1.0.0 (npm), `ag-ui-protocol` 1.0.0 (PyPI), `pydantic-ai-slim` 2.68.0, `ag-ui-langgraph` 0.0.47
and `@tanstack/ai` 0.58.0. A result text that is a JSON object or array
is parsed; other texts are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from toolcards.adapters import strict
from toolcards.adapters.ag_ui import interrupts, resume_entries
from toolcards.adapters.ag_ui.base_event import AgUiEvent, TimestampedEvent, to_text
from toolcards.adapters.ag_ui.interrupts import Interrupt
from toolcards.adapters.ag_ui.result_events import EncryptedValueEvent, MessagesSnapshotEvent, ToolCallResultEvent
from toolcards.adapters.base import Adapter, Facts
from toolcards.adapters.frames import Decoder, ProtocolFrame
from toolcards.core.calls import facts as f


class RunStartedEvent(AgUiEvent):
    """A run of the thread begins."""

    type: Literal["RUN_STARTED"]
    thread_id: str
    run_id: str
    input: Any = None  # the request that started the run

    def to_facts(self) -> Facts:
        request = self.input if isinstance(self.input, dict) else {}
        return [f.RunStarted(scope=self.run_id), *resume_entries.read_request(request)]


class RunOutcome(ProtocolFrame):
    """The outcome of a run; unknown types count as success."""

    type: str = "success"
    interrupts: list[Interrupt] = []


class RunFinishedEvent(AgUiEvent):
    """The run ends, perhaps with interrupts. TanStack sends it after each turn; only the last one counts."""

    type: Literal["RUN_FINISHED"]
    thread_id: str = ""
    run_id: str = ""
    outcome: RunOutcome | None = None

    def to_facts(self) -> Facts:
        if self.outcome is None and self.tanstack.get("finishReason") == "tool_calls":
            return []
        outcome = self.outcome or RunOutcome()
        outcome_kind: f.Outcome = _OUTCOMES.get(outcome.type, "ok")
        interrupts = outcome.interrupts if outcome_kind == "interrupt" else []
        requests = [fact for interrupt in interrupts for fact in interrupt.to_facts(self.run_id)]
        is_tanstack = bool(self.tanstack) or any(interrupt.is_tanstack() for interrupt in interrupts)
        return [
            *requests,
            f.RunEnded(outcome=outcome_kind, scope=self.run_id, close_open_input=True, or_current=is_tanstack),
        ]


class RunErrorEvent(AgUiEvent):
    """The run failed; everything open ends."""

    type: Literal["RUN_ERROR"]
    message: str

    def to_facts(self) -> Facts:
        return [f.RunEnded(outcome="error", reason=self.message)]


class RunCancelledEvent(AgUiEvent):
    """The run was cancelled (before 1.0)."""

    type: Literal["RUN_CANCELLED"]
    run_id: str | None = None

    def to_facts(self) -> Facts:
        return [f.RunEnded(outcome="aborted", scope=self.run_id or "")]


class StepStartedEvent(AgUiEvent):
    """A named step begins."""

    type: Literal["STEP_STARTED"]
    step_name: str

    def to_facts(self) -> Facts:
        return [f.StepStarted(name=self.step_name)]


class StepFinishedEvent(AgUiEvent):
    """A named step ends."""

    type: Literal["STEP_FINISHED"]
    step_name: str

    def to_facts(self) -> Facts:
        return [f.StepFinished(name=self.step_name)]


class MessageContentEvent(AgUiEvent):
    """A piece of text or reasoning."""

    texts: ClassVar[int] = 3
    type: Literal["TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"]
    message_id: str
    delta: str

    def to_facts(self) -> Facts:
        return [f.TextDelta(text=self.delta, channel="text" if self.type[0] == "T" else "reasoning", lane=self.lane)]


class MessageChunkEvent(AgUiEvent):
    """Text or reasoning without start and end; THINKING is reasoning's old name."""

    type: Literal["TEXT_MESSAGE_CHUNK", "REASONING_MESSAGE_CHUNK", "THINKING_TEXT_MESSAGE_CONTENT"]
    delta: str | None = None

    def to_facts(self) -> Facts:
        channel: Literal["text", "reasoning"] = "text" if self.type == "TEXT_MESSAGE_CHUNK" else "reasoning"
        return [f.TextDelta(text=self.delta, channel=channel, lane=self.lane)] if self.delta else []


class ToolCallStartEvent(AgUiEvent):
    """The model begins to write a call, or repeats one after its approval."""

    type: Literal["TOOL_CALL_START"]
    tool_call_id: str = Field(min_length=1)
    tool_call_name: str
    parent_message_id: str | None = None

    def to_facts(self) -> Facts:
        message_id = self.parent_message_id or ""
        return [
            f.InputStarted(self.tool_call_id, self.tool_call_name, lane=self.lane, reusable=True, message_id=message_id)
        ]


class ToolCallArgsEvent(TimestampedEvent):
    """A piece of the input; may be empty."""

    texts: ClassVar[int] = 3
    type: Literal["TOOL_CALL_ARGS"]
    tool_call_id: str = Field(min_length=1)
    delta: str

    def to_facts(self) -> Facts:
        return [f.InputDelta(self.tool_call_id, self.delta)]


class ToolCallEndEvent(AgUiEvent):
    """The input is complete, but not necessarily valid. TanStack adds it as a value."""

    type: Literal["TOOL_CALL_END"]
    tool_call_id: str = Field(min_length=1)
    input: Any = None

    def to_facts(self) -> Facts:
        extras = self.tanstack
        has_input = "input" in extras or "input" in self.model_fields_set
        value = extras.get("input", self.input)
        return [f.InputReady(self.tool_call_id, input=value, has_input=has_input, lane=self.lane)]


class ToolCallChunkEvent(AgUiEvent):
    """Start, piece and continuation in one."""

    type: Literal["TOOL_CALL_CHUNK"]
    tool_call_id: str | None = None
    tool_call_name: str | None = None
    delta: str | None = None
    parent_message_id: str | None = None

    def to_facts(self) -> Facts:
        call_id, tool, text = self.tool_call_id or "", self.tool_call_name or "", self.delta or ""
        return [f.InputChunk(call_id, tool, text, self.lane, message_id=self.parent_message_id or "")]


class CustomEvent(AgUiEvent):
    """Custom events of producers; older LangGraph and TanStack versions request approvals with them."""

    type: Literal["CUSTOM"]
    name: str
    value: Any = None
    raw_event: Any = None

    def to_facts(self) -> Facts:
        if self.name == "on_interrupt":
            event_id = self.raw_event.get("id") if isinstance(self.raw_event, dict) else ""
            return interrupts.read_legacy(self.value, to_text(event_id))
        reader = _TANSTACK.get(self.name)
        return reader(self.value) if reader and isinstance(self.value, dict) else []


class SubagentStartedEvent(AgUiEvent):
    """A sub-agent begins."""

    type: Literal["SUBAGENT_STARTED"]
    subagent_run_id: str
    name: str
    parent_subagent_run_id: str | None = None
    parent_tool_call_id: str | None = None

    def to_facts(self) -> Facts:
        parent_lane, call = self.parent_subagent_run_id or "", self.parent_tool_call_id or ""
        return [f.LaneStarted(lane=self.lane, name=self.name, parent_lane=parent_lane, parent_call=call)]


class SubagentFinishedEvent(AgUiEvent):
    """A sub-agent ends, or waits for answers."""

    type: Literal["SUBAGENT_FINISHED"]
    subagent_run_id: str
    outcome: RunOutcome | None = None

    def to_facts(self) -> Facts:
        outcome_kind: f.Outcome = _OUTCOMES.get(self.outcome.type if self.outcome else "", "ok")
        return [f.RunEnded(outcome=outcome_kind, lane=self.lane, close_open_input=True)]


class SubagentErrorEvent(AgUiEvent):
    """A sub-agent failed."""

    type: Literal["SUBAGENT_ERROR"]
    subagent_run_id: str
    message: str

    def to_facts(self) -> Facts:
        return [f.RunEnded(outcome="error", reason=self.message, lane=self.lane)]


class IgnoredEvent(AgUiEvent):
    """Events without facts about runs and calls; THINKING_* are from before 1.0."""

    type: Literal[
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "REASONING_START", "REASONING_END", "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_END", "STATE_SNAPSHOT", "STATE_DELTA", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "RAW",
        "THINKING_START", "THINKING_END", "THINKING_TEXT_MESSAGE_START", "THINKING_TEXT_MESSAGE_END",
    ]  # fmt: skip


Events = Annotated[
    ToolCallArgsEvent | MessageContentEvent | ToolCallStartEvent | ToolCallEndEvent | ToolCallChunkEvent
    | ToolCallResultEvent | MessageChunkEvent | RunStartedEvent | RunFinishedEvent | RunErrorEvent | RunCancelledEvent
    | StepStartedEvent | StepFinishedEvent | EncryptedValueEvent | MessagesSnapshotEvent | CustomEvent
    | SubagentStartedEvent | SubagentFinishedEvent | SubagentErrorEvent | IgnoredEvent,
    Field(discriminator="type"),
]  # fmt: skip

_OUTCOMES: dict[str, f.Outcome] = {"interrupt": "interrupt", "suspended": "interrupt", "cancelled": "aborted"}


def find_run_id(text: str) -> str:
    """Return the frame's threadId, which is the run's id.

    "" if it is missing.
    """
    if '"threadId"' not in text:
        return ""
    frame = strict.read_members(text)
    chunk = frame.get("chunk")
    return to_text((chunk if isinstance(chunk, dict) else frame).get("threadId"))


def _read_approval_request(value: dict[str, Any]) -> Facts:
    """Read the approval request of TanStack versions before interrupts."""
    call_id, approval = to_text(value.get("toolCallId")), value.get("approval")
    source_id = to_text(approval.get("id")) if isinstance(approval, dict) else ""
    if not call_id:
        return []
    source_id = source_id or f"approval_{call_id}"
    reply_to = {"interruptId": source_id, "style": "tanstack"}
    return [f.ApprovalRequested(call_id, source_id, reply_to=reply_to, tool=to_text(value.get("toolName")))]


def _read_input_available(value: dict[str, Any]) -> Facts:
    call_id = to_text(value.get("toolCallId"))
    return (
        [f.InputReady(call_id, to_text(value.get("toolName")), value.get("input"), "input" in value)] if call_id else []
    )


_TANSTACK: dict[str, Callable[[dict[str, Any]], Facts]] = {
    "approval-requested": _read_approval_request,
    "tool-input-available": _read_input_available,
    "toolcards.request": resume_entries.read_request,  # sent by our JavaScript module for each request
}

DECODER = Decoder(Events)
decode = DECODER.decode
ADAPTER = Adapter("ag-ui", "1.0.0", decode, interrupts.encode, interrupts.encode_all, find_run_id)
