"""The answers of the gate as models for the OpenAPI document: decisions, claims, results and the end of a run."""

from __future__ import annotations

from typing import Any, Literal

from dashboard.help.answers import Actor, Answer, ErrorBody, RunStatus, State, Time


class ToolName(Answer):
    """The tool that was judged."""

    name: str
    source: str


class PolicyReference(Answer):
    """The policy version that judged."""

    version: int
    sha256: str | None


class Decider(Actor):
    """What decided, and the ids of all that agreed."""

    ids: list[str]


class Reason(Answer):
    """Why: a code for programs, a text for the model, and what it can do instead."""

    code: str
    text: str
    suggest: str


class DecisionApproval(Answer):
    """Where the approval is now, and where to wait for it."""

    id: str
    state: str
    need: int
    have: int
    decide_by: Time | None
    poll: str


class Permit(Answer):
    """The right to run the call once."""

    id: str
    expires_at: Time


class Repair(Answer):
    """How the call was repaired before it was judged."""

    method: str
    tool: str


class SchemaError(Answer):
    """A place where the input does not fit the tool's schema."""

    pointer: str
    keyword: str
    message: str
    unexpected: list[str]
    missing: list[str]


class Decision(Answer):
    """The decision about a call. Treat everything but `allow` as a denial."""

    v: Literal[1]
    decision: Literal["allow", "deny", "ask"]
    decision_id: str
    run: str
    call_id: str
    args_sha256: str
    call_sha256: str
    tool: ToolName
    attempt: int
    policy: PolicyReference | None
    by: Decider
    reason: Reason
    approval: DecisionApproval | None
    permit: Permit | None
    would: list[Any]
    args: Any = None
    repair: Repair | None = None
    places: list[SchemaError] = []
    reply: Any = None


class Claim(Answer):
    """Exactly what may run."""

    permit: str
    run: str
    call_id: str
    attempt: int
    state: Literal["claimed"]
    tool: ToolName
    args: Any
    args_sha256: str
    call_sha256: str


class CallReference(Answer):
    """A call that a body spoke of."""

    call_id: str
    state: State | None


class AgentQuestion(Answer):
    """A question of the agent's own that people were asked."""

    id: str
    source_id: str
    call_id: str


class Receipt(Answer):
    """The frames of a body are stored."""

    run: str
    accepted: int
    skipped: int
    refused: int
    error: ErrorBody | None = None
    anomalies: int
    seq: int
    calls: list[CallReference]
    decisions: list[Decision] = []
    asked: list[AgentQuestion] = []


class RecordedResult(Answer):
    """The call as it is after its result."""

    run: str
    call_id: str
    state: State
    seq: int


class Heartbeat(Answer):
    """The run is alive; the next heartbeat is due within the lease."""

    run: str
    status: RunStatus
    lease_seconds: float


class RunEnd(Answer):
    """The run has ended."""

    run: str
    status: RunStatus
    seq: int
