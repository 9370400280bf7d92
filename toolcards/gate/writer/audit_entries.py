"""Audit entries of the gate's work: decisions, approvals, claims, and ungoverned calls.

`Transaction.record`, which every fact passes, calls this module. Acts without a fact (votes, new policies, keys) are
written by their own code. Each entry is committed together with its act.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from django.db import connection

from toolcards.audit import trail
from toolcards.audit.trail import Act
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, CardApproval
from toolcards.core.calls.identity import WORDS
from toolcards.gate.writer.cache.run_memory import RunMemory

write = trail.write_acts

# An approval's new state -> the act. States that report the tool's outcome are not acts of the gate.
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
    """Return the acts that the fact adds to the trail."""
    acts = []
    if type(fact) is f.PolicyDecided:
        acts.append(_build_decision_act(memory, fact, card))
    elif type(fact) is f.AnomalyRecorded and fact.code == "ungoverned":
        acts.append(build_call_act(memory, card, "ungoverned", "agent", memory.row.source.name, fact.at))
    elif type(fact) is f.ApprovalEscalated and card.approval:
        acts.append(
            build_call_act(memory, card, "approval.escalated", "timeout", "", fact.at, card.approval.id, to=fact.to)
        )
    previous = before.approval if before else None
    if card.approval is not previous:
        acts += _build_approval_acts(memory, fact, card, previous, card.approval)
    return acts


def build_permit_acts(memory: RunMemory, fact: f.AnyFact, card: Card) -> list[Act]:
    """Return the act for the new state of a rule's permit."""
    permit = card.permit
    if permit is None or permit.state not in _PERMIT_ACTS:
        return []
    act, kind = _PERMIT_ACTS[permit.state]
    name = memory.row.source.name if kind == "agent" else ""
    return [build_call_act(memory, card, act, kind, name, fact.at, permit.id)]


_PERMIT_ACTS = {
    "claimed": ("claim", "agent"),
    "void": ("permit.cancelled", "gate"),
    "expired": ("permit.expired", "timeout"),
    "revoked": ("permit.revoked", "gate"),
}


def build_call_act(
    memory: RunMemory, card: Card, act: str, kind: str, name: str, timestamp: float, approval: str = "", **detail: Any
) -> Act:
    """Return an act on a call. Empty details are left out."""
    return Act(
        act,
        kind,
        name,
        run=memory.row.name,
        call=f"{memory.row.pk}-{card.ordinal}",
        approval=approval,
        detail={"call_id": card.call_id, "tool": card.tool.name}
        | {key: value for key, value in detail.items() if value},
        at=timestamp,
    )


def _build_decision_act(memory: RunMemory, fact: f.PolicyDecided, card: Card) -> Act:
    return build_call_act(
        memory, card, "decision", fact.by.kind, fact.by.name, fact.at, "", effect=fact.effect, code=fact.code,
        reason=fact.reason, rule=fact.rule, version=fact.version, args_sha256=fact.args_sha256,
        source=memory.row.source.name,
    )  # fmt: skip


def _build_approval_acts(
    memory: RunMemory, fact: f.AnyFact, card: Card, previous: CardApproval | None, current: CardApproval | None
) -> list[Act]:
    acts = []
    if previous and current and previous.id != current.id and previous.state == "pending":
        acts.append(
            build_call_act(
                memory, card, "approval.superseded", "gate", "", fact.at, previous.id, by_approval=current.id
            )
        )
    is_same = previous is not None and current is not None and previous.id == current.id
    if current and current.state in _APPROVAL_ACTS and not (is_same and previous and previous.state == current.state):
        actor = _find_actor(memory, fact, current)
        detail = {"reason": current.reason or getattr(fact, "reason", ""), "args_sha256": current.args_sha256}
        detail |= {"twin": previous.twin} if previous and previous.twin else {}  # whose answer it is
        acts.append(
            build_call_act(
                memory, card, _APPROVAL_ACTS[current.state], actor.kind, actor.name, fact.at, current.id, **detail
            )
        )
    return acts


def _find_actor(memory: RunMemory, fact: f.AnyFact, ask: CardApproval) -> f.Actor:
    """Return the actor named by the fact or the approval; otherwise the time limit or the gate."""
    if isinstance(fact, f.ApprovalChanged) and ask.state == "expired":  # an approval that was not used in time
        return f.Actor("timeout")
    if ask.state == "claimed":
        return f.Actor("agent", memory.row.source.name)
    if ask.state == "revoked":  # the act before this one names the person
        return f.Actor("gate")
    actor = getattr(fact, "by", None) or ask.by
    if actor is not None:
        return actor
    return f.Actor("timeout") if ask.state == "expired" else f.Actor("gate")


# How many calls of each source were allowed, denied, refused or asked about on each day.
#
# They are counted with the calls, in the same transaction, so that a page reads one row instead of all calls.
DayCount = tuple[int, int, str]  # the source, the day and the word (core/calls/permissions.py)
_ADD = (
    f"INSERT INTO toolcards_sourceday AS ours (source, day, {', '.join(WORDS)})"  # noqa: S608 - names of this code
    f" VALUES (%s, %s, {', '.join(['%s'] * len(WORDS))}) ON CONFLICT (source, day) DO UPDATE SET "
    + ", ".join(f"{word} = ours.{word} + excluded.{word}" for word in WORDS)
)


def add_day_counts(counts: Mapping[DayCount, int]) -> None:
    """Add to the stored counts, in the order of all writers."""
    rows: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    for (source, day, word), count in counts.items():
        if count:
            rows[source, day][word] = count
    if rows:
        with connection.cursor() as cursor:
            for key in sorted(rows):
                cursor.execute(_ADD, [*key, *[rows[key].get(word, 0) for word in WORDS]])
