"""What the audit trail keeps of the gate's work: decisions, answers, claims, and what ran ungoverned.

Facts are watched where all of them pass (`Transaction.record`), so that no way in can be forgotten. What is
no fact (a vote, a new policy, a key) says so itself. All of it is written with the act, or not at all.
"""

from __future__ import annotations

from typing import Any

from toolcards.audit import trail
from toolcards.audit.trail import Act
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, CardApproval
from toolcards.gate.writer.run_cache import RunMemory

write = trail.write

# An approval's new state, and what the act is called; what comes of the tool itself is no act of ours.
_APPROVAL_ACTS = {
    "approved": "approval.approved",
    "denied": "approval.denied",
    "expired": "approval.expired",
    "cancelled": "approval.cancelled",
    "superseded": "approval.superseded",
    "revoked": "approval.revoked",
    "claimed": "claim",
}


def build_acts(memory: RunMemory, fact: f.AnyFact, before: Card | None, card: Card) -> list[Act]:
    """Return what of the fact belongs into the trail."""
    acts = []
    if type(fact) is f.PolicyDecided:
        acts.append(_build_decision_act(memory, fact, card))
    elif type(fact) is f.AnomalyRecorded and fact.code == "ungoverned":
        acts.append(build_call_act(memory, card, "ungoverned", "agent", memory.row.source.name, fact.at))
    elif type(fact) is f.ApprovalEscalated and card.approval:
        acts.append(
            build_call_act(memory, card, "approval.escalated", "timeout", "", fact.at, card.approval.id, to=fact.to)
        )
    asked = before.approval if before else None
    if card.approval is not asked:
        acts += _build_approval_acts(memory, fact, card, asked, card.approval)
    return acts


def build_permit_acts(memory: RunMemory, fact: f.AnyFact, card: Card) -> list[Act]:
    """Return what became of a rule's permit, as the trail names it."""
    permit = card.permit
    if permit is None or permit.state not in _PERMIT_ACTS:
        return []
    act, by = _PERMIT_ACTS[permit.state]
    name = memory.row.source.name if by == "agent" else ""
    return [build_call_act(memory, card, act, by, name, fact.at, permit.id)]


_PERMIT_ACTS = {
    "claimed": ("claim", "agent"),
    "void": ("permit.cancelled", "gate"),
    "expired": ("permit.expired", "timeout"),
    "revoked": ("permit.revoked", "gate"),
}


def build_call_act(
    memory: RunMemory, card: Card, act: str, kind: str, name: str, at: float, approval: str = "", **detail: Any
) -> Act:
    """Return an act on a call."""
    return Act(
        act,
        kind,
        name,
        run=memory.row.name,
        call=f"{memory.row.pk}-{card.ordinal}",
        approval=approval,
        detail={"call_id": card.call_id, "tool": card.tool.name} | {key: said for key, said in detail.items() if said},
        at=at,
    )


def _build_decision_act(memory: RunMemory, fact: f.PolicyDecided, card: Card) -> Act:
    return build_call_act(
        memory, card, "decision", fact.by.kind, fact.by.name, fact.at, "", effect=fact.effect, code=fact.code,
        reason=fact.reason, rule=fact.rule, version=fact.version, args_sha256=fact.args_sha256,
        source=memory.row.source.name,
    )  # fmt: skip


def _build_approval_acts(
    memory: RunMemory, fact: f.AnyFact, card: Card, asked: CardApproval | None, now: CardApproval | None
) -> list[Act]:
    acts = []
    if asked and now and asked.id != now.id and asked.state == "pending":
        acts.append(
            build_call_act(memory, card, "approval.superseded", "gate", "", fact.at, asked.id, by_approval=now.id)
        )
    same = asked is not None and now is not None and asked.id == now.id
    if now and now.state in _APPROVAL_ACTS and not (same and asked and asked.state == now.state):
        by = _find_actor(memory, fact, now)
        told = {"reason": now.reason or getattr(fact, "reason", ""), "args_sha256": now.args_sha256}
        acts.append(build_call_act(memory, card, _APPROVAL_ACTS[now.state], by.kind, by.name, fact.at, now.id, **told))
    return acts


def _find_actor(memory: RunMemory, fact: f.AnyFact, ask: CardApproval) -> f.Actor:
    """Who did it: as the fact says, else as the approval does, else the run that ended or the clock."""
    if isinstance(fact, f.ApprovalChanged) and ask.state == "expired":  # a yes that nobody used in time
        return f.Actor("timeout")
    if ask.state == "claimed":
        return f.Actor("agent", memory.row.source.name)
    if ask.state == "revoked":  # not by who had approved it; the act before this one says by whom
        return f.Actor("gate")
    said = getattr(fact, "by", None) or ask.by
    if said is not None:
        return said  # type: ignore[no-any-return]
    return f.Actor("timeout") if ask.state == "expired" else f.Actor("gate")
