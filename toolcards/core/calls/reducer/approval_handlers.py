"""What decisions and approvals do to a card: judged, asked, escalated, answered once, moved on, expired."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import BY_SOURCE, EDITED, Card, CardApproval, CardDecision, CardPermit, ToolCallState

S = ToolCallState


def record_decision(card: Card, fact: f.PolicyDecided) -> Card:
    """What policy said, for people to read."""
    verdict = CardDecision(
        effect=fact.effect, code=fact.code, reason=fact.reason, rule=fact.rule, version=fact.version, by=fact.by,
        suggest=fact.suggest, would=tuple(fact.would), args_sha256=fact.args_sha256,
        schema_sha256=fact.schema_sha256, known=fact.known, changed=fact.changed, moment=fact.moment,
    )  # fmt: skip
    return card if verdict == card.decision else card.replace(decision=verdict)


def change_permit(card: Card, fact: f.PermitChanged) -> Card:
    """Issue the right to run the call, or move it on; a right that is gone never comes back."""
    permit = card.permit
    if fact.state == "issued":
        issued = not card.finished and (permit is None or permit.id != fact.id)
        return card.replace(permit=CardPermit(fact.id)) if issued else card
    if permit is None or permit.id != fact.id or fact.state not in _PERMIT_MOVES.get(permit.state, ()):
        return card
    return card.replace(permit=replace(permit, state=fact.state))


_PERMIT_MOVES = {
    "issued": ("claimed", "void", "expired", "revoked", "superseded"),
    "claimed": ("succeeded", "failed", "unknown"),
    "unknown": ("succeeded", "failed"),
}


def void_permit(card: Card) -> Card:
    """Take back the right to run a call that has ended, or has run without it."""
    permit, approval = card.permit, card.approval
    if permit is not None and permit.state == "issued":
        card = card.replace(permit=replace(permit, state="void"))
    if approval is not None and approval.opener == "gate" and approval.state == "approved":
        card = card.replace(approval=replace(approval, state="cancelled"))
    return card


def open_approval(card: Card, fact: f.ApprovalRequested) -> Card:
    """A question is open; the newest one counts, but an agent's never replaces ours."""
    approval = card.approval
    if approval and card.state in (S.APPROVAL_REQUESTED, S.APPROVAL_RESPONDED):
        if approval.opener == "gate" and fact.opener == "agent":
            return card
        if card.state is S.APPROVAL_REQUESTED and _is_same_approval(approval, fact):
            return card
    if card.state is None and fact.tool:
        card = card.replace(tool=replace(card.tool, name=fact.tool, kind=fact.kind or card.tool.kind))
    if fact.input is not None and not card.has_input:
        card = card.replace(input=fact.input, has_input=True)
    times = replace(card.times, started=card.times.started or fact.at, requested=fact.at, decided=0.0, finished=0.0)
    return card.replace(
        state=S.APPROVAL_REQUESTED, soft=False, cause=None, error=None, awaiting_client=False, resumed=False,
        approval=_build_approval(fact), times=times,
    )  # fmt: skip


def open_another_approval(card: Card, fact: f.ApprovalRequested) -> Card:
    """Asked after an answer: only a new question counts."""
    if card.approval and _is_same_approval(card.approval, fact):
        return card.with_anomaly("protocol-violation", fact.at)
    return open_approval(card, fact)


def apply_answer(card: Card, fact: f.ApprovalAnswered) -> Card:
    """The first answer to the open question; nobody but us answers what our gate asked."""
    approval = card.approval or CardApproval()
    if (approval.opener == "gate" and fact.by.kind == "host") or _is_other_approval(approval, fact):
        return card.with_anomaly("late-response", fact.at)
    state = "approved" if fact.approved else "denied"
    votes = approval.terms.get("need", 1) if fact.approved else approval.have
    answer = replace(approval, state=state, decided_at=fact.at, by=fact.by, reason=fact.reason, have=votes)
    if fact.has_input and fact.args_sha256:
        answer = replace(answer, args_sha256=fact.args_sha256)
    times = replace(card.times, decided=fact.at)
    if not fact.approved:
        return card.replace(
            state=S.OUTPUT_DENIED, approval=answer, denied=fact.reason, denied_by=fact.by, segment=None,
            times=replace(times, finished=fact.at),
        )  # fmt: skip
    if fact.has_input:
        was_repaired = card.repair not in {"", BY_SOURCE}  # what its own source changed was never asked about
        card = card.replace(
            first_input=card.original_input if was_repaired else None, original_input=card.shown_input,
            original_tool=card.original_tool if was_repaired else "", input=fact.input, has_input=True, repair=EDITED,
        )  # fmt: skip
    return card.replace(state=S.APPROVAL_RESPONDED, approval=answer, times=times)


def is_repeat(card: Card, fact: f.AnyFact) -> bool:
    """Whether an agent's stream only tells once more what is known: its own question, or the answer that it got.

    A stream that is replayed does, and a client that carries our answer to its agent.
    """
    approval = card.approval
    if approval is None or approval.opener != "agent" or not approval.source_id:
        return False
    if isinstance(fact, f.ApprovalRequested):
        return _is_same_approval(approval, fact)
    if not isinstance(fact, f.ApprovalAnswered) or fact.source_id != approval.source_id:
        return False
    return fact.by in (approval.by, f.Actor("host")) and fact.approved is _ANSWER_BY_STATE.get(approval.state)


_ANSWER_BY_STATE = {"denied": False} | dict.fromkeys(("approved", "claimed", "succeeded", "failed", "unknown"), True)


def count_vote(card: Card, fact: f.VoteCounted) -> Card:
    """A vote towards the number that is needed; an edit is what the next voters vote on."""
    approval = card.approval
    if approval is None or (fact.id and fact.id != approval.id):
        return card
    voted = replace(approval, have=fact.have)
    if fact.has_edited:
        sha256 = fact.args_sha256 or approval.args_sha256
        voted = replace(voted, edited=fact.edited, has_edited=True, edited_by=fact.by.name, args_sha256=sha256)
    return card if voted == approval else card.replace(approval=voted)


def change_approval_input(card: Card, fact: f.ApprovalInputChanged) -> Card:
    """The question is about another input now; votes name its digest."""
    approval = card.approval
    if approval is None or approval.state != "pending" or approval.id != fact.id:
        return card
    return card.replace(approval=replace(approval, args_sha256=fact.args_sha256))


def add_escalation(card: Card, fact: f.ApprovalEscalated) -> Card:
    """More people are asked; those who were told of it before are not told again."""
    approval = card.approval
    if approval is None or (fact.id and fact.id != approval.id):
        return card
    added = tuple((to, fact.at) for to in fact.to if to not in {name for name, _ in approval.escalated})
    return card.replace(approval=replace(approval, escalated=(*approval.escalated, *added))) if added else card


def set_agent_away(card: Card, fact: f.AgentPresenceChanged) -> Card:
    """The agent went away, or is there again; the question stays as it was, and so do votes that are on their way."""
    approval = card.approval
    if approval is None or approval.away is fact.away:
        return card
    return card.replace(approval=replace(approval, away=fact.away))


def change_approval_state(card: Card, fact: f.ApprovalChanged) -> Card:
    """The approval's own life after its answer; news of an older question is ignored."""
    approval = card.approval
    if approval is None or approval.state == fact.state or (fact.id and approval.id and fact.id != approval.id):
        return card
    return card.replace(approval=replace(approval, state=fact.state))


def expire_approval(card: Card, fact: f.CallClosed) -> Card:
    """Nobody answered in time: denied by the clock."""
    by = f.Actor("timeout")
    approval = replace(card.approval or CardApproval(), state="expired", decided_at=fact.at, by=by)
    times = replace(card.times, decided=fact.at, finished=fact.at)
    return card.replace(
        state=S.OUTPUT_DENIED, approval=approval, denied=fact.reason, denied_by=by, segment=None, times=times
    )


def _build_approval(fact: f.ApprovalRequested) -> CardApproval:
    return CardApproval(
        id=fact.id, source_id=fact.source_id, opener=fact.opener, automatic=fact.automatic,
        request_reason=fact.reason, requested_at=fact.at, expires_at=fact.expires_at, reply_to=fact.reply_to,
        votable=fact.votable, args_sha256=fact.args_sha256, terms=fact.terms,
    )  # fmt: skip


def _is_same_approval(approval: CardApproval, fact: f.ApprovalRequested) -> bool:
    """By the wire's id where there is one, else by ours; an agent's nameless question is always the same one."""
    if approval.opener != fact.opener:
        return False
    if fact.source_id or approval.source_id:
        return fact.source_id == approval.source_id
    return fact.opener == "agent" or fact.id == approval.id


def _is_other_approval(approval: CardApproval, fact: Any) -> bool:
    if fact.source_id and approval.source_id and fact.source_id not in (approval.source_id, approval.id):
        return True
    return bool(fact.id) and bool(approval.id) and fact.id != approval.id
