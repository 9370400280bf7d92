"""One person's answer to one approval: exactly one wins, and only for what that person saw."""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from toolcards.audit import trail
from toolcards.audit.trail import Act, redactor
from toolcards.client.common.canonical_json import NotCanonical, digest
from toolcards.client.common.json_diff import diff
from toolcards.core.calls import facts as f
from toolcards.core.calls.call_json import compute_view_sha256
from toolcards.core.calls.card import Card, CardApproval
from toolcards.core.policy.decision import AskTerms, Effect
from toolcards.core.redaction.redactor import masked
from toolcards.core.schemas import input_repair
from toolcards.gate.approvals.expiry import is_past_deadline
from toolcards.gate.approvals.permits import build_permit_columns
from toolcards.gate.decisions import grants
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.eligibility import list_identities, load_terms
from toolcards.gate.decisions.evaluation import reevaluate_call
from toolcards.gate.decisions.preflight import get_offered_tools
from toolcards.gate.refusals import AlreadyDecided, CallChanged, InvalidRequest, NotAllowed, NotFound, TooLate
from toolcards.gate.writer import audit_entries
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Vote

VOTE_DECISIONS = {"approve": True, "edit": True, "deny": False}
MAX_LOGIN_AGE = 300.0  # seconds
MAX_REASON_LENGTH = 2_000  # characters
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATE_CODES = {"expired": "expired", "cancelled": "run_ended", "superseded": "superseded", "revoked": "revoked"}


@dataclass(frozen=True, slots=True)
class Ballot:
    """What the person sent: the answer, and which revision of which arguments it was given to."""

    approval: str
    decision: str
    rev: int
    args_sha256: str
    view_sha256: str = ""  # of the card as it was shown, where the sender says
    reason: str = ""
    note: str = ""
    client_decision_id: str = ""
    grant: dict[str, Any] = field(default_factory=dict)
    edited_args: Any = None
    signed_in_at: float | None = None  # epoch seconds, of the session it came by; without one the latest counts


def clean_text(text: str) -> str:
    """Return what a person wrote as models and terminals may read it: without control characters, and not too long."""
    shown = "".join(char for char in text if char in "\n\t" or unicodedata.category(char) != "Cc")
    return shown[:MAX_REASON_LENGTH]


class CastVote(Command):
    """Compare and set: the approval still pending, the card at the revision and the arguments that were shown."""

    def __init__(self, person: Any, ballot: Ballot) -> None:
        super().__init__()
        self.person = person
        self.ballot = replace(ballot, reason=clean_text(ballot.reason), note=clean_text(ballot.note))

    def run_keys(self) -> Iterable[tuple[int, str]]:
        """See group_commit.Work."""
        return ()

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Approval.objects.select_for_update().filter(id=_clean_id(self.ballot.approval), asked=True).first()
        if row is None:
            raise NotFound("There is no such approval.")
        memory = tx.load_run(row.run_id)
        card = memory.board.cards[row.call.ordinal]
        if row.state != "pending" or self._voted_so(row):
            self.answer = self._answered_before(row, card)
            return
        self._check(tx, row, card)
        terms = load_terms(row)
        self._check_person(row, terms)
        self._cast(tx, memory, row, card, terms)
        self.answer = memory.board.cards[card.ordinal]

    def _voted_so(self, row: Approval) -> bool:
        return Vote.objects.filter(approval=row, person=self.person, decision=self.ballot.decision).exists()

    def _answered_before(self, row: Approval, card: Card) -> Card:
        """The same person's same answer again is the same answer; anybody else's comes too late."""
        if self._voted_so(row):
            return card
        if row.state in LATE_CODES:
            raise TooLate(f"Too late: this approval is {row.state}.", code=LATE_CODES[row.state], by=row.by_name)
        verb = "denied" if row.state == "denied" else "approved"
        who = row.by_name or row.by_kind or "somebody"
        when = format_age(time.time() - row.decided_at)
        raise AlreadyDecided(f"Already {verb} by {who} {when}.", by=row.by_name, state=row.state)

    # ------------------------------------------------------------ may this vote count?

    def _check(self, tx: Transaction, row: Approval, card: Card) -> None:
        ballot = self.ballot
        if ballot.decision not in VOTE_DECISIONS:
            raise InvalidRequest("Answer approve, deny or edit.", code="invalid_vote")
        if card.approval is None or not card.approval.votable:
            raise NotAllowed("This approval is answered where the agent runs, not here.", code="not_here")
        if is_past_deadline(tx, row):
            raise TooLate("Too late: the time for an answer is over.", code="expired")
        if ballot.rev != card.rev:
            raise CallChanged("The call has changed since you saw it. Look again.", code="stale_rev")
        if ballot.args_sha256 != _digest_shown_input(card):
            raise CallChanged("These are not the arguments you saw. Look again.", code="args_mismatch")
        views = (
            compute_view_sha256(redactor().card(card)),
            compute_view_sha256(card),
        )  # who may reveal has seen the other one
        if ballot.view_sha256 and ballot.view_sha256 not in views:
            raise CallChanged("This is not what you were shown. Look again.", code="view_stale")

    def _check_person(self, row: Approval, terms: AskTerms) -> None:
        if not self.person.has_perm("toolcards.vote"):
            raise NotAllowed("You may look, but not answer.")
        if not terms.may_answer(list_identities(self.person)):
            raise NotAllowed("The rule wants somebody else to answer this.")
        if not terms.allow_requester and row.run.source.owner_id == self.person.pk:
            raise NotAllowed("The agent works for you, so somebody else must answer.", code="self_approval")
        wanted = terms.reason == "always" or (terms.reason == "on_deny" and self.ballot.decision == "deny")
        if wanted and not self.ballot.reason.strip():
            raise InvalidRequest("The rule wants a reason.", code="reason_required")
        if terms.reauth and time.time() - self._signed_in() > MAX_LOGIN_AGE:
            raise NotAllowed("Sign in again first: this answer needs a fresh sign-in.", code="reauth", status=401)

    def _signed_in(self) -> float:
        latest: float = (self.person.last_login or EPOCH).timestamp()
        return latest if self.ballot.signed_in_at is None else min(latest, self.ballot.signed_in_at)

    # ------------------------------------------------------------ counting

    def _cast(self, tx: Transaction, memory: RunMemory, row: Approval, card: Card, terms: AskTerms) -> None:
        ballot, approved = self.ballot, VOTE_DECISIONS[self.ballot.decision]
        if ballot.decision == "edit":
            self._edit(memory, row, card, terms, tx.now)
            Vote.objects.filter(approval=row).delete()  # nobody has voted on this input yet
        Vote.objects.update_or_create(
            approval=row,
            person=self.person,
            defaults={
                "decision": ballot.decision, "reason": ballot.reason, "note": ballot.note,
                "client_decision_id": ballot.client_decision_id, "at": tx.now,
            },
        )  # fmt: skip
        tx.audit_acts.append(self._act(memory, row, card, tx.now))
        have = Vote.objects.filter(approval=row, decision__in=("approve", "edit") if approved else ("deny",)).count()
        if have < (terms.quorum if approved else terms.deny_quorum):
            self._count(tx, memory, row, card, have if approved else None)
            return
        self._settle(tx, memory, row, card, terms, approved)

    def _act(self, memory: RunMemory, row: Approval, card: Card, at: float) -> Act:
        ballot = self.ballot
        return audit_entries.build_call_act(
            memory, card, "vote", "human", self.person.get_username(), at, row.id, decision=ballot.decision,
            rev=ballot.rev, args_sha256=ballot.args_sha256, reason=ballot.reason,
            note=trail.sealed_words(ballot.note), grant=ballot.grant,
            edited_sha256=digest(json.loads(row.edited)) if ballot.decision == "edit" else "",
            client_decision_id=ballot.client_decision_id,
        )  # fmt: skip

    def _count(self, tx: Transaction, memory: RunMemory, row: Approval, card: Card, have: int | None) -> None:
        edited = self.ballot.decision == "edit"
        by = f.Actor("human", self.person.get_username())
        have = have if have is not None else (card.approval or CardApproval()).have
        value = json.loads(row.edited) if edited else None
        tx.approval_columns[row.id] = {"edited": row.edited}
        sha256 = digest(value) if edited else ""
        counted = f.VoteCounted(
            card.call_id, have, id=row.id, by=by, edited=value, has_edited=edited, args_sha256=sha256, at=tx.now
        )
        tx.record(memory, counted, card)

    def _settle(
        self, tx: Transaction, memory: RunMemory, row: Approval, card: Card, terms: AskTerms, approved: bool
    ) -> None:
        ballot, edited = self.ballot, bool(row.edited) and approved
        extras: dict[str, Any] = {"note": ballot.note, "edited": row.edited}
        value = json.loads(row.edited) if edited else None
        if approved:
            extras |= build_permit_columns(row, tx.working)
        tx.approval_columns[row.id] = extras
        if edited:
            row.args_sha256 = digest(value)  # what a grant covers is what was approved
        if approved and ballot.grant:
            given = grants.create_grants(row, card, self.person, ballot.grant, terms.grants, tx.now)
            for grant in given:
                told = {"grant": grant.id, "rule": grant.rule, "expires_at": round(grant.expires_at)}
                who = self.person.get_username()
                tx.audit_acts.append(
                    audit_entries.build_call_act(memory, card, "grant.given", "human", who, tx.now, row.id, **told)
                )
        by = f.Actor("human", self.person.get_username())
        answered = f.ApprovalAnswered(
            card.call_id, approved, id=row.id, reason=ballot.reason, by=by, input=value, has_input=edited,
            args_sha256=digest(value) if edited else "", at=tx.now,
        )  # fmt: skip
        tx.record(memory, answered, card)

    # ------------------------------------------------------------ edit and approve

    def _edit(self, memory: RunMemory, row: Approval, card: Card, terms: AskTerms, now: float) -> None:
        """Take the edited input if only editable parts changed and policy would still let it be asked."""
        edited = redactor().restored(self.ballot.edited_args, card.input)  # the person saw masks
        if masked(edited) and not masked(card.input):
            raise InvalidRequest("A masked value cannot be moved elsewhere.", code="invalid_edit")
        try:
            sha256 = digest(edited)
        except NotCanonical as error:
            raise InvalidRequest(f"The edited input cannot be used: {error}", code="invalid_edit") from error
        if sha256 == row.args_sha256:
            raise InvalidRequest("Nothing was edited.", code="invalid_edit")
        if type(edited) is not type(card.input):
            raise InvalidRequest("The edited input must be of the same JSON type.", code="invalid_edit")
        changed = [change.pointer for change in diff(card.input, edited)]
        barred = [p for p in changed if not any(p == e or p.startswith(f"{e}/") or e == "" for e in terms.editable)]
        if barred or not terms.editable:
            raise InvalidRequest(
                "These parts may not be edited here.", code="invalid_edit", detail={"pointers": barred}
            )
        wrong = input_repair.check(card.tool.name, edited, get_offered_tools(memory))
        if wrong is not None:
            why = wrong.message(get_offered_tools(memory))
            raise InvalidRequest(f"The edited input does not fit the tool: {why}", code="invalid_edit")
        again = reevaluate_call(memory, card.but(input=edited, has_input=True), now)
        if again.effect == Effect.DENY:
            raise InvalidRequest("Policy denies the edited call.", code="invalid_edit")
        row.edited = json.dumps(edited)


def _digest_shown_input(card: Card) -> str:
    """Return the digest of the input that a vote is about: as edited so far, else as the call has it."""
    ask = card.approval
    if ask is not None and ask.has_edited:
        return digest(ask.edited)
    return digest_input(card)


def _clean_id(name: str) -> str:
    """A name that a database can be asked for; none has a NUL in it."""
    return "" if "\0" in name else name


def format_age(seconds: float) -> str:
    """Return how long ago that was, for a sentence."""
    if seconds < 90:
        return f"{max(0, round(seconds))} s ago"
    return f"{round(seconds / 60)} min ago"
