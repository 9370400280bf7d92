"""Settles calls that wait for the answer to their twin, once it has one: an approval runs one call.

| The twin | What becomes of those that wait |
|---|---|
| denied by a person | denied by that person, all |
| approved, and its own agent leaves it unused for `GRACE` seconds | the newest has the approval, in its place |
| used, expired, withdrawn, denied by policy | the oldest is judged again, and is the question now |

The others wait for the one that is the question, or has the approval, from then on. Nothing runs twice: an approval
moves in one transaction that locks both runs, which ends the call that had it and voids its permit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from django.conf import settings

from toolcards.client.common.canonical_json import digest
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import EDITED, Card
from toolcards.gate.approvals.permits import build_permit_columns, has_expired_unused
from toolcards.gate.approvals.reevaluation import reevaluate
from toolcards.gate.decisions.eligibility import find_eligible_voters, load_terms
from toolcards.gate.questions.reviews import describe_review, find_reviewer, open_review
from toolcards.gate.writer import approval_rows
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import AgentKey, Approval

GRACE = 2.0  # seconds after an approval in which only the agent that asked first can use it
USED_BY_TWIN = "The same call, asked again, has used this approval."


class _Call(NamedTuple):
    row: Approval
    memory: RunMemory

    @property
    def card(self) -> Card:
        return approval_rows.get_card(self.memory, self.row)


def find_settled_twins() -> list[str]:
    """Return the approvals without a question that calls wait for."""
    twins = set(Approval.objects.attached().values_list("twin", flat=True)[:500])
    return sorted(twins - set(Approval.objects.filter(id__in=twins, state="pending").values_list("id", flat=True)))


class SettleTwins(Command):
    """Settle the calls that wait for the answer to this approval, if it has one."""

    def __init__(self, approval: str) -> None:
        super().__init__()
        self.approval = approval

    def list_approvals(self) -> Iterable[str]:
        """See group_commit.Work."""
        return [self.approval, *self._find_attached().values_list("id", flat=True)]

    def _find_attached(self) -> Any:
        return Approval.objects.attached().filter(twin=self.approval)

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = approval_rows.load_approval(self.approval)
        if row is not None and row.state == "pending":
            return
        rows = [_Call(each, tx.load_run(each.run_id)) for each in self._find_attached().select_for_update()]
        waiting = [call for call in rows if approval_rows.is_open_on(call.card, call.row)]
        if not waiting:
            return
        twin = _Call(row, tx.load_run(row.run_id)) if row is not None else None
        if twin is not None and twin.row.state == "approved":
            if _is_free(tx, twin):
                _hand_over(tx, twin, waiting[-1])
                _attach(tx, waiting[:-1], waiting[-1].row.id)
        elif twin is not None and _is_denied_by_person(twin):
            for call in waiting:
                _deny(tx, twin, call)
        else:
            _ask(tx, waiting[0])
            _attach(tx, waiting[1:], waiting[0].row.id)


def _is_free(tx: Transaction, twin: _Call) -> bool:
    """Return whether the agent that asked first has had its time and cannot have begun the call."""
    row, card = twin.row, twin.card
    ask = card.approval
    if ask is None or ask.id != row.id or not card.awaits_delivery or row.claimed_at or row.delivered_at is not None:
        return False
    if row.channel != "http" and (ask.fetched or row.held_until > tx.working):  # on its way, which counts as used
        return False
    pause = GRACE + settings.TOOLCARDS.handover_seconds
    if ask.escalated or has_expired_unused(row, tx.working) or clock.is_recent(row.decided_at, pause):
        return False
    if ask.by is None or (ask.by.kind == "human" and not _is_carried(row)):
        return False
    return not row.key_id or AgentKey.objects.live().filter(pk=row.key_id).exists()


def _is_carried(row: Approval) -> bool:
    """Return whether enough of the people who approved may still vote."""
    terms = load_terms(row)
    approving = {person for person, vote in approval_rows.list_decisions(row.id).items() if vote != "deny"}
    return len(approving & find_eligible_voters(terms, approval_rows.get_owner(row.run_id))) >= terms.quorum


def _is_denied_by_person(twin: _Call) -> bool:
    ask = twin.card.approval
    is_own = ask is not None and ask.id == twin.row.id and ask.by is not None
    return twin.row.state == "denied" and is_own and ask is not None and ask.by is not None and ask.by.kind == "human"


def _hand_over(tx: Transaction, twin: _Call, call: _Call) -> None:
    """Give the approval to the call; the one that had it ends without having run."""
    had, ask = twin.card, twin.card.approval
    assert ask is not None
    is_edited = had.repair == EDITED
    value = had.input if is_edited else None
    columns = build_permit_columns(call.row, tx.working)
    if twin.row.permit_expires_at:
        columns["permit_expires_at"] = min(columns["permit_expires_at"], twin.row.permit_expires_at)
    tx.record(twin.memory, f.CallClosed(had.call_id, "changed", reason=USED_BY_TWIN, at=tx.now), had)
    tx.approval_columns[call.row.id] = columns
    answer = f.ApprovalAnswered(
        call.card.call_id, True, id=call.row.id, reason=ask.reason, by=ask.by or f.Actor("gate"), input=value,
        has_input=is_edited, args_sha256=digest(value) if is_edited else "", at=tx.now,
    )  # fmt: skip
    tx.record(call.memory, answer, call.card)


def _deny(tx: Transaction, twin: _Call, call: _Call) -> None:
    ask = twin.card.approval
    assert ask is not None and ask.by is not None
    answer = f.ApprovalAnswered(call.card.call_id, False, id=call.row.id, reason=ask.reason, by=ask.by, at=tx.now)
    tx.record(call.memory, answer, call.card)


def _ask(tx: Transaction, call: _Call) -> None:
    """Make the call's own question the one that people see, unless policy answers it meanwhile.

    It has its whole time again, but for a hook, whose request ends when it ends, and a review of its own.
    """
    if reevaluate(tx, call.memory, call.row, call.card) != "left":
        return
    row, expires_at = call.row, call.row.expires_at
    if row.channel != "hook" and expires_at:
        tx.approval_columns[row.id] = {"clock_offset": clock.offset()}
        expires_at = tx.now + expires_at - row.requested_at
    reviewer = find_reviewer(call.card, load_terms(row))
    fact = _reopen(tx, call, expires_at=expires_at, review=describe_review(reviewer, tx.now))
    if reviewer is not None:
        open_review(tx, call.memory, call.card, fact, reviewer)


def _attach(tx: Transaction, calls: list[_Call], twin: str) -> None:
    for call in calls:
        _reopen(tx, call, twin=twin, expires_at=call.row.expires_at)


def _reopen(
    tx: Transaction, call: _Call, *, expires_at: float, twin: str = "", review: dict[str, Any] | None = None
) -> f.ApprovalRequested:
    card = call.card
    ask = card.approval
    assert ask is not None
    fact = f.ApprovalRequested(
        card.call_id, id=ask.id, reason=ask.request_reason, opener="gate", expires_at=expires_at, votable=ask.votable,
        args_sha256=ask.args_sha256, terms=ask.terms | (review or {}), twin=twin, at=tx.now,
    )  # fmt: skip
    tx.record(call.memory, fact, card)
    return fact
