"""The answers of the API about runs, calls, approvals and health, as models for the OpenAPI document.

Tests compare the models with real answers. `gate_answers.py` has the answers of the gate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from toolcards.client.common.tool_kinds import KINDS
from toolcards.core.calls.card import ToolCallState

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
if TYPE_CHECKING:
    State = str
    Kind = str
else:
    State = Literal[tuple(state.value for state in ToolCallState)]
    Kind = Literal[KINDS]
RunStatus = Literal["running", "waiting", "finished", "error", "aborted", "truncated"]


class Answer(BaseModel):
    """The base of answers: all fields are present."""

    model_config = ConfigDict(extra="forbid")


class ErrorBody(Answer):
    """A code for programs, a message for people, and details of some codes."""

    code: str
    message: str
    detail: dict[str, Any] | None = None


class Error(Answer):
    """The answer to every refused request."""

    error: ErrorBody


class Actor(Answer):
    """A rule, a person or a time limit: who decided."""

    kind: str
    name: str


class Tool(Answer):
    """A tool as the agent names it, with its kind."""

    name: str
    kind: Kind
    source: str
    title: str


class CallError(Answer):
    """How a call failed."""

    message: str
    code: str | None
    retryable: bool | None
    authority: str | None
    phase: str | None
    after_ms: int | None


class Escalation(Answer):
    """Who was added as an approver, and when."""

    to: str
    at: Time | None


class CallApproval(Answer):
    """The approval of a call."""

    id: str | None
    state: str
    requested_at: Time | None
    decided_at: Time | None
    by: Actor | None
    reason: str | None
    expires_at: Time | None
    source_id: str | None
    automatic: bool
    request_reason: str | None
    opener: str
    votable: bool
    args_sha256: str | None
    view_sha256: str | None
    need: int
    have: int
    terms: dict[str, Any]
    edited: Any
    edited_by: str | None
    escalated: list[Escalation]
    agent_away: bool
    twin: str | None
    lasting_rule: str | None
    policy_version: int | None
    review: dict[str, str] | None


class Verdict(Answer):
    """The decision of policy on a call."""

    effect: Literal["allow", "ask", "deny"]
    reason: str
    rule: str | None
    policy_version: int
    would: list[Any]
    code: str | None
    by: Actor | None


class Anomaly(Answer):
    """A contradiction in the agent's frames."""

    code: str
    at: Time | None


class Timings(Answer):
    """When each phase of a call began."""

    started: Time | None
    available: Time | None
    requested: Time | None
    decided: Time | None
    finished: Time | None


class Durations(Answer):
    """How long each phase took, in milliseconds."""

    writing: int | None
    waiting: int | None
    running: int | None


class Denial(Answer):
    """Why a call did not run."""

    reason: str | None
    by: Actor | None


class Retry(Answer):
    """The answer of a person to a refusal by the agent's own reviewer."""

    state: Literal["granted", "announced", "dismissed", "used"]
    by: Actor | None


class ManualOutcome(Answer):
    """The outcome that a person recorded for a call without a result."""

    outcome: Literal["succeeded", "failed"]
    by: Actor | None
    note: str | None
    at: Time | None


class Call(Answer):
    """A tool call in its current state. In event streams `truncated` names omitted bodies."""

    id: str
    run: str
    call_id: str
    agent_path: list[str]
    step: int
    tool: Tool
    state: State
    cause: str | None
    soft: bool
    preliminary: bool
    awaiting_client: bool
    input: Any
    input_text: str | None
    original_input: Any
    output: Any
    error: CallError | None
    approval: CallApproval | None
    decision: Verdict | None
    anomalies: list[Anomaly]
    timings: Timings
    duration_ms: Durations
    rev: int
    seq: int
    occurrence: int
    attempt: int
    scope: str | None
    parent_call: str | None
    repair: str | None
    original_tool: str | None
    detail: Any
    denied: Denial | None
    by_hand: ManualOutcome | None
    retry: Retry | None
    agent_note: str | None
    truncated: list[str] = []


class SkippedFrames(Answer):
    """Frames of kinds that the protocol's adapter does not know."""

    frames: int
    kinds: dict[str, int]
    other: int


class Run(Answer):
    """A run in its current state."""

    run: str
    agent: str
    protocol: str
    status: RunStatus
    started_at: Time
    ended_at: Time | None
    calls: int
    counts: dict[State, int]
    skipped: SkippedFrames
    url: str
    title: str
    source: str
    mode: Literal["gate", "observe"]
    reason: str | None
    seq: int


class RunPage(Answer):
    """A page of runs, newest first."""

    runs: list[Run]
    next: str | None


class CallPage(Answer):
    """A page of calls, in order of appearance."""

    calls: list[Call]
    next: str | None


class Health(Answer):
    """The process answers."""

    status: str
    version: str = ""


class ReadinessWarning(Answer):
    """What people should look at soon."""

    warning: Literal["worker_restarted", "disk_filling"]
    message: str
    since: str = ""


class Readiness(Answer):
    """Every part works."""

    status: Literal["ready"]
    checks: dict[str, bool]
    warnings: list[ReadinessWarning]
