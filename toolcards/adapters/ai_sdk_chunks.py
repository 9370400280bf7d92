"""The chunks of the AI SDK UI message stream, one class for each `type`, in the order of its schema."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from toolcards.adapters.base import BadFrame, Facts
from toolcards.adapters.frames import ProtocolFrame
from toolcards.core.calls import facts as f

INTERRUPTED = "The tool call was interrupted before a result was produced."  # Pydantic AI's result of a stopped call
_EXECUTING = frozenset({"stop", "tool-calls"})  # finish reasons after which the SDK ran the tools


class Chunk(ProtocolFrame):
    """A chunk; the wire's names are in camel case."""

    model_config = ConfigDict(alias_generator=to_camel)


class ToolCallChunk(Chunk):
    """A chunk about one call."""

    tool_call_id: str = Field(min_length=1)


class ToolInputChunk(ToolCallChunk):
    """What chunks about a call's input have in common."""

    tool_name: str
    title: str | None = None
    provider_executed: bool | None = None
    tool_metadata: dict[str, Any] | None = None
    dynamic: bool | None = None

    def identity(self) -> dict[str, Any]:
        """Return what the chunk says about the call, as in facts."""
        kind = (self.tool_metadata or {}).get("kind")
        return {
            "title": self.title or "",
            "kind": kind if isinstance(kind, str) else "",
            "per_step": True,
            "provider_executed": bool(self.provider_executed),
        }


class StartChunk(Chunk):
    """An assistant message begins, or continues after an approval; on a socket, the stream begins."""

    type: Literal["start"]
    message_id: str | None = None
    request_id: str | None = None

    def to_facts(self) -> Facts:
        return [] if self.request_id is not None else [f.MessageStarted(message_id=self.message_id or "")]


class StepStartChunk(Chunk):
    """A step begins."""

    type: Literal["start-step"]

    def to_facts(self) -> Facts:
        return [f.StepStarted()]


class StepEndChunk(Chunk):
    """A step ends."""

    type: Literal["finish-step"]

    def to_facts(self) -> Facts:
        return [f.StepFinished()]


class StepResetChunk(Chunk):
    """The step will be tried again (version 7)."""

    type: Literal["reset-step"]

    def to_facts(self) -> Facts:
        return [f.StepReset()]


class FinishChunk(Chunk):
    """The message is complete. Other reasons than `stop` and `tool-calls`, also `error`, mean that no tool ran."""

    type: Literal["finish"]
    finish_reason: str | None = None

    def to_facts(self) -> Facts:
        reason = self.finish_reason or "stop"
        if reason in _EXECUTING:
            return [f.RunEnded()]
        return [f.RunEnded(outcome="not-executed", reason=f"The model stopped: {reason}")]


class AbortChunk(Chunk):
    """The run was stopped."""

    type: Literal["abort"]
    reason: str | None = None

    def to_facts(self) -> Facts:
        return [f.RunEnded(outcome="aborted", reason=self.reason or "", interrupted_output=INTERRUPTED)]


class ErrorChunk(Chunk):
    """An error. Merged streams can continue, so it does not end the run (rule 17)."""

    type: Literal["error"]
    error_text: str | None = None
    request_id: str | None = None

    def to_facts(self) -> Facts:
        if self.error_text is None and self.request_id is None:
            raise BadFrame("error: errorText: Field required", "missing_field")
        return [f.ErrorReported(message=self.error_text or "")]


class TextDeltaChunk(Chunk):
    """A piece of text."""

    texts: ClassVar[int] = 3
    type: Literal["text-delta"]
    id: str
    delta: str

    def to_facts(self) -> Facts:
        return [f.TextDelta(text=self.delta)]


class ReasoningDeltaChunk(Chunk):
    """A piece of reasoning."""

    texts: ClassVar[int] = 3
    type: Literal["reasoning-delta"]
    id: str
    delta: str

    def to_facts(self) -> Facts:
        return [f.TextDelta(text=self.delta, channel="reasoning")]


class InputStartChunk(ToolInputChunk):
    """The model begins to write a call."""

    type: Literal["tool-input-start"]
    input_encoding: Literal["json", "text"] | None = None

    def to_facts(self) -> Facts:
        return [f.InputStarted(self.tool_call_id, self.tool_name, dynamic=bool(self.dynamic), **self.identity())]


class InputDeltaChunk(ToolCallChunk):
    """A piece of the input."""

    texts: ClassVar[int] = 3
    type: Literal["tool-input-delta"]
    input_text_delta: str

    def to_facts(self) -> Facts:
        return [f.InputDelta(self.tool_call_id, self.input_text_delta)]


class InputAvailableChunk(ToolInputChunk):
    """The input is whole, perhaps repaired: name and input may differ from what streamed."""

    type: Literal["tool-input-available"]
    input: Any

    def to_facts(self) -> Facts:
        return [f.InputReady(self.tool_call_id, self.tool_name, self.input, has_input=True, **self.identity())]


class InputErrorChunk(ToolInputChunk):
    """The tool is unknown or the input unusable; nothing ran."""

    type: Literal["tool-input-error"]
    input: Any = None
    error_text: str

    def to_facts(self) -> Facts:
        return [
            f.InputInvalid(
                self.tool_call_id, self.tool_name, self.input, self.error_text,
                per_step=True, dynamic=bool(self.dynamic),
            )
        ]  # fmt: skip


class ApprovalRequestChunk(ToolCallChunk):
    """A request for approval by a person, or by the SDK's own policy (`isAutomatic`)."""

    type: Literal["tool-approval-request"]
    approval_id: str
    reason: str | None = None
    is_automatic: bool | None = None
    signature: str | None = None

    def to_facts(self) -> Facts:
        reply = {"signature": self.signature} if self.signature else None
        return [
            f.ApprovalRequested(
                self.tool_call_id, self.approval_id, reason=self.reason or "",
                automatic=bool(self.is_automatic), reply_to=reply,
            )
        ]  # fmt: skip


class ApprovalResponseChunk(Chunk):
    """The question was answered (version 7); names the approval, not the call."""

    type: Literal["tool-approval-response"]
    approval_id: str
    approved: bool
    reason: str | None = None

    def to_facts(self) -> Facts:
        return [f.ApprovalAnswered("", self.approved, self.approval_id, reason=self.reason or "")]


class OutputAvailableChunk(ToolCallChunk):
    """A result, preliminary or final."""

    type: Literal["tool-output-available"]
    output: Any = None
    preliminary: bool | None = None

    def to_facts(self) -> Facts:
        return [(f.OutputPartial if self.preliminary else f.OutputReady)(self.tool_call_id, self.output)]


class OutputErrorChunk(ToolCallChunk):
    """The tool failed."""

    type: Literal["tool-output-error"]
    error_text: str

    def to_facts(self) -> Facts:
        return [f.OutputFailed(self.tool_call_id, self.error_text)]


class OutputDeniedChunk(ToolCallChunk):
    """The call was denied."""

    type: Literal["tool-output-denied"]

    def to_facts(self) -> Facts:
        return [f.OutputDenied(self.tool_call_id)]


class IgnoredChunk(Chunk):
    """Chunks without data about runs and calls; the last three belong to the socket."""

    type: Literal[
        "message-metadata", "text-start", "text-end", "reasoning-start", "reasoning-end", "source-url",
        "source-document", "file", "reasoning-file", "custom", "steering-message", "end", "no-active",
    ]  # fmt: skip
