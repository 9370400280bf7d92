"""What a person records about a call that ended: its outcome if that is unknown, or that a refused one may try again.

A call that was running when its agent lost contact may or may not have taken effect. A person checks and records the
outcome. A result that the agent still sends replaces it (core/calls/transitions.py).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from toolcards.audit import trail
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.calls.identity import is_retryable
from toolcards.gate.approvals.votes import clean_comment, format_age
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.eligibility import list_identities, load_terms, may_vote
from toolcards.gate.refusals import AlreadyDecided, InvalidRequest, NotAllowed, NotFound
from toolcards.gate.writer import audit_entries
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, ToolCall

OUTCOMES = ("succeeded", "failed")


@dataclass(frozen=True, slots=True)
class ManualOutcome:
    """The outcome that a person recorded for a call (run and ordinal), with the revision they saw."""

    run: int
    ordinal: int
    outcome: str
    rev: int
    note: str = ""


class RecordManualOutcome(Command):
    """Record a manual outcome if the result is still unknown and the card's revision is the one shown."""

    def __init__(self, person: Any, outcome: ManualOutcome) -> None:
        super().__init__()
        self.person, self.manual_outcome = person, outcome

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        outcome = self.manual_outcome
        if not ToolCall.objects.not_removed().filter(run=outcome.run, ordinal=outcome.ordinal).exists():
            raise NotFound("Call not found.")
        memory = tx.load_run(outcome.run)
        card = memory.board.cards[outcome.ordinal]
        self._check_person(card)
        if outcome.outcome not in OUTCOMES:
            raise InvalidRequest("The outcome must be succeeded or failed.", code="invalid_outcome")
        if not self._is_repeated(card):
            self._check_card(memory, card)
            self._record(tx, memory, card)
        self.answer = memory.board.cards[card.ordinal]

    def _check_person(self, card: Card) -> None:
        if not may_vote(self.person):
            raise NotAllowed("You do not have permission to vote.")
        row = Approval.objects.filter(id=card.approval.id, asked=True).first() if card.approval else None
        if row is not None and not load_terms(row).may_answer(list_identities(self.person)):
            raise NotAllowed("The rule that asked requires a different approver for this call.")

    def _is_repeated(self, card: Card) -> bool:
        """Return whether the same person recorded the same outcome before."""
        recorded_outcome = card.by_hand
        if (
            recorded_outcome is None
            or not card.soft
            or recorded_outcome.by != f.Actor("human", self.person.get_username())
        ):
            return False
        return recorded_outcome.outcome == self.manual_outcome.outcome

    def _check_card(self, memory: RunMemory, card: Card) -> None:
        claim = card.by_hand
        if claim is not None and card.soft:
            actor = claim.by.name if claim.by else "someone"
            raise AlreadyDecided(
                f"Already recorded by {actor} {format_age(time.time() - claim.at)}: it {claim.outcome}.",
                code="already_settled", by=actor, outcome=claim.outcome,
            )  # fmt: skip
        if not card.has_unknown_outcome:
            raise AlreadyDecided("The result of this call is already known.", code="not_unknown")
        if self.manual_outcome.rev != card.rev:
            raise AlreadyDecided("The call has changed since you saw it. Review it again.", code="stale_rev")
        newest = memory.board.find(card.call_id)
        if newest is None or newest.ordinal != card.ordinal:
            raise AlreadyDecided("The agent has since reused this call’s id.", code="not_unknown")

    def _record(self, tx: Transaction, memory: RunMemory, card: Card) -> None:
        outcome, note = self.manual_outcome.outcome, clean_comment(self.manual_outcome.note).strip()
        actor = f.Actor("human", self.person.get_username())
        approval = card.approval.id if card.approval else ""
        details = {"outcome": outcome, "note": trail.seal_words(note)}
        tx.audit_acts.append(
            audit_entries.build_call_act(memory, card, "settled", actor.kind, actor.name, tx.now, approval, **details)
        )
        if card.permit is not None and card.permit.state == "unknown":
            tx.record(memory, f.PermitChanged(card.call_id, outcome, card.permit.id, tx.now), card)
        tx.record(memory, f.ManualOutcomeRecorded(card.call_id, outcome, note, actor, tx.now), card)  # type: ignore[arg-type]


# ---------------------------------------------------------------- a call that the agent's own reviewer refused


@dataclass(frozen=True, slots=True)
class RefusalAnswer:
    """The answer to a refused call (run and ordinal), with the revision that the person saw."""

    run: int
    ordinal: int
    may_retry: bool
    rev: int


class AnswerRefusal(Command):
    """Record the answer if the refused call is unanswered, and the card's revision is the one shown."""

    def __init__(self, person: Any, answer: RefusalAnswer) -> None:
        super().__init__()
        self.person, self.refusal_answer = person, answer

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        answer = self.refusal_answer
        if not ToolCall.objects.not_removed().filter(run=answer.run, ordinal=answer.ordinal).exists():
            raise NotFound("Call not found.")
        if not may_vote(self.person):
            raise NotAllowed("You do not have permission to vote.")
        memory = tx.load_run(answer.run)
        card = memory.board.cards[answer.ordinal]
        actor, state = f.Actor("human", self.person.get_username()), "granted" if answer.may_retry else "dismissed"
        if (card.retry, card.retry_by) != (state, actor):  # the same answer again changes nothing
            if not is_retryable(card):
                raise AlreadyDecided("This call cannot be tried again, or it is answered already.", code="not_refused")
            if answer.rev != card.rev:
                raise AlreadyDecided("The call has changed since you saw it. Review it again.", code="stale_rev")
            details = {"args_sha256": digest_input(card), "source": memory.row.source.name}
            act = audit_entries.build_call_act(
                memory, card, f"retry.{state}", actor.kind, actor.name, tx.now, **details
            )
            tx.audit_acts.append(act)
            tx.record(memory, f.RetryChanged(card.call_id, state, actor, tx.now), card)  # type: ignore[arg-type]
        self.answer = memory.board.cards[card.ordinal]
