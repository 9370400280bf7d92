"""The protocol that `toolcards.client` speaks: our own facts by their contract names.

Version 1; written down in docs/api.md. `at` is the sender's clock and only kept by the
sender; `n` is the sender's sequence number, which the transport uses to apply a repeated frame once.
One class a frame, in the contract's order: long, but read side by side with it.
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from toolcards.adapters import strict
from toolcards.adapters.base import MAX_DEPTH, Adapter, ApprovalAnswer, BadFrame, Facts
from toolcards.adapters.frames import Decoder, ProtocolFrame
from toolcards.core.calls import facts as f
from toolcards.core.runs.skipped_frames import SkippedFrame


class NativeFrame(ProtocolFrame):
    """What every native frame may carry."""

    at: float | str | None = None
    n: Annotated[int, Field(ge=1, lt=10**18)] | None = None


class CallFrame(NativeFrame):
    """A frame about one call."""

    call_id: str = Field(min_length=1)


class OfferedTool(TypedDict, total=False):
    """A tool that the run offers; MCP's words."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]
    name: str
    description: str | None
    input_schema: Any
    kind: str | None
    annotations: dict[str, Any] | None


class Fault(ProtocolFrame):
    """How a call failed; `after_ms` is what the other side asked to wait (`Retry-After`)."""

    message: str = ""
    code: str | None = None
    retryable: bool | None = None
    authority: str | None = None
    after_ms: Annotated[int, Field(ge=0, lt=2**53)] | None = None


class RunStartedFrame(NativeFrame):
    """The run begins."""

    type: Literal["run.started"]
    agent: str | None = None
    title: str | None = None
    tools: list[OfferedTool] | None = None

    def facts(self) -> Facts:
        """The run, and the tools it may call."""
        tools: list[Any] = list(self.tools or ())
        if any(not tool.get("name") for tool in tools):
            raise BadFrame("run.started: tools: every tool needs its name", "missing_field")
        return [f.RunStarted(agent=self.agent or "", title=self.title or "", tools=tools)]


class StepStartedFrame(NativeFrame):
    """A step begins; numbered or named."""

    type: Literal["step.started"]
    step: int | str | None = None

    def facts(self) -> Facts:
        """The step."""
        return [f.StepStarted(**_build_step(self.step))]


class StepFinishedFrame(NativeFrame):
    """A step ends."""

    type: Literal["step.finished"]
    step: int | str | None = None

    def facts(self) -> Facts:
        """The step's end."""
        return [f.StepFinished(**_build_step(self.step))]


class TextDeltaFrame(NativeFrame):
    """A piece of the agent's text."""

    texts: ClassVar[int] = 2
    type: Literal["text.delta"]
    text: str

    def facts(self) -> Facts:
        """The text."""
        return [f.TextDelta(text=self.text)]


class ReasoningDeltaFrame(NativeFrame):
    """A piece of the agent's reasoning."""

    texts: ClassVar[int] = 2
    type: Literal["reasoning.delta"]
    text: str

    def facts(self) -> Facts:
        """The reasoning."""
        return [f.TextDelta(text=self.text, channel="reasoning")]


class InputStartedFrame(CallFrame):
    """The agent begins to write a call."""

    type: Literal["tool.input.started"]
    tool: str
    title: str | None = None
    kind: str | None = None
    source: str | None = None

    def facts(self) -> Facts:
        """The call."""
        names: dict[str, Any] = {"title": self.title or "", "kind": self.kind or "", "source": self.source or ""}
        return [f.InputStarted(self.call_id, self.tool, **names)]


class InputDeltaFrame(CallFrame):
    """A piece of a call's input; nine of ten frames."""

    texts: ClassVar[int] = 3
    type: Literal["tool.input.delta"]
    delta: str

    def facts(self) -> Facts:
        """The piece."""
        return [f.InputDelta(self.call_id, self.delta)]


class InputAvailableFrame(CallFrame):
    """A call's input is whole."""

    type: Literal["tool.input.available"]
    tool: str
    input: Any
    title: str | None = None
    kind: str | None = None
    source: str | None = None

    def facts(self) -> Facts:
        """The input."""
        return [
            f.InputReady(
                self.call_id, self.tool, self.input, has_input=True,
                title=self.title or "", kind=self.kind or "", source=self.source or "",
            )
        ]  # fmt: skip


class InputInvalidFrame(CallFrame):
    """The input could not be used; the tool did not run."""

    type: Literal["tool.input.invalid"]
    tool: str = ""
    input: Any = None
    error: Fault | str

    def facts(self) -> Facts:
        """The failure."""
        fault = _build_fault(self.error)
        return [f.InputInvalid(self.call_id, self.tool, self.input, fault.message, fault.code or "invalid_input")]


class InputRepairedFrame(CallFrame):
    """A broken name or input was mended before anything ran."""

    type: Literal["tool.input.repaired"]
    tool: str
    input: Any
    original: Any = None
    method: str = ""

    def facts(self) -> Facts:
        """The repair."""
        return [f.InputRepaired(self.call_id, self.tool, self.input, self.original, self.method)]


class ApprovalRequestedFrame(CallFrame):
    """The agent itself asks a person."""

    type: Literal["approval.requested"]
    approval_id: str
    reason: str | None = None

    def facts(self) -> Facts:
        """The question."""
        return [f.ApprovalRequested(self.call_id, self.approval_id, reason=self.reason or "")]


class ApprovalRespondedFrame(NativeFrame):
    """The agent's own question was answered; never one that our gate asked."""

    type: Literal["approval.responded"]
    call_id: str = ""
    approval_id: str = ""
    approved: bool
    reason: str | None = None

    def facts(self) -> Facts:
        """The answer."""
        if not (self.call_id or self.approval_id):
            raise BadFrame("approval.responded: call_id or approval_id: Field required", "missing_field")
        return [f.ApprovalAnswered(self.call_id, self.approved, self.approval_id, reason=self.reason or "")]


class OutputPartialFrame(CallFrame):
    """A preliminary result."""

    type: Literal["tool.output.partial"]
    output: Any = None

    def facts(self) -> Facts:
        """The result so far."""
        return [f.OutputPartial(self.call_id, self.output)]


class OutputAvailableFrame(CallFrame):
    """The result; without `output` it is null."""

    type: Literal["tool.output.available"]
    output: Any = None

    def facts(self) -> Facts:
        """The result."""
        return [f.OutputReady(self.call_id, self.output)]


class OutputErrorFrame(CallFrame):
    """The call failed."""

    type: Literal["tool.output.error"]
    error: Fault | str

    def facts(self) -> Facts:
        """The failure."""
        fault = _build_fault(self.error)
        authority = fault.authority or ""
        failed = f.OutputFailed(
            self.call_id, fault.message, fault.code or "", fault.retryable, authority, after_ms=fault.after_ms
        )
        return [failed]


class OutputDeniedFrame(CallFrame):
    """Somebody said no; the tool did not run."""

    type: Literal["tool.output.denied"]
    reason: str | None = None

    def facts(self) -> Facts:
        """The denial."""
        return [f.OutputDenied(self.call_id, self.reason or "")]


class RunFinishedFrame(NativeFrame):
    """The run ends."""

    type: Literal["run.finished"]
    outcome: Literal["success", "aborted", "error", "truncated"]
    reason: str | None = None

    def facts(self) -> Facts:
        """The end."""
        outcome: f.Outcome = "ok" if self.outcome == "success" else self.outcome
        return [f.RunEnded(outcome=outcome, reason=self.reason or "")]


Frames = Annotated[
    RunStartedFrame | StepStartedFrame | StepFinishedFrame | TextDeltaFrame | ReasoningDeltaFrame | InputStartedFrame
    | InputDeltaFrame | InputAvailableFrame | InputInvalidFrame | InputRepairedFrame | ApprovalRequestedFrame
    | ApprovalRespondedFrame | OutputPartialFrame | OutputAvailableFrame | OutputErrorFrame | OutputDeniedFrame
    | RunFinishedFrame,
    Field(discriminator="type"),
]  # fmt: skip


def encode(answer: ApprovalAnswer) -> dict[str, Any]:
    """Return the answer as the native frame that carries one."""
    reply = {
        "type": "approval.responded", "call_id": answer.call_id, "approval_id": answer.source_id,
        "approved": answer.approved,
    }  # fmt: skip
    if answer.reason:
        reply["reason"] = answer.reason
    if answer.approved and answer.edited_input is not None:
        reply["input"] = answer.edited_input
    return reply


_NUMBERED = re.compile(r'\{"n":([1-9]\d{0,17})[,}]')


def find_number(text: str) -> int | None:
    """Return the frame's `n`; at once where it stands first, as our client writes it."""
    first = _NUMBERED.match(text)
    if first:
        return int(first[1])
    if '"n"' not in text:
        return None
    try:
        number = strict.loads(text).get("n")
    except (BadFrame, AttributeError):
        return None
    return number if type(number) is int and 0 < number < 10**18 else None


def _build_step(step: int | str | None) -> dict[str, Any]:
    return {"name": step} if isinstance(step, str) else {"step": step}


def _build_fault(error: Fault | str) -> Fault:
    return Fault(message=error) if isinstance(error, str) else error


# The hot frame as our client writes it: members in this order and none besides, so that nothing can be said twice.
_DELTA = re.compile(
    r'\{(?:"n":([1-9]\d{0,17}),[ \t\r\n]*)?"type":"tool\.input\.delta","call_id":"([^"\\\x00-\x1f]+)","delta":"'
)
_decode = Decoder(Frames).decode


def decode(text: str, depth: int = MAX_DEPTH) -> Facts | SkippedFrame:
    """Return the frame's facts, Skipped for an unknown type; raises BadFrame. Reads hot frames without a model."""
    piece = find_piece(text)
    return _decode(text, depth) if piece is None else [f.InputDelta(*piece[0])]


def find_piece(text: str) -> tuple[f.InputPiece, int] | None:
    """Return what a hot frame says, and its number (0 for none); None for a frame that is not written so."""
    head = _DELTA.match(text)
    if head is None:
        return None
    try:
        delta, end = scanstring(text, head.end())
    except ValueError:
        return None
    number, call_id = head.groups()
    return ((call_id, delta), int(number) if number else 0) if text[end:] == "}" else None


ADAPTER = Adapter("native", "1", decode, encode, find_number=find_number, find_piece=find_piece, gated=True)
