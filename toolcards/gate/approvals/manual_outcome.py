"""What a person found of a call whose end nobody has heard: written down, never run again, and not the last word.

A call that had begun when its agent vanished may have done its work or not. Somebody who can look says which. The
agent's own result, should it still come, takes the place of what they said (core/calls/transitions.py).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from toolcards.audit import trail
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.gate.approvals.votes import clean_text, format_age
from toolcards.gate.decisions.eligibility import list_identities, load_terms
from toolcards.gate.refusals import AlreadyDecided, InvalidRequest, NotAllowed, NotFound
from toolcards.gate.writer import audit_entries
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, ToolCall

OUTCOMES = ("succeeded", "failed")


@dataclass(frozen=True, slots=True)
class ManualOutcome:
    """What the person sent: of which call (run and ordinal), how it ended, and the revision that they saw."""

    run: int
    ordinal: int
    outcome: str
    rev: int
    note: str = ""


class RecordManualOutcome(Command):
    """Compare and set: the call's end still unknown, and the card at the revision that was shown."""

    def __init__(self, person: Any, said: ManualOutcome) -> None:
        super().__init__()
        self.person, self.said = person, said

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        said = self.said
        if not ToolCall.objects.not_removed().filter(run=said.run, ordinal=said.ordinal).exists():
            raise NotFound("There is no such call.")
        memory = tx.load_run(said.run)
        card = memory.board.cards[said.ordinal]
        self._check_person(card)
        if said.outcome not in OUTCOMES:
            raise InvalidRequest("Say succeeded or failed.", code="invalid_outcome")
        if not self._said_before(card):
            self._check(memory, card)
            self._settle(tx, memory, card)
        self.answer = memory.board.cards[card.ordinal]

    def _check_person(self, card: Card) -> None:
        if not self.person.has_perm("toolcards.vote"):
            raise NotAllowed("You may look, but not answer.")
        row = Approval.objects.filter(id=card.approval.id, asked=True).first() if card.approval else None
        if row is not None and not load_terms(row).may_answer(list_identities(self.person)):
            raise NotAllowed("The rule that asked wants somebody else to answer for this call.")

    def _said_before(self, card: Card) -> bool:
        """The same person's same word again changes nothing."""
        told = card.by_hand
        mine = told is not None and told.by == f.Actor("human", self.person.get_username())
        return bool(mine and told and card.soft and told.outcome == self.said.outcome)

    def _check(self, memory: RunMemory, card: Card) -> None:
        told = card.by_hand
        if told is not None and card.soft:
            who = told.by.name if told.by else "somebody"
            raise AlreadyDecided(
                f"Already settled by {who} {format_age(time.time() - told.at)}: it {told.outcome}.",
                code="already_settled", by=who, outcome=told.outcome,
            )  # fmt: skip
        if not card.has_unknown_outcome:
            raise AlreadyDecided("There is nothing to settle: how this call ended is known.", code="not_unknown")
        if self.said.rev != card.rev:
            raise AlreadyDecided("The call has changed since you saw it. Look again.", code="stale_rev")
        newest = memory.board.find(card.call_id)
        if newest is None or newest.ordinal != card.ordinal:
            raise AlreadyDecided("The agent has used this call’s id again since.", code="not_unknown")

    def _settle(self, tx: Transaction, memory: RunMemory, card: Card) -> None:
        by, note = f.Actor("human", self.person.get_username()), clean_text(self.said.note).strip()
        about = card.approval.id if card.approval else ""
        told = {"outcome": self.said.outcome, "note": trail.sealed_words(note)}
        tx.audit_acts.append(
            audit_entries.build_call_act(memory, card, "settled", by.kind, by.name, tx.now, about, **told)
        )
        if card.permit is not None and card.permit.state == "unknown":
            tx.record(memory, f.PermitChanged(card.call_id, self.said.outcome, card.permit.id, tx.now), card)
        tx.record(memory, f.ManualOutcomeRecorded(card.call_id, self.said.outcome, note, by, tx.now), card)  # type: ignore[arg-type]
