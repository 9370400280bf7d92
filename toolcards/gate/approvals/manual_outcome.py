"""Manual outcome for a call whose result is unknown. A late result overrides it.

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
from toolcards.gate.approvals.votes import clean_comment, format_age
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
