"""The frames of the native protocol, one class for each `type`, in the order of the contract.

`at` is the sender's clock and is ignored; `n` is the sender's sequence number, by which the transport applies a
repeated frame once.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field
from typing_extensions import TypedDict

from toolcards.adapters.base import BadFrame, Facts
from toolcards.adapters.frames import ProtocolFrame
from toolcards.client.common.tool_results import format_result
from toolcards.core.calls import facts as f
from toolcards.core.policy.places.project import check_folder


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


def _read_failure(error: Any) -> Any:
    """Return the members of a fault, of a failure in any shape: its text may be in other members."""
    if not isinstance(error, dict):
        return {"message": format_result(error)}
    code, more = error.get("code"), {name: part for name, part in error.items() if name not in Fault.model_fields}
    message = format_result(error.get("message")) or format_result(more)
    return error | {"message": message, "code": str(code) if type(code) is int else code}


Failure = Annotated[Fault, BeforeValidator(_read_failure)]


class RunStartedFrame(NativeFrame):
    """The run begins."""

    type: Literal["run.started"]
    agent: str | None = None
    title: str | None = None
    tools: list[OfferedTool] | None = None
    root: str | None = None

    def to_facts(self) -> Facts:
        tools: list[Any] = list(self.tools or ())
        if any(not tool.get("name") for tool in tools):
            raise BadFrame("run.started: tools: every tool requires a name", "missing_field")
        try:
            check_folder(self.root or "")
        except ValueError as error:
            raise BadFrame(f"run.started: root: {error}", "bad_field") from None
        return [f.RunStarted(agent=self.agent or "", title=self.title or "", tools=tools, root=self.root or "")]


class StepStartedFrame(NativeFrame):
    """A step begins; numbered or named."""

    type: Literal["step.started"]
    step: int | str | None = None

    def to_facts(self) -> Facts:
        return [f.StepStarted(**_build_step(self.step))]


class StepFinishedFrame(NativeFrame):
    """A step ends."""

    type: Literal["step.finished"]
    step: int | str | None = None

    def to_facts(self) -> Facts:
        return [f.StepFinished(**_build_step(self.step))]


class TextDeltaFrame(NativeFrame):
    """A piece of the agent's text."""

    texts: ClassVar[int] = 2
    type: Literal["text.delta"]
    text: str

    def to_facts(self) -> Facts:
        return [f.TextDelta(text=self.text)]


class ReasoningDeltaFrame(NativeFrame):
    """A piece of the agent's reasoning."""

    texts: ClassVar[int] = 2
    type: Literal["reasoning.delta"]
    text: str

    def to_facts(self) -> Facts:
        return [f.TextDelta(text=self.text, channel="reasoning")]


class InputStartedFrame(CallFrame):
    """The agent begins to write a call."""

    type: Literal["tool.input.started"]
    tool: str
    title: str | None = None
    kind: str | None = None
    source: str | None = None

    def to_facts(self) -> Facts:
        names: dict[str, Any] = {"title": self.title or "", "kind": self.kind or "", "source": self.source or ""}
        return [f.InputStarted(self.call_id, self.tool, renews=True, **names)]


class InputDeltaFrame(CallFrame):
    """A piece of a call's input; nine of ten frames."""

    texts: ClassVar[int] = 3
    type: Literal["tool.input.delta"]
    delta: str

    def to_facts(self) -> Facts:
        return [f.InputDelta(self.call_id, self.delta)]


class InputAvailableFrame(CallFrame):
    """A call's input is complete."""

    type: Literal["tool.input.available"]
    tool: str
    input: Any
    title: str | None = None
    kind: str | None = None
    source: str | None = None

    def to_facts(self) -> Facts:
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
    error: Failure

    def to_facts(self) -> Facts:
        fault = self.error
        return [f.InputInvalid(self.call_id, self.tool, self.input, fault.message, fault.code or "invalid_input")]


class InputRepairedFrame(CallFrame):
    """An invalid name or input was repaired before the call ran."""

    type: Literal["tool.input.repaired"]
    tool: str
    input: Any
    original: Any = None
    method: str = ""

    def to_facts(self) -> Facts:
        return [f.InputRepaired(self.call_id, self.tool, self.input, self.original, self.method)]


class ApprovalRequestedFrame(CallFrame):
    """The agent itself requests an approval."""

    type: Literal["approval.requested"]
    approval_id: str
    reason: str | None = None

    def to_facts(self) -> Facts:
        return [f.ApprovalRequested(self.call_id, self.approval_id, reason=self.reason or "")]


class ApprovalRespondedFrame(NativeFrame):
    """An approval of the agent itself was answered; never one of the gate."""

    type: Literal["approval.responded"]
    call_id: str = ""
    approval_id: str = ""
    approved: bool
    reason: str | None = None

    def to_facts(self) -> Facts:
        if not (self.call_id or self.approval_id):
            raise BadFrame("approval.responded: call_id or approval_id: Field required", "missing_field")
        return [f.ApprovalAnswered(self.call_id, self.approved, self.approval_id, reason=self.reason or "")]


class OutputPartialFrame(CallFrame):
    """A preliminary result."""

    type: Literal["tool.output.partial"]
    output: Any = None

    def to_facts(self) -> Facts:
        return [f.OutputPartial(self.call_id, self.output)]


class OutputAvailableFrame(CallFrame):
    """The result; without `output` it is null."""

    type: Literal["tool.output.available"]
    output: Any = None

    def to_facts(self) -> Facts:
        return [f.OutputReady(self.call_id, self.output)]


class OutputDeferredFrame(CallFrame):
    """The tool left the result to the app, which may bring it after the run's end."""

    type: Literal["tool.output.deferred"]

    def to_facts(self) -> Facts:
        return [f.CallClosed(self.call_id, "deferred")]


class OutputErrorFrame(CallFrame):
    """The call failed."""

    type: Literal["tool.output.error"]
    error: Failure

    def to_facts(self) -> Facts:
        fault, authority = self.error, self.error.authority or ""
        failure_fact = f.OutputFailed(
            self.call_id, fault.message, fault.code or "", fault.retryable, authority, after_ms=fault.after_ms
        )
        return [failure_fact]


class OutputDeniedFrame(CallFrame):
    """The call was denied; the tool did not run."""

    type: Literal["tool.output.denied"]
    reason: str | None = None

    def to_facts(self) -> Facts:
        return [f.OutputDenied(self.call_id, self.reason or "")]


class RunFinishedFrame(NativeFrame):
    """The run ends."""

    type: Literal["run.finished"]
    outcome: Literal["success", "aborted", "error", "truncated"]
    reason: str | None = None

    def to_facts(self) -> Facts:
        outcome: f.Outcome = "ok" if self.outcome == "success" else self.outcome
        return [f.RunEnded(outcome=outcome, reason=self.reason or "")]


def _build_step(step: int | str | None) -> dict[str, Any]:
    return {"name": step} if isinstance(step, str) else {"step": step}


Frames = Annotated[
    RunStartedFrame | StepStartedFrame | StepFinishedFrame | TextDeltaFrame | ReasoningDeltaFrame | InputStartedFrame
    | InputDeltaFrame | InputAvailableFrame | InputInvalidFrame | InputRepairedFrame | ApprovalRequestedFrame
    | ApprovalRespondedFrame | OutputPartialFrame | OutputAvailableFrame | OutputDeferredFrame | OutputErrorFrame
    | OutputDeniedFrame | RunFinishedFrame,
    Field(discriminator="type"),
]  # fmt: skip
