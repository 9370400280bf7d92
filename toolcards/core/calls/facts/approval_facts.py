"""Facts about the decision on a call: policy, permits, approvals and votes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of a decision: `kind` is a `by.kind` of the contract, `name` is set for people and rules."""

    kind: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class PolicyDecided:
    """Policy decided about the call: effect, reason, rule and policy version.

    `moment` holds the other inputs of the decision, so that it can be reproduced.
    """

    type: ClassVar[str] = "decided"
    call_id: str
    effect: str
    code: str = ""
    reason: str = ""
    rule: str = ""
    version: int = 0
    by: Actor = Actor("default")
    suggest: str = ""
    would: list[dict[str, Any]] = field(default_factory=list)
    args_sha256: str = ""
    schema_sha256: str = ""  # digest of the tool's schema at the decision, as the agent named it
    known: bool = True  # the tool was known at the decision
    changed: bool = False  # the tool's definition differed from the previous one
    at: float = 0.0
    moment: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PermitChanged:
    """The single-use permit of an allowed call changed its state.

    `state`: issued claimed void expired revoked superseded succeeded failed unknown.
    """

    type: ClassVar[str] = "permit-moved"
    call_id: str
    state: str
    id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """An approval was requested. `id` is ours, `source_id` the wire's; `opener` is who waits for the answer.

    Without `call_id` the router finds the call by `tool` and `input` (batched interrupts name no ids).
    """

    type: ClassVar[str] = "approval-asked"
    call_id: str
    source_id: str = ""
    id: str = ""
    reason: str = ""
    automatic: bool = False
    opener: Literal["agent", "gate"] = "agent"
    expires_at: float = 0.0
    reply_to: Any = None
    votable: bool = False  # a vote in the dashboard reaches the one who waits
    args_sha256: str = ""
    terms: dict[str, Any] = field(default_factory=dict)  # need, editable, grants, reason, severity
    tool: str = ""
    kind: str = ""
    input: Any = None
    parent_call: str = ""  # the call that a further question is about, if it opens a card of its own
    twin: str = ""  # the open approval of the same call, whose answer it waits for
    former_ids: list[str] = field(default_factory=list)  # the wire's ids of the requests that it replaces
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """The approval was answered; found by `call_id`, or by the wire's `source_id`."""

    type: ClassVar[str] = "approval-answered"
    call_id: str
    approved: bool
    source_id: str = ""
    id: str = ""
    reason: str = ""
    by: Actor = Actor("host")
    input: Any = None
    has_input: bool = False
    args_sha256: str = ""  # digest of the approved input, if it was edited
    lasting_rule: str = ""  # the rule that the answer wrote, for calls like this one
    policy_version: int = 0  # the version that has it
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class VoteCounted:
    """One of several required people voted; `have` votes approve so far. An edit restarts the count."""

    type: ClassVar[str] = "voted"
    call_id: str
    have: int
    id: str = ""
    by: Actor = Actor("human")
    edited: Any = None
    has_edited: bool = False
    args_sha256: str = ""  # digest of the edited input, which the next votes are about
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ApprovalInputChanged:
    """The agent changed the input of its own open approval; later votes are about `args_sha256`."""

    type: ClassVar[str] = "approval-rebound"
    call_id: str
    args_sha256: str
    id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ApprovalChanged:
    """The approval changed its state after the answer (claimed, succeeded, failed, unknown, revoked, …)."""

    type: ClassVar[str] = "approval-moved"
    call_id: str
    state: str
    id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ApprovalFetched:
    """The agent read that the call was approved. From then on the approval cannot be undone."""

    type: ClassVar[str] = "approval-fetched"
    call_id: str
    id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ApprovalEscalated:
    """The rule's escalation time passed without an answer: these people and groups may vote, too."""

    type: ClassVar[str] = "escalated"
    call_id: str
    to: list[str]
    id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class CallReviewed:
    """The reviewer that is asked before people answered: allow, ask or deny. "" is a failure, with its reason.

    `note`: why the answer did not count.
    """

    type: ClassVar[str] = "reviewed"
    call_id: str
    by: Actor
    answer: str = ""
    reason: str = ""
    note: str = ""
    id: str = ""
    args_sha256: str = ""  # digest of the input that the answer is about
    prompt_sha256: str = ""  # digest of the model's prompt
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentPresenceChanged:
    """The agent of a call with an open or unused approval disconnected or came back."""

    type: ClassVar[str] = "agent-moved"
    call_id: str
    away: bool = True
    at: float = 0.0


ApprovalFact: TypeAlias = (
    PolicyDecided | PermitChanged | ApprovalRequested | ApprovalAnswered | VoteCounted | ApprovalInputChanged
    | ApprovalChanged | ApprovalFetched | ApprovalEscalated | CallReviewed | AgentPresenceChanged
)  # fmt: skip
