"""Facts about a run: its scopes, steps, sub-agents, text and end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

Outcome: TypeAlias = Literal["ok", "not-executed", "unreported", "interrupt", "aborted", "error", "truncated"]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run (or a turn of it) began. `scope` separates runs of one thread; `tools` are the offered tools.

    `program` is the agent program of the first start, if its protocol does not tell it. `root` is the absolute folder
    of the run's project; the first one of a run counts.
    """

    type: ClassVar[str] = "run-started"
    call_id: str = ""
    scope: str = ""
    agent: str = ""
    title: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list)
    program: str = ""
    root: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class MessageStarted:
    """An assistant message began (AI SDK `start`); the same id again is a continuation or a replay."""

    type: ClassVar[str] = "message-started"
    call_id: str = ""
    message_id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class LaneStarted:
    """A sub-agent began; its calls carry `lane`."""

    type: ClassVar[str] = "lane-started"
    call_id: str = ""
    lane: str = ""
    name: str = ""
    parent_lane: str = ""
    parent_call: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step of the run began; `step` if the wire numbers steps, else the next one."""

    type: ClassVar[str] = "step-started"
    call_id: str = ""
    step: int | None = None
    name: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class StepFinished:
    """The step ended; its tool calls do not change."""

    type: ClassVar[str] = "step-finished"
    call_id: str = ""
    step: int | None = None
    name: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class StepReset:
    """The step will be retried: its cards are removed."""

    type: ClassVar[str] = "step-reset"
    call_id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The agent wrote text; `channel` is text or reasoning."""

    type: ClassVar[str] = "text-delta"
    call_id: str = ""
    text: str = ""
    channel: Literal["text", "reasoning"] = "text"
    lane: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ErrorReported:
    """An error that does not end the run; the reason of the run's end if there is no better one."""

    type: ClassVar[str] = "error-seen"
    call_id: str = ""
    message: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run, or the sub-agent `lane`, ended; `scope` defaults to the current one.

    `close_open_input`: a call whose streamed input is valid JSON is completed first (AG-UI, rule 18).
    `if_open`: the outcome if calls were still open. `again`: no effect if the run has already ended.
    `away`: the agent was lost and may come back; open and unused approvals keep their time limits.
    `interrupted_output`: the text that an aborted run reports as the result of calls that it stopped (Pydantic AI).
    `or_current`: if the scope is not open, the current one ends (TanStack names each turn of a run differently).
    """

    type: ClassVar[str] = "run-ended"
    call_id: str = ""
    outcome: Outcome = "ok"
    reason: str = ""
    scope: str = ""
    lane: str = ""
    close_open_input: bool = False
    if_open: Outcome | Literal[""] = ""
    again: bool = False
    away: bool = False
    or_current: bool = False
    interrupted_output: str = ""
    at: float = 0.0


RunFact: TypeAlias = (
    RunStarted | MessageStarted | LaneStarted | StepStarted | StepFinished | StepReset | TextDelta | ErrorReported
    | RunEnded
)  # fmt: skip
