"""The answers of the gate as models for the OpenAPI document: approvals, decisions, claims, results, ends of runs."""

from __future__ import annotations

from typing import Any, Literal

from dashboard.help.answers import Actor, Answer, Call, ErrorBody, RunStatus, State, Time


class ApprovalRisk(Answer):
    """How risky a waiting call is, with the reasons."""

    level: Literal["low", "medium", "high"]
    reasons: list[str]


class ApprovalQuestion(Answer):
    """A question that the call asks a person."""

    text: str
    header: str
    options: list[str]
    multiple: bool
    free_text: bool
    required: bool


class Approval(Answer):
    """An approval with its call."""

    id: str
    run: str
    call_id: str
    state: str
    opener: Literal["gate", "agent"]
    requested_at: Time | None
    expires_at: Time | None
    decided_at: Time | None
    by: Actor | None
    reason: str | None
    args_sha256: str
    attempt: int
    source: str
    risk: ApprovalRisk | None
    questions: list[ApprovalQuestion]
    summary: str
    call: Call


class ApprovalPage(Answer):
    """A page of approvals."""

    approvals: list[Approval]
    next: str | None


class ToolName(Answer):
    """The tool that policy evaluated."""

    name: str
    source: str


class PolicyReference(Answer):
    """The policy version that decided."""

    version: int
    sha256: str | None


class Decider(Actor):
    """What decided, and the ids of all rules that agreed."""

    ids: list[str]


class Reason(Answer):
    """The reason: a code for programs, a text for the model, and a suggestion."""

    code: str
    text: str
    suggest: str


class DecisionApproval(Answer):
    """The state of the approval, and where to poll."""

    id: str
    state: str
    need: int
    have: int
    decide_by: Time | None
    poll: str
    twin: str | None = None


class Permit(Answer):
    """The right to run the call once."""

    id: str
    expires_at: Time


class Repair(Answer):
    """How the call was repaired before policy evaluated it."""

    method: str
    tool: str


class SchemaError(Answer):
    """A place where the input does not match the tool's schema."""

    pointer: str
    keyword: str
    message: str
    unexpected: list[str]
    missing: list[str]


class Decision(Answer):
    """The decision on a call. Treat everything but `allow` as a denial."""

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
    """The exact call that may run."""

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
    """A call in the frames of a body."""

    call_id: str
    state: State | None


class AgentQuestion(Answer):
    """An approval that the agent itself requested."""

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
    """The call after its result."""

    run: str
    call_id: str
    state: State
    seq: int


class Heartbeat(Answer):
    """The run is alive; send the next heartbeat within the lease."""

    run: str
    status: RunStatus
    lease_seconds: float


class RunEnd(Answer):
    """The run has ended."""

    run: str
    status: RunStatus
    seq: int
