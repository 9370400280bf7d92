"""Facts: one frozen class per thing that can happen to a run or a tool call; what adapters produce.

A fact says what was observed, never what it means: meaning is the transition table's (`transitions`)
and the reducer's. Every fact can be written to the log and read back unchanged (`dump`, `load`).
Facts of a call carry the wire's `call_id`; the board finds the card it speaks of.
`at` is the server's clock in seconds since 1970, set by the gate when the fact arrives.
One long file on purpose: it is the vocabulary, read as a list.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, ClassVar, Literal, TypeAlias, get_args

Outcome: TypeAlias = Literal["ok", "not-executed", "interrupt", "aborted", "error", "truncated"]
CloseReason: TypeAlias = Literal[
    "ok", "not-executed", "interrupt", "aborted", "error", "truncated", "expired", "superseded", "changed", "cancelled"
]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who or what answered: `kind` is one of the contract's `by.kind` words, `name` for people and rules."""

    kind: str
    name: str = ""


# ---------------------------------------------------------------- facts about one tool call


@dataclass(frozen=True, slots=True)
class InputStarted:
    """The agent began to write a call's input. `per_step`: ids may repeat in later steps (AI SDK)."""

    type: ClassVar[str] = "input-started"
    call_id: str
    tool: str
    at: float = 0.0
    title: str = ""
    source: str = ""
    kind: str = ""
    lane: str = ""
    parent_call: str = ""
    per_step: bool = False
    provider_executed: bool = False
    chunked: bool = False  # opened by an InputChunk: id-less chunks of the lane go on with it
    dynamic: bool = False  # the AI SDK knows the tool's schema at run time only


@dataclass(frozen=True, slots=True)
class InputDelta:
    """A piece of the input's text as it streams."""

    type: ClassVar[str] = "input-delta"
    call_id: str
    text: str
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class InputChunk:
    """Start, piece and continuation in one (AG-UI TOOL_CALL_CHUNK); never logged, the board takes it apart.

    Without `call_id` it goes on with the open chunked call; any other fact of the lane completes that call.
    """

    type: ClassVar[str] = "input-chunk"
    call_id: str = ""
    tool: str = ""
    text: str = ""
    lane: str = ""
    parent_call: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class InputReady:
    """The input is complete. Without `has_input` it is what streamed. `edited`: differs on purpose (repair)."""

    type: ClassVar[str] = "input-ready"
    call_id: str
    tool: str = ""
    input: Any = None
    has_input: bool = False
    at: float = 0.0
    attempt: int = 1
    title: str = ""
    source: str = ""
    kind: str = ""
    lane: str = ""
    parent_call: str = ""
    per_step: bool = False
    provider_executed: bool = False
    again: bool = False  # the same call once more, after its run was lost
    report: bool = False  # what the wire reports of a call that it told of before: never another call while it runs


@dataclass(frozen=True, slots=True)
class InputInvalid:
    """The input could not be used and the tool did not run; a terminal error."""

    type: ClassVar[str] = "input-invalid"
    call_id: str
    tool: str = ""
    input: Any = None
    message: str = ""
    code: str = "invalid_input"
    at: float = 0.0
    per_step: bool = False
    dynamic: bool = False  # of a call that did not start so: the tool does not exist (AI SDK)


@dataclass(frozen=True, slots=True)
class InputRepaired:
    """A broken tool name or input was replaced before anything ran; counts as input-ready."""

    type: ClassVar[str] = "input-repaired"
    call_id: str
    tool: str = ""
    input: Any = None
    original: Any = None
    method: str = ""
    kind: str = ""
    at: float = 0.0
    again: bool = False  # a plug-in's change, which may follow a repair


@dataclass(frozen=True, slots=True)
class PolicyDecided:
    """Policy judged the call; what it said, by which rule of which version, and why.

    `moment` holds what else the answer depended on (Question.moment), so that it can be found again.
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
    schema_sha256: str = ""  # of the tool's schema that was judged, as the agent named it
    known: bool = True  # the tool was known then
    changed: bool = False  # its definition was another one than before
    at: float = 0.0
    moment: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PermitChanged:
    """The single-use right to run a call that a rule allowed: issued, then used, void or expired.

    `state`: issued claimed void expired revoked superseded succeeded failed unknown.
    """

    type: ClassVar[str] = "permit-moved"
    call_id: str
    state: str
    id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """A person's answer is wanted. `id` is ours, `source_id` the wire's; `opener` says who waits for it.

    Without `call_id` the board finds the call by `tool` and `input` (batched interrupts name no ids).
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
    votable: bool = False  # an answer given here reaches who waits for it
    args_sha256: str = ""
    terms: dict[str, Any] = field(default_factory=dict)  # need, editable, grants, reason, severity: what to offer
    tool: str = ""
    kind: str = ""
    input: Any = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """The approval was answered. By `call_id`, or by the wire's `source_id` where the wire names no call."""

    type: ClassVar[str] = "approval-answered"
    call_id: str
    approved: bool
    source_id: str = ""
    id: str = ""
    reason: str = ""
    by: Actor = Actor("host")
    input: Any = None
    has_input: bool = False
    args_sha256: str = ""  # of the input that was approved, where it was edited
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class VoteCounted:
    """One of several people needed has answered; `have` votes so far say yes. An edit starts the count anew."""

    type: ClassVar[str] = "voted"
    call_id: str
    have: int
    id: str = ""
    by: Actor = Actor("human")
    edited: Any = None
    has_edited: bool = False
    args_sha256: str = ""  # of the edited input, which the next votes are about
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ApprovalInputChanged:
    """The agent changed the input of its own open question; `args_sha256` is what votes are about from here on."""

    type: ClassVar[str] = "approval-rebound"
    call_id: str
    args_sha256: str
    id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ApprovalChanged:
    """The approval went on after its answer (claimed, succeeded, failed, unknown, revoked, …)."""

    type: ClassVar[str] = "approval-moved"
    call_id: str
    state: str
    id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ApprovalEscalated:
    """Nobody answered for a while, so these people and groups are asked too, as the rule says."""

    type: ClassVar[str] = "escalated"
    call_id: str
    to: list[str]
    id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentPresenceChanged:
    """The agent of a call that waits for a person, or for its agent, went away or came back."""

    type: ClassVar[str] = "agent-moved"
    call_id: str
    away: bool = True
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class OutputPartial:
    """A preliminary output; the tool still runs."""

    type: ClassVar[str] = "output-partial"
    call_id: str
    output: Any = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class OutputReady:
    """The tool's result; None, 0, false and "" are results too. `message_id` is the wire's, for later marks."""

    type: ClassVar[str] = "output-ready"
    call_id: str
    output: Any = None
    message_id: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class OutputFailed:
    """The call failed; an empty message is still a failure. `after_ms`: when to try again, where somebody said."""

    type: ClassVar[str] = "output-failed"
    call_id: str
    message: str = ""
    code: str = ""
    retryable: bool | None = None
    authority: str = ""
    phase: str = ""
    at: float = 0.0
    after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OutputDenied:
    """The tool did not run because somebody or something said no."""

    type: ClassVar[str] = "output-denied"
    call_id: str
    reason: str = ""
    by: Actor = Actor("host")
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class OutcomeReported:
    """A later frame tells how the result `message_id` really ended (Pydantic AI over AG-UI)."""

    type: ClassVar[str] = "outcome-marked"
    call_id: str
    outcome: Literal["success", "failed", "retried", "denied", "interrupted"]
    message_id: str = ""
    code: str = ""  # of core.errors, where the frame tells the cause
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class SnapshotReceived:
    """A message snapshot shows a call's result; `error` is None where it shows none.

    `denied`: it shows a call that never ran, so whatever is still open was refused (Claude Code's PostToolBatch).
    """

    type: ClassVar[str] = "snapshot-seen"
    call_id: str
    text: Any = None
    error: str | None = None
    denied: bool = False
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class CallClosed:
    """The run around the call ended so (the board makes one for each open card), or the clock or a person did.

    Without `call_id` it is every open call of the run's own lane (a new prompt: what still ran was interrupted).
    """

    type: ClassVar[str] = "closed"
    call_id: str
    how: CloseReason
    reason: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ManualOutcomeRecorded:
    """Nobody had heard how the call ended, and a person has looked; `note` is what they found."""

    type: ClassVar[str] = "settled-by-hand"
    call_id: str
    outcome: Literal["succeeded", "failed"]
    note: str = ""
    by: Actor = Actor("human")
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class CallRemoved:
    """The step was reset: the card is gone."""

    type: ClassVar[str] = "removed"
    call_id: str
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class AnomalyRecorded:
    """Something about the call was not right and is worth keeping; changes nothing else."""

    type: ClassVar[str] = "odd"
    call_id: str
    code: str
    at: float = 0.0


# ---------------------------------------------------------------- facts about the run


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run (or a turn of it) began. `scope` separates runs of one thread; `tools` are those it offers."""

    type: ClassVar[str] = "run-started"
    call_id: str = ""
    scope: str = ""
    agent: str = ""
    title: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list)
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
    """A step of the run began; `step` where the wire numbers them, else the next one."""

    type: ClassVar[str] = "step-started"
    call_id: str = ""
    step: int | None = None
    name: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class StepFinished:
    """The step ended; tool calls are untouched."""

    type: ClassVar[str] = "step-finished"
    call_id: str = ""
    step: int | None = None
    name: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class StepReset:
    """The step will be tried again: its cards go."""

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
    """An error that does not end the run by itself; it explains the end if none better comes."""

    type: ClassVar[str] = "error-seen"
    call_id: str = ""
    message: str = ""
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run, or the sub-agent `lane`, ended; `scope` where the wire names it, else the current one.

    `close_open_input`: a call whose streamed input is whole JSON counts as complete first (AG-UI, rule 18).
    `if_open`: the outcome instead, where calls were still open. `again`: nothing where the run has ended already.
    `away`: the agent was lost and may come back; what people are asked, or said yes to, keeps its time limit.
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
    at: float = 0.0


CallFact: TypeAlias = (
    InputStarted | InputDelta | InputReady | InputInvalid | InputRepaired | PolicyDecided | PermitChanged
    | ApprovalRequested | ApprovalAnswered | VoteCounted | ApprovalInputChanged | ApprovalChanged | ApprovalEscalated
    | AgentPresenceChanged | OutputPartial | OutputReady | OutputFailed | OutputDenied | OutcomeReported
    | SnapshotReceived | CallClosed | ManualOutcomeRecorded | CallRemoved | AnomalyRecorded
)  # fmt: skip
RunFact: TypeAlias = (
    RunStarted | MessageStarted | LaneStarted | StepStarted | StepFinished | StepReset | TextDelta
    | ErrorReported | RunEnded
)  # fmt: skip
AnyFact: TypeAlias = CallFact | RunFact
InputPiece: TypeAlias = tuple[str, str]  # an InputDelta not made yet: its call id and text

CALL_FACTS: tuple[Any, ...] = get_args(CallFact)
RUN_FACTS: tuple[Any, ...] = get_args(RunFact)
BY_TYPE: dict[str, Any] = {cls.type: cls for cls in CALL_FACTS + RUN_FACTS}

_encoded = json.JSONEncoder(separators=(",", ":")).encode


def _get_default(field: Any) -> Any:
    return field.default_factory() if callable(field.default_factory) else field.default


_DEFAULTS: dict[type, tuple[tuple[str, Any], ...]] = {
    cls: tuple((field.name, _get_default(field)) for field in fields(cls) if field.name != "at")
    for cls in BY_TYPE.values()
}


def dump(fact: AnyFact) -> str:
    """Return the fact as one line of ASCII JSON, without its time and without what is at its default.

    ASCII, so that NUL and lone surrogates in agents' text survive any database.
    """
    if type(fact) is InputDelta:  # nine of ten facts on a busy day
        return f'{{"type":"input-delta","call_id":{quoted(fact.call_id)},"text":{quoted(fact.text)}}}'
    said: dict[str, Any] = {"type": fact.type}
    for name, default in _DEFAULTS[type(fact)]:
        value = getattr(fact, name)
        if value is not default and not (value == default and type(value) is type(default)):
            said[name] = {"kind": value.kind, "name": value.name} if type(value) is Actor else value
    return _encoded(said)


def load(text: str, at: float = 0.0) -> AnyFact:
    """Return the fact that `dump` wrote; raises ValueError for a type this version does not know."""
    said = json.loads(text)
    cls = BY_TYPE.get(said.pop("type", ""))
    if cls is None:
        raise ValueError("unknown fact type")
    if "by" in said:
        said["by"] = Actor(**said["by"])
    fact: AnyFact = cls(**said, at=at)
    return fact
