"""Votes of people on approvals. The first decision wins, and only for exactly what the person saw."""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from toolcards.audit import trail
from toolcards.audit.trail import Act
from toolcards.client.common.canonical_json import digest
from toolcards.core.calls import facts as f
from toolcards.core.calls import questions
from toolcards.core.calls.call_json import compute_view_sha256
from toolcards.core.calls.card import Card, CardApproval
from toolcards.core.policy.decision import AskTerms
from toolcards.encryption import get_redactor
from toolcards.gate import emergency, lasting_answers, policy_store
from toolcards.gate.approvals.edits import accept_edit
from toolcards.gate.approvals.expected_decisions import answer_requests
from toolcards.gate.approvals.expiry import is_past_deadline
from toolcards.gate.approvals.permits import build_permit_columns
from toolcards.gate.decisions import grants
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.eligibility import find_eligible_voters, list_identities, load_terms, may_vote
from toolcards.gate.decisions.evaluation import build_policy_request
from toolcards.gate.refusals import AlreadyDecided, CallChanged, InvalidRequest, NotAllowed, NotFound, TooLate
from toolcards.gate.writer import approval_rows, audit_entries
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval

MAX_REASON_LENGTH = 2_000  # characters
VOTE_DECISIONS = {"approve": True, "edit": True, "deny": False}
MAX_LOGIN_AGE = 300.0  # seconds
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATE_CODES = {"expired": "expired", "cancelled": "run_ended", "superseded": "superseded", "revoked": "revoked"}


@dataclass(frozen=True, slots=True)
class Ballot:
    """One vote as the person sent it, with the revision and arguments it was cast on."""

    approval: str
    decision: str
    rev: int
    args_sha256: str
    view_sha256: str = ""  # digest of the card as it was shown, if the sender includes it
    reason: str = ""
    note: str = ""
    client_decision_id: str = ""
    grant: dict[str, Any] = field(default_factory=dict)
    always: str = ""  # the lasting answer that the person chose, of those that the question offers
    edited_args: Any = None
    signed_in_at: float | None = None  # of the session, in epoch seconds; None: the person's latest sign-in


class CastVote(Command):
    """Record a vote if the approval is pending and the card has the revision and arguments that were shown."""

    row: Approval  # loaded by `apply`
    decisions: dict[int, str]  # the votes on it, by the person's pk

    def __init__(self, person: Any, ballot: Ballot, is_signed_in: Callable[[], bool] = lambda: True) -> None:
        super().__init__()
        self.person, self.is_signed_in = person, is_signed_in
        self.ballot = replace(ballot, reason=clean_comment(ballot.reason), note=clean_comment(ballot.note))

    def list_approvals(self) -> Iterable[str]:
        """See group_commit.Work."""
        return [self.ballot.approval]

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = approval_rows.load_approval(self.ballot.approval)
        if row is None or not row.asked:
            raise NotFound("Approval not found.")
        memory = tx.load_run(row.run_id)
        card = approval_rows.get_card(memory, row)
        self.row, self.decisions = row, approval_rows.list_decisions(row.id)
        if row.state != "pending" or self._is_repeated(row, card):
            self.answer = self._answer_decided(row, card)
            return
        self._check(tx, row, card)
        terms = load_terms(row)
        self._check_person(row, terms)
        self._cast(tx, memory, row, card, terms)
        self.answer = memory.board.cards[card.ordinal]

    def _is_repeated(self, row: Approval, card: Card) -> bool:
        """Return whether the same person cast the same vote before; another edit is another vote."""
        if self.decisions.get(self.person.pk) != self.ballot.decision:
            return False
        return self.ballot.decision != "edit" or json.dumps(self._restore_edit(card)) == row.edited

    def _restore_edit(self, card: Card) -> Any:
        """Return the edited input with the secrets of which the person saw masks."""
        return get_redactor().restore(self.ballot.edited_args, card.input)

    def _answer_decided(self, row: Approval, card: Card) -> Card:
        """Return the card for a repeated vote; raises TooLate or AlreadyDecided for any other."""
        if self._is_repeated(row, card):
            return card
        if row.state in LATE_CODES:
            raise TooLate(f"Too late: this approval is {row.state}.", code=LATE_CODES[row.state], by=row.by_name)
        verb = "denied" if row.state == "denied" else "approved"
        actor = row.by_name or row.by_kind or "someone"
        age = format_age(time.time() - row.decided_at)
        raise AlreadyDecided(f"Already {verb} by {actor} {age}.", by=row.by_name, state=row.state)

    # ------------------------------------------------------------ checks

    def _check(self, tx: Transaction, row: Approval, card: Card) -> None:
        ballot = self.ballot
        if ballot.decision not in VOTE_DECISIONS:
            raise InvalidRequest("The decision must be approve, deny or edit.", code="invalid_vote")
        if card.approval is None or not card.approval.votable:
            raise NotAllowed("This approval can only be answered where the agent runs.", code="not_here")
        if card.approval.twin:
            raise CallChanged("The same call is asked about already. Answer that question.", code="stale_rev")
        if VOTE_DECISIONS[ballot.decision] and emergency.is_kill_switch_on():
            message = f"{emergency.KILL_SWITCH_REASON} Nothing can be approved until calls run again."
            raise NotAllowed(message, code="kill_switch")
        if ballot.decision == "approve" and _needs_answer(row, card):
            raise InvalidRequest("The agent asks a question: answer it, or deny.", code="answer_required")
        if is_past_deadline(tx, row):
            raise TooLate("Too late: this approval has expired.", code="expired")
        if ballot.rev != card.rev:
            raise CallChanged("The call has changed since you saw it. Review it again.", code="stale_rev")
        if ballot.args_sha256 != _digest_shown_input(card):
            raise CallChanged("These are not the arguments you saw. Review them again.", code="args_mismatch")
        if ballot.view_sha256 and not _is_view(card, ballot.view_sha256):
            raise CallChanged("This is not what you were shown. Review it again.", code="view_stale")

    def _check_person(self, row: Approval, terms: AskTerms) -> None:
        if not may_vote(self.person):
            raise NotAllowed("You do not have permission to vote.")
        if not self.is_signed_in():
            raise NotAllowed("You are no longer signed in. Sign in again, then answer.", code="signed_out")
        if not terms.may_answer(list_identities(self.person)):
            raise NotAllowed("This rule requires a different approver.")
        if not terms.allow_requester and approval_rows.get_owner(row.run_id) == self.person.pk:
            raise NotAllowed("The agent works for you, so someone else must answer.", code="self_approval")
        needs_reason = terms.reason == "always" or (terms.reason == "on_deny" and self.ballot.decision == "deny")
        if needs_reason and not self.ballot.reason.strip():
            raise InvalidRequest("This rule requires a reason.", code="reason_required")
        if terms.reauth and time.time() - self._get_sign_in_time() > MAX_LOGIN_AGE:
            raise NotAllowed(
                "This rule requires a recent sign-in. Sign in again, then answer.", code="reauth", status=401
            )

    def _get_sign_in_time(self) -> float:
        latest: float = (self.person.last_login or EPOCH).timestamp()
        return latest if self.ballot.signed_in_at is None else min(latest, self.ballot.signed_in_at)

    # ------------------------------------------------------------ recording

    def _cast(self, tx: Transaction, memory: RunMemory, row: Approval, card: Card, terms: AskTerms) -> None:
        ballot, is_approved = self.ballot, VOTE_DECISIONS[self.ballot.decision]
        if ballot.decision == "edit":
            accept_edit(self._restore_edit(card), memory, row, card, terms, tx.now)
            approval_rows.delete_votes(row.id)  # earlier votes were on another input
            self.decisions.clear()
        self.decisions[self.person.pk] = ballot.decision
        approval_rows.write_vote(
            approval_id=row.id, person_id=self.person.pk, decision=ballot.decision, reason=ballot.reason,
            note=ballot.note, client_decision_id=ballot.client_decision_id, at=tx.now,
        )  # fmt: skip
        tx.audit_acts.append(self._build_act(memory, row, card, tx.now))
        voters = find_eligible_voters(terms, approval_rows.get_owner(row.run_id))  # others' votes no longer count
        same = [person for person, decision in self.decisions.items() if VOTE_DECISIONS[decision] is is_approved]
        votes = len(voters.intersection(same))
        if ballot.always and max(terms.quorum, terms.deny_quorum) > 1:
            raise InvalidRequest(
                "Several people answer this call, so none gives a lasting answer.", code="always_not_offered"
            )
        if votes < (terms.quorum if is_approved else terms.deny_quorum):
            self._count(tx, memory, row, card, votes if is_approved else None)
            return
        self._decide(tx, memory, row, card, terms, is_approved)

    def _build_act(self, memory: RunMemory, row: Approval, card: Card, now: float) -> Act:
        ballot = self.ballot
        return audit_entries.build_call_act(
            memory, card, "vote", "human", self.person.get_username(), now, row.id, decision=ballot.decision,
            rev=ballot.rev, args_sha256=ballot.args_sha256, reason=ballot.reason, always=ballot.always,
            note=trail.seal_words(ballot.note), grant=ballot.grant,
            edited_sha256=digest(json.loads(row.edited)) if ballot.decision == "edit" else "",
            client_decision_id=ballot.client_decision_id,
        )  # fmt: skip

    def _count(self, tx: Transaction, memory: RunMemory, row: Approval, card: Card, votes: int | None) -> None:
        """Record a vote that does not decide yet. `votes`: approvals so far, None for a vote to deny."""
        is_edited = self.ballot.decision == "edit"
        votes = votes if votes is not None else (card.approval or CardApproval()).have
        value = json.loads(row.edited) if is_edited else None
        tx.approval_columns[row.id] = {"edited": row.edited}
        fact = f.VoteCounted(
            card.call_id, votes, id=row.id, by=f.Actor("human", self.person.get_username()), edited=value,
            has_edited=is_edited, args_sha256=digest(value) if is_edited else "", at=tx.now,
        )  # fmt: skip
        tx.record(memory, fact, card)

    def _decide(
        self, tx: Transaction, memory: RunMemory, row: Approval, card: Card, terms: AskTerms, is_approved: bool
    ) -> None:
        """Record the vote that decides the approval."""
        ballot, is_edited = self.ballot, bool(row.edited) and is_approved
        columns: dict[str, Any] = {"note": ballot.note, "edited": row.edited}
        value = json.loads(row.edited) if is_edited else None
        if is_approved:
            columns |= build_permit_columns(row, tx.working)
        tx.approval_columns[row.id] = columns
        if is_edited:
            row.args_sha256 = digest(value)  # a grant covers the input that was approved
        if is_approved and ballot.grant:
            self._create_grants(tx, memory, row, card, terms)
        rule, version = self._write_lasting_rule(tx, memory, row, card, is_approved) if ballot.always else ("", 0)
        fact = f.ApprovalAnswered(
            card.call_id, is_approved, id=row.id, reason=ballot.reason,
            by=f.Actor("human", self.person.get_username()), input=value, has_input=is_edited,
            args_sha256=digest(value) if is_edited else "", lasting_rule=rule, policy_version=version, at=tx.now,
        )  # fmt: skip
        tx.record(memory, fact, card)
        answer_requests(tx, memory, memory.board.cards[card.ordinal], row.id, is_approved=is_approved)

    def _write_lasting_rule(
        self, tx: Transaction, memory: RunMemory, row: Approval, card: Card, is_approved: bool
    ) -> tuple[str, int]:
        if row.opener == "agent" or self.ballot.decision == "edit":
            raise InvalidRequest("This question has no lasting answers.", code="always_not_offered")
        request = build_policy_request(memory, card, policy_store.get_active_policy(), now=tx.now)
        return lasting_answers.write_rule(request, card, self.person, self.ballot.always, is_approved=is_approved)

    def _create_grants(self, tx: Transaction, memory: RunMemory, row: Approval, card: Card, terms: AskTerms) -> None:
        for grant in grants.create_grants(row, card, self.person, self.ballot.grant, terms.grants, tx.now):
            details = {"grant": grant.id, "rule": grant.rule, "expires_at": round(grant.expires_at)}
            tx.audit_acts.append(audit_entries.build_call_act(
                memory, card, "grant.given", "human", self.person.get_username(), tx.now, row.id, **details
            ))  # fmt: skip


def _needs_answer(row: Approval, card: Card) -> bool:
    """Return whether the call asks a question that has no answer yet."""
    if card.approval is not None and card.approval.has_edited:
        return False
    is_asked_here = row.opener == "agent" or questions.is_form(card.tool.name)
    return is_asked_here and bool(questions.read_questions(card.tool.name, card.input))


def _is_view(card: Card, sha256: str) -> bool:
    """Return whether a person may have seen this: the card, or for most people the masked card."""
    return compute_view_sha256(card) == sha256 or compute_view_sha256(get_redactor().card(card)) == sha256


def _digest_shown_input(card: Card) -> str:
    """Return the digest of the input under vote, which is the edited one if present."""
    ask = card.approval
    if ask is not None and ask.has_edited:
        return digest(ask.edited)
    return digest_input(card)


def clean_comment(text: str) -> str:
    """Return the comment without control characters, cut to MAX_REASON_LENGTH."""
    printable = "".join(char for char in text if char in "\n\t" or unicodedata.category(char) != "Cc")
    return printable[:MAX_REASON_LENGTH]


def format_age(seconds: float) -> str:
    """Return an age (seconds) in words: "30 s ago"."""
    if seconds < 90:
        return f"{max(0, round(seconds))} s ago"
    return f"{round(seconds / 60)} min ago"
