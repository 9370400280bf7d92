"""Facts about the outcome of a call: outputs, errors, denials, and ends without a result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from toolcards.core.calls.facts.approval_facts import Actor

CloseReason: TypeAlias = Literal[
    "ok",
    "not-executed",
    "unreported",
    "deferred",
    "interrupt",
    "aborted",
    "error",
    "truncated",
    "expired",
    "superseded",
    "changed",
    "cancelled",
]


@dataclass(frozen=True, slots=True)
class OutputPartial:
    """A preliminary output; the tool is still running. `more`: a piece of text that follows the pieces before it."""

    type: ClassVar[str] = "output-partial"
    call_id: str
    output: Any = None
    at: float = 0.0
    more: bool = False


@dataclass(frozen=True, slots=True)
class OutputReady:
    """The tool's result, which may be None, 0, false or "". `message_id` is the wire's.

    `unchanged`: the wire reports only what changed, and no output, so the partial one is the result.
    `reopens`: the agent's question ended too early; this tells how it was answered.
    """

    type: ClassVar[str] = "output-ready"
    call_id: str
    output: Any = None
    message_id: str = ""
    at: float = 0.0
    unchanged: bool = False
    reopens: bool = False


@dataclass(frozen=True, slots=True)
class OutputFailed:
    """The call failed, with or without a message.

    `after_ms`: the requested delay before a retry; `output`: what the tool returned next to the message.
    """

    type: ClassVar[str] = "output-failed"
    call_id: str
    message: str = ""
    code: str = ""
    retryable: bool | None = None
    authority: str = ""
    phase: str = ""
    at: float = 0.0
    after_ms: int | None = None
    output: Any = None
    reopens: bool = False


@dataclass(frozen=True, slots=True)
class OutputDenied:
    """The tool did not run because the call was denied."""

    type: ClassVar[str] = "output-denied"
    call_id: str
    reason: str = ""
    by: Actor = Actor("host")
    at: float = 0.0
    reopens: bool = False


@dataclass(frozen=True, slots=True)
class OutcomeReported:
    """A later frame reports the outcome of the result `message_id` (Pydantic AI over AG-UI)."""

    type: ClassVar[str] = "outcome-marked"
    call_id: str
    outcome: Literal["success", "failed", "retried", "denied", "interrupted"]
    message_id: str = ""
    code: str = ""  # an error code, if the frame reports the cause
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class SnapshotReceived:
    """A message snapshot shows a call's result; a success has no `error`.

    `denied`: it shows a call that never ran, so an open call was denied (Claude Code's PostToolBatch). `output`: what
    a call that failed returned next to its message.
    """

    type: ClassVar[str] = "snapshot-seen"
    call_id: str
    text: Any = None
    error: str | None = None
    denied: bool = False
    at: float = 0.0
    output: Any = None


@dataclass(frozen=True, slots=True)
class CallClosed:
    """The call ended with its run (one fact for each open card), by a time limit, or by a person.

    Without `call_id` it closes every open call of the run's own lane (a new prompt interrupts running calls).
    """

    type: ClassVar[str] = "closed"
    call_id: str
    how: CloseReason
    reason: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ManualOutcomeRecorded:
    """A person recorded the outcome of a call without a result; `note` is their comment."""

    type: ClassVar[str] = "settled-by-hand"
    call_id: str
    outcome: Literal["succeeded", "failed"]
    note: str = ""
    by: Actor = Actor("human")
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class RetryChanged:
    """A person let a call that its host refused try again, or dismissed it; or the retry was announced or used."""

    type: ClassVar[str] = "retry-moved"
    call_id: str
    state: Literal["granted", "dismissed", "announced", "used"]
    by: Actor = Actor("human")
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class CallRemoved:
    """The step was reset: the card is removed."""

    type: ClassVar[str] = "removed"
    call_id: str
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class AnomalyRecorded:
    """An anomaly of the call, kept on its card; changes nothing else."""

    type: ClassVar[str] = "odd"
    call_id: str
    code: str
    at: float = 0.0


WITHDRAWN_REASON = "The agent withdrew the question."  # of a closed call; pages have words of their own for it

OutcomeFact: TypeAlias = (
    OutputPartial | OutputReady | OutputFailed | OutputDenied | OutcomeReported | SnapshotReceived | CallClosed
    | ManualOutcomeRecorded | RetryChanged | CallRemoved | AnomalyRecorded
)  # fmt: skip
