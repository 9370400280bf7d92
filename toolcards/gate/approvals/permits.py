"""Permits: the single-use right to execute exactly the arguments that were allowed.

How long they are valid is decided with the call: `USE_TTL` and `use_ttl` in gate/questions/opening.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from django.conf import settings

from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.gate.agents.liveness import note_request
from toolcards.gate.decisions.digests import digest_call, digest_input
from toolcards.gate.decisions.recheck import recheck_approval
from toolcards.gate.decisions.responses import build_decision, format_time
from toolcards.gate.refusals import CallChanged, NotFound, TooLate
from toolcards.gate.writer import approval_rows
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import RunCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import AgentKey, Approval, Source

APPROVED_NOT_EXECUTED = "Approved, but not executed in time."
ANSWER_HELD = "A person answered. The answer is held until it can no longer be undone: fetch it with the approval."
ALLOWED_NOT_EXECUTED = "Allowed, but never executed."


class ClaimPermit(RunCommand):
    """Claim a permit right before execution: once, for exactly the allowed arguments.

    The answer is the allowed call, or the refusal if the policy changed; the caller raises it once it is recorded.
    """

    def __init__(self, source: Source, permit: str, body: dict[str, Any], client: str = "") -> None:
        super().__init__(source, "")
        self.permit, self.body, self.client = permit, body, client

    def run_keys(self) -> Iterable[tuple[int, str]]:
        """See group_commit.Work."""
        return ()

    def list_approvals(self) -> Iterable[str]:
        """See group_commit.Work."""
        return [self.permit]

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = approval_rows.load_permit(self.permit, self.source.pk)
        if row is None:
            raise NotFound("Permit not found.")
        memory = tx.load_run(row.run_id)
        row = self._load_approval(row.id)  # the run is locked now: no other claim or end can intervene
        card = approval_rows.get_card(memory, row)
        if row.claimed_at and self._is_repeated(row, card):
            self.answer = _build_claim(memory, row, card)
            return
        self._check_usable(row, card, tx.working)
        self._check_bound(row, card)
        refusal = recheck_approval(tx, memory, row, card)
        if refusal is not None:
            self.answer = refusal
            return
        note_request(tx, memory)
        row.claimed_at, row.claimed_by, row.state = tx.now, self.client, "claimed"
        approval_rows.update_approval(row.id, claimed_at=tx.now, claimed_by=self.client, state="claimed")
        if row.asked:
            tx.record(memory, f.ApprovalChanged(card.call_id, "claimed", id=row.id, at=tx.now), card)
        else:
            tx.record(memory, f.PermitChanged(card.call_id, "claimed", row.id, tx.now), card)
        self.answer = _build_claim(memory, row, memory.board.cards[card.ordinal])

    def _is_repeated(self, row: Approval, card: Card) -> bool:
        """Return whether the same client repeats its claim while the call runs (its answer got lost)."""
        return bool(self.client) and row.claimed_by == self.client and card.running and self._names_call(row, card)

    def _check_usable(self, row: Approval, card: Card, working: float) -> None:
        """Raise TooLate unless the permit is unused and its call is still waiting for it."""
        if row.claimed_at:
            raise TooLate("This permit was already used.", code="used")
        if row.state != "approved":
            code = {"expired": "expired", "cancelled": "run_ended"}.get(row.state, "revoked")
            raise TooLate(f"This permit is {row.state}.", code=code)
        if row.permit_expires_at and row.permit_expires_at <= working:
            raise TooLate("This permit has expired.", code="expired")
        if card.finished or card.preliminary or card.removed or not _is_current(row, card):
            raise TooLate("The call has ended or was replaced, so its permit is void.", code="run_ended")
        if row.key_id and not AgentKey.objects.live().filter(pk=row.key_id).exists():
            raise TooLate("The key that requested this permit was revoked.", code="revoked")

    def _check_bound(self, row: Approval, card: Card) -> None:
        """Raise CallChanged unless the claim names exactly the call that was allowed."""
        if not self._names_call(row, card):
            raise CallChanged("The permit is for another call, tool or input.", code="args_mismatch")
        if row.schema_sha256 and self.body.get("schema_sha256") != row.schema_sha256:
            raise CallChanged("The tool's schema is not the one that was allowed.", code="schema_changed")
        if digest_input(card) != row.args_sha256:
            raise CallChanged("The call is not the one that was allowed.", code="integrity")

    def _names_call(self, row: Approval, card: Card) -> bool:
        body = self.body
        expected_fields = {
            "call_id": card.call_id, "args_sha256": row.args_sha256, "call_sha256": digest_call(card),
            "attempt": row.attempt, "tool": card.tool.name, "tool_source": card.tool.source,
        }  # fmt: skip
        claims = {name: body.get(name) for name in expected_fields if body.get(name) is not None}
        return {"call_id", "args_sha256"} <= claims.keys() and all(
            claims[name] == expected_fields[name] for name in claims
        )


def _is_current(row: Approval, card: Card) -> bool:
    """Return whether the card's approval or permit is still this row."""
    if row.asked:
        return card.approval is not None and card.approval.id == row.id and card.approval.state == "approved"
    return card.permit is not None and card.permit.id == row.id and card.permit.state == "issued"


def _build_claim(memory: RunMemory, row: Approval, card: Card) -> dict[str, Any]:
    """Return what the agent may run now: the frozen call."""
    return {
        "permit": row.permit, "run": memory.row.name, "call_id": card.call_id, "attempt": row.attempt,
        "state": "claimed", "args_sha256": row.args_sha256, "call_sha256": digest_call(card),
        "tool": {"name": card.tool.name, "source": card.tool.source}, "args": card.input,
    }  # fmt: skip


def build_permit_columns(row: Approval, working: float) -> dict[str, Any]:
    """Return the permit columns of a row approved at that working time.

    Over HTTP the agent claims a permit. On other channels the delivered decision is the permit, claimed on delivery.
    An approval that the agent itself opened has no expiry here.
    """
    columns = {"permit_expires_at": working + settings.TOOLCARDS.handover_seconds + row.use_ttl}
    if row.channel == "http":
        return columns if row.permit else columns | {"permit": generate_permit_id()}
    return columns if row.opener == "gate" else {}


def expire_permit(tx: Transaction, memory: RunMemory, row: Approval, card: Card) -> None:
    """Expire a permit that was not used in time; close its call."""
    approval_rows.update_approval(row.id, state="expired")
    if card.approval and card.approval.id == row.id:
        tx.record(memory, f.ApprovalChanged(card.call_id, "expired", id=row.id, at=tx.now), card)
        tx.record(memory, f.CallClosed(card.call_id, "not-executed", reason=APPROVED_NOT_EXECUTED, at=tx.now), card)
    elif card.permit is not None and card.permit.id == row.id:  # allowed by a rule
        tx.record(memory, f.PermitChanged(card.call_id, "expired", row.id, tx.now), card)
        if not card.finished:
            tx.record(memory, f.CallClosed(card.call_id, "truncated", reason=ALLOWED_NOT_EXECUTED, at=tx.now), card)


def has_expired_unused(row: Approval, working: float) -> bool:
    """Return True if the approval expired unused."""
    return row.state == "approved" and not row.claimed_at and 0 < row.permit_expires_at <= working


def generate_permit_id() -> str:
    """Return a random permit id, a secret that allows one execution."""
    return f"prm_{secrets.token_urlsafe(24)}"


def note_fetch(tx: Transaction, memory: RunMemory, card: Card) -> None:
    """Record that the agent fetches the approval.

    Not while it is held back. Its decision says `allow` only then: no agent has an approval that can be undone.
    """
    ask = card.approval
    if ask is None or ask.state != "approved" or ask.fetched or ask.automatic:
        return
    if not clock.is_recent(ask.decided_at, settings.TOOLCARDS.handover_seconds):
        tx.record(memory, f.ApprovalFetched(card.call_id, id=ask.id, at=tx.now), card)


def build_permit(row: Approval) -> dict[str, Any] | None:
    """Return the permit object of an approved row, None if unavailable."""
    if row.state != "approved" or row.claimed_at or not row.permit:
        return None
    return {"id": row.permit, "expires_at": format_time(clock.to_wall(row.permit_expires_at))}


def build_new_permit(columns: dict[str, Any]) -> dict[str, Any] | None:
    """Return the permit object of a rule's permit.

    `columns` are those of its row. None if the call has ended already.
    """
    if columns["state"] != "approved":
        return None
    return {"id": columns["permit"], "expires_at": format_time(clock.to_wall(columns["permit_expires_at"]))}


def build_decision_with_permit(
    memory: RunMemory, card: Card, *, attempt: int = 1, newest: Approval | None = None, is_claimed: bool = False
) -> dict[str, Any]:
    """Return the call's decision object, with its permit if one is available.

    `newest`: the newest approval of the call, read if it is missing. `is_claimed`: a connection sends it now.
    """
    row = newest or approval_rows.find_newest(memory.row.pk, card.ordinal)
    must_wait = row is not None and not is_claimed and is_kept(row, card)
    decision = build_decision(
        memory,
        card,
        permit=build_permit(row) if row and not must_wait else None,
        attempt=row.attempt if row else attempt,
    )
    if must_wait:
        decision |= {
            "decision": "ask", "reason": {"code": "answer_held", "text": ANSWER_HELD, "suggest": ""},
            "approval": {**decision["approval"], "state": "pending", "have": 0},
        }  # fmt: skip
    if card.repair == "edited" and decision["decision"] == "allow":
        decision["args"] = card.input
    return decision


def is_kept(row: Approval, card: Card) -> bool:
    """Return whether the approval is kept from the agent."""
    if row.state != "approved" or row.claimed_at or not row.asked or row.delivered_at is not None:
        return False
    return not (card.approval is not None and card.approval.id == row.id and card.approval.fetched)
