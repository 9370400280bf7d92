"""The card: the frozen state of a tool call that every view shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from toolcards.client.common.tool_kinds import KINDS as KINDS
from toolcards.core.calls.facts import Actor
from toolcards.core.text.text_rope import EMPTY, Rope


class ToolCallState(StrEnum):
    """The seven states, named as the wire (AI SDK 7 UI parts) names them."""

    INPUT_STREAMING = "input-streaming"
    INPUT_AVAILABLE = "input-available"
    APPROVAL_REQUESTED = "approval-requested"
    APPROVAL_RESPONDED = "approval-responded"
    OUTPUT_AVAILABLE = "output-available"
    OUTPUT_ERROR = "output-error"
    OUTPUT_DENIED = "output-denied"


TERMINAL = frozenset({ToolCallState.OUTPUT_AVAILABLE, ToolCallState.OUTPUT_ERROR, ToolCallState.OUTPUT_DENIED})
UNKNOWN_OUTCOME_CAUSES = frozenset({"truncated", "run-error"})  # causes of an end without a result
UNKNOWN_TOOL = "unknown tool"
BY_SOURCE, EDITED = "by the source", "edited"  # values of `Card.repair` without a repair by Toolcards


@dataclass(frozen=True)
class CardTool:
    """The called tool: `source` is its server or package, `kind` one of the ten `KINDS`."""

    name: str = UNKNOWN_TOOL
    kind: str = "other"
    source: str = ""
    title: str = ""


@dataclass(frozen=True)
class CardError:
    """The error of a call; `retryable` None means not stated, the message may be empty.

    `after_ms`: the requested delay before a retry (`Retry-After`), one minute or less.
    """

    message: str = ""
    code: str = ""
    retryable: bool | None = None
    authority: str = ""
    phase: str = ""
    after_ms: int | None = None


@dataclass(frozen=True)
class CardApproval:
    """An approval on a card. `id` is ours, `source_id` the wire's; times are epoch seconds."""

    id: str = ""
    source_id: str = ""
    state: str = "pending"
    opener: str = "agent"
    automatic: bool = False
    request_reason: str = ""
    requested_at: float = 0.0
    expires_at: float = 0.0
    decided_at: float = 0.0
    by: Actor | None = None
    reason: str = ""
    votable: bool = False
    args_sha256: str = ""
    terms: dict[str, Any] = field(default_factory=dict)
    have: int = 0  # of the `need` votes in terms
    edited: Any = None  # the proposed input while more votes are required
    has_edited: bool = False
    edited_by: str = ""
    escalated: tuple[tuple[str, float], ...] = ()  # who was added by escalation, and when
    reply_to: Any = None
    away: bool = False  # the agent is disconnected; the approval is kept for it
    inferred: bool = False  # no answer was reported: the result or the denial tells it
    outlasts_run: bool = False  # the agent's run ended to wait for the answer
    fetched: bool = False  # the agent read that it was approved; it may claim its permit later
    lasting_rule: str = ""  # the rule that the answer wrote, for calls like this one
    policy_version: int = 0  # the version that has it
    review: dict[str, Any] | None = None  # the answer of the reviewer: by, answer, reason, note, prompt_sha256
    former_ids: tuple[str, ...] = ()  # the wire's ids of the requests that this one replaced
    twin: str = ""  # the approval of the same call whose answer it waits for, so that people see one question


@dataclass(frozen=True)
class CardDecision:
    """The policy decision on a card."""

    effect: str
    code: str = ""
    reason: str = ""
    rule: str = ""
    version: int = 0
    by: Actor = Actor("default")
    suggest: str = ""
    would: tuple[dict[str, Any], ...] = ()
    args_sha256: str = ""
    schema_sha256: str = ""
    known: bool = True
    changed: bool = False
    moment: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CardPermit:
    """The single-use permit of an allowed call; `state` as in `facts.PermitChanged`."""

    id: str = ""
    state: str = "issued"


@dataclass(frozen=True)
class CardManualOutcome:
    """The outcome that a person recorded for a call without a result: succeeded or failed."""

    outcome: str = ""
    by: Actor | None = None
    note: str = ""
    at: float = 0.0


@dataclass(frozen=True)
class Milestones:
    """The times of the card's milestones in epoch seconds; 0 means not reached."""

    started: float = 0.0
    available: float = 0.0
    requested: float = 0.0
    decided: float = 0.0
    finished: float = 0.0

    def replace(self, **changes: float) -> Milestones:
        """Return these times with some changed."""
        return Milestones(**(self.__dict__ | changes))


# frozen but without __slots__: `replace` copies one __dict__, ten times as fast as dataclasses.replace on 40 fields
@dataclass(frozen=True)
class Card:
    """A tool call: what its facts add up to.

    `ordinal` numbers the calls of the run from 1 in order of appearance and is the card's key there
    (one `call_id` may occur in several steps). `rev` grows with every change, `seq` is the log position
    of the last one. `soft` marks a terminal state that was inferred; a real result may still replace it.
    """

    call_id: str
    ordinal: int = 0
    occurrence: int = 1  # the nth card of its call_id
    state: ToolCallState | None = None  # None: no fact yet
    rev: int = 0
    seq: int = 0
    first_seq: int = 0
    tool: CardTool = CardTool()
    agent_note: str = ""  # what the agent says about the call, when it asks for it
    folder: str = ""  # in which it works; "" is the run's root, "?" is unknown
    agent_path: tuple[str, ...] = ()
    parent_call: str = ""
    scope: str = ""
    lane: str = ""
    step: int = 0
    attempt: int = 1
    per_step: bool = False
    message_id: str | None = None  # the message that announced the call ("" if it has no id), if its wire may reuse ids
    provider_executed: bool = False
    dynamic: bool = False
    soft: bool = False
    cause: str | None = None
    removed: bool = False  # its step was reset; kept in the log only
    preliminary: bool = False
    awaiting_client: bool = False
    announced: bool = False  # a frame began it, by a wire that begins each call with one
    gated: bool = False  # it replaces an attempt that policy decided, so policy decides about it, too
    text: Rope = EMPTY
    segment: Rope | None = None  # the input is being rewritten (reopen); not shown until it is complete
    resumed: bool = False  # rewritten after its approval was requested: the producer continued
    input: Any = None
    has_input: bool = False
    original_input: Any = None  # before a repair or an edit
    first_input: Any = None  # before a repair that an edit followed
    original_tool: str = ""  # the first name, if a repair changed it
    repair: str = ""
    shown_blocks: Any = None  # what its agent shows of it: the result, unless another one is reported
    output: Any = None
    has_output: bool = False
    output_message: str = ""
    detail: Any = None  # what the agent received after a denial
    error: CardError | None = None
    begun: bool = False  # its input was complete, or it ended by itself: hooks received it
    revived: int = 0  # how often it continued after an end; each time is another attempt for hooks
    overruled: bool = False  # this end replaced one that hooks had received
    denied: str = ""
    denied_by: Actor | None = None
    by_hand: CardManualOutcome | None = None  # kept if a real result follows
    retry: str = ""  # of a call that its host refused: see facts.RetryChanged
    retry_by: Actor | None = None
    approval: CardApproval | None = None
    decision: CardDecision | None = None
    permit: CardPermit | None = None
    anomalies: tuple[tuple[str, float], ...] = ()
    times: Milestones = Milestones()

    def replace(self, **changes: Any) -> Card:
        """Return this card with some fields changed."""
        card = object.__new__(Card)
        object.__setattr__(card, "__dict__", self.__dict__ | changes)
        return card

    def with_anomaly(self, code: str, timestamp: float) -> Card:
        """Return this card with the anomaly, unless it has that code already."""
        if any(old_code == code for old_code, _ in self.anomalies):
            return self
        return self.replace(anomalies=(*self.anomalies, (code, timestamp)))

    def without_anomaly(self, code: str) -> Card:
        """Return this card without the anomaly of that code."""
        anomalies = self.anomalies and tuple([anomaly for anomaly in self.anomalies if anomaly[0] != code])
        return self if len(anomalies) == len(self.anomalies) else self.replace(anomalies=anomalies)

    @property
    def hard(self) -> bool:
        """Return whether the call has ended finally."""
        return self.state in TERMINAL and not self.soft and not self.preliminary

    @property
    def finished(self) -> bool:
        """Return whether the call has ended, so that no view shows progress."""
        return self.state in TERMINAL and not self.preliminary

    @property
    def waiting(self) -> bool:
        """Return whether the call needs a vote now."""
        return self.approval is not None and not self.approval.twin and self.unanswered

    @property
    def unanswered(self) -> bool:
        """Return whether its question, or that of its twin, is open."""
        ask = self.approval
        is_open = ask is not None and ask.state == "pending" and not ask.automatic
        return self.state is ToolCallState.APPROVAL_REQUESTED and is_open

    @property
    def unclaimed(self) -> bool:
        """Return whether the call may run and its permit is unused."""
        return (self.permit is not None and self.permit.state == "issued") or self.awaits_delivery

    @property
    def awaits_delivery(self) -> bool:
        """Return whether an approval can be undone: the agent lacks it."""
        ask = self.approval
        return ask is not None and ask.opener == "gate" and ask.state == "approved"

    @property
    def outlives_agent(self) -> bool:
        """Return whether the approval survives while the agent is disconnected."""
        ask = self.approval
        if ask is None or ask.opener != "gate" or self.finished:
            return False
        return ask.state == "approved" or (ask.state == "pending" and ask.expires_at > 0)

    @property
    def running(self) -> bool:
        """Return whether the agent claimed the call and reported no end."""
        if self.finished or self.removed or self.decision is None:
            return False
        if self.approval is not None and self.approval.opener == "gate":
            return self.approval.state == "claimed"
        return self.decision.effect == "allow" and (self.permit is None or self.permit.state == "claimed")

    @property
    def has_unknown_outcome(self) -> bool:
        """Return whether the call may have run without a result.

        A person may record the outcome.
        """
        if not self.soft or self.removed or self.by_hand is not None:
            return False
        if self.approval is not None and self.approval.opener == "gate":
            return self.approval.state == "unknown"
        was_waiting = bool(self.times.requested) and not self.times.decided
        is_allowed = self.decision is not None and self.decision.effect == "allow"
        return (
            self.begun
            and not was_waiting
            and (self.cause in UNKNOWN_OUTCOME_CAUSES or (self.cause == "aborted" and is_allowed))
        )

    @property
    def shown_input(self) -> Any:
        """Return the complete input, else the streamed text."""
        return self.input if self.has_input else str(self.text)
