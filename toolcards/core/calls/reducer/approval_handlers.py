"""Apply decisions, permits, approvals and votes to a card."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toolcards.client.common.tool_results import add_request
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import BY_SOURCE, EDITED, Card, CardApproval, CardDecision, CardPermit, ToolCallState

S = ToolCallState
_MAX_FORMER_IDS = 8


def record_decision(card: Card, fact: f.PolicyDecided) -> Card:
    """Record the policy decision."""
    decision = CardDecision(
        effect=fact.effect, code=fact.code, reason=fact.reason, rule=fact.rule, version=fact.version, by=fact.by,
        suggest=fact.suggest, would=tuple(fact.would), args_sha256=fact.args_sha256,
        schema_sha256=fact.schema_sha256, known=fact.known, changed=fact.changed, moment=fact.moment,
    )  # fmt: skip
    return card if decision == card.decision else card.replace(decision=decision)


def change_permit(card: Card, fact: f.PermitChanged) -> Card:
    """Issue the permit or change its state; a used permit never returns."""
    permit = card.permit
    if fact.state == "issued":
        may_issue = not card.finished and (permit is None or permit.id != fact.id)
        return card.replace(permit=CardPermit(fact.id)) if may_issue else card
    if permit is None or permit.id != fact.id or fact.state not in _PERMIT_MOVES.get(permit.state, ()):
        return card
    return card.replace(permit=replace(permit, state=fact.state))


_PERMIT_MOVES = {
    "issued": ("claimed", "void", "expired", "revoked", "superseded"),
    "claimed": ("succeeded", "failed", "unknown"),
    "unknown": ("succeeded", "failed"),
}


def void_permit(card: Card) -> Card:
    """Void the permit of a call that ended or ran without it."""
    permit, approval = card.permit, card.approval
    if permit is not None and permit.state == "issued":
        card = card.replace(permit=replace(permit, state="void"))
    if approval is not None and approval.opener == "gate" and approval.state == "approved":
        card = card.replace(approval=replace(approval, state="cancelled"))
    return card


def open_approval(card: Card, fact: f.ApprovalRequested) -> Card:
    """Open the approval.

    An approval of the agent never replaces one of the gate.
    """
    approval = card.approval
    if approval and card.state in (S.APPROVAL_REQUESTED, S.APPROVAL_RESPONDED):
        if approval.opener == "gate" and fact.opener == "agent":
            return card
        if card.state is S.APPROVAL_REQUESTED and _is_same_approval(approval, fact) and approval.twin == fact.twin:
            return card
    if card.state is None and fact.tool:
        card = card.replace(tool=replace(card.tool, name=fact.tool, kind=fact.kind or card.tool.kind))
    card = add_requested_input(card, fact)
    if _is_second_request(card, fact):
        card = card.with_anomaly("protocol-violation", fact.at)
    times = replace(card.times, started=card.times.started or fact.at, requested=fact.at, decided=0.0, finished=0.0)
    return card.replace(
        state=S.APPROVAL_REQUESTED, soft=False, cause=None, error=None, awaiting_client=False, resumed=False,
        approval=_build_approval(fact), times=times,
    )  # fmt: skip


def add_requested_input(card: Card, fact: f.ApprovalRequested) -> Card:
    """Return the card with the input that its request shows.

    An input that policy decided about stays.
    """
    if fact.input is None or (card.has_input and card.decision is not None):
        return card
    call_input = add_request(card.input, fact.input) if card.has_input else fact.input
    return card if card.has_input and call_input is card.input else card.replace(input=call_input, has_input=True)


def list_former_ids(card: Card, fact: f.ApprovalRequested) -> list[str]:
    """Return the wire's ids of the requests that this one replaces."""
    approval = card.approval
    if approval is None or _is_same_approval(approval, fact) or not _is_second_request(card, fact):
        return []
    return [*approval.former_ids, approval.source_id][-_MAX_FORMER_IDS:]


def _is_second_request(card: Card, fact: f.ApprovalRequested) -> bool:
    """Return whether the agent asks again, under another id, before the answer."""
    approval = card.approval
    is_open = approval is not None and approval.state == "pending" and card.state is S.APPROVAL_REQUESTED
    return is_open and approval is not None and approval.opener == fact.opener == "agent" and bool(approval.source_id)


def pause_run(card: Card, fact: f.CallClosed) -> Card:
    """Note that the run ended to wait for the answer."""
    approval = card.approval
    if approval is None or approval.opener != "agent" or approval.outlasts_run:
        return card
    return card.replace(approval=replace(approval, outlasts_run=True))


def open_another_approval(card: Card, fact: f.ApprovalRequested) -> Card:
    """Open another approval after an answer; a repeated request is an anomaly."""
    if card.approval and _is_same_approval(card.approval, fact):
        return card.with_anomaly("protocol-violation", fact.at)
    return open_approval(card, fact)


def apply_answer(card: Card, fact: f.ApprovalAnswered) -> Card:
    """Apply the first answer; only the gate answers its own approvals."""
    approval = card.approval or CardApproval()
    if (approval.opener == "gate" and fact.by.kind == "host") or _is_other_approval(approval, fact):
        return card.with_anomaly("late-response", fact.at)
    state = "approved" if fact.approved else "denied"
    votes = approval.terms.get("need", 1) if fact.approved else approval.have
    answer = replace(approval, state=state, decided_at=fact.at, by=fact.by, reason=fact.reason, have=votes, twin="")
    if fact.has_input and fact.args_sha256:
        answer = replace(answer, args_sha256=fact.args_sha256)
    if fact.lasting_rule:
        answer = replace(answer, lasting_rule=fact.lasting_rule, policy_version=fact.policy_version)
    times = replace(card.times, decided=fact.at)
    if not fact.approved:
        return card.replace(
            state=S.OUTPUT_DENIED, approval=answer, denied=fact.reason, denied_by=fact.by, segment=None,
            times=replace(times, finished=fact.at),
        )  # fmt: skip
    if fact.has_input:
        was_repaired = card.repair not in {"", BY_SOURCE}  # changes by the source itself required no approval
        card = card.replace(
            first_input=card.original_input if was_repaired else None, original_input=card.shown_input,
            original_tool=card.original_tool if was_repaired else "", input=fact.input, has_input=True, repair=EDITED,
        )  # fmt: skip
    return card.replace(state=S.APPROVAL_RESPONDED, approval=answer, times=times)


def is_repeat(card: Card, fact: f.AnyFact) -> bool:
    """Return whether an agent's stream repeats its own request or answer.

    Replayed streams do, and clients that pass our answer to their agent.
    """
    approval = card.approval
    if approval is None or approval.opener != "agent" or not approval.source_id:
        return False
    if isinstance(fact, f.ApprovalRequested):
        return _is_same_approval(approval, fact)
    if not isinstance(fact, f.ApprovalAnswered) or fact.source_id != approval.source_id:
        return False
    if approval.inferred:
        return False
    return fact.by in (approval.by, f.Actor("host")) and fact.approved is _ANSWER_BY_STATE.get(approval.state)


_ANSWER_BY_STATE = {"denied": False} | dict.fromkeys(("approved", "claimed", "succeeded", "failed", "unknown"), True)


def count_vote(card: Card, fact: f.VoteCounted) -> Card:
    """Record the number of approving votes; later votes are about an edit."""
    approval = card.approval
    if approval is None or (fact.id and fact.id != approval.id):
        return card
    updated_approval = replace(approval, have=fact.have)
    if fact.has_edited:
        sha256 = fact.args_sha256 or approval.args_sha256
        updated_approval = replace(
            updated_approval, edited=fact.edited, has_edited=True, edited_by=fact.by.name, args_sha256=sha256
        )
    return card if updated_approval == approval else card.replace(approval=updated_approval)


def change_approval_input(card: Card, fact: f.ApprovalInputChanged) -> Card:
    """Bind the approval to another input; votes name its digest."""
    approval = card.approval
    if approval is None or approval.state != "pending" or approval.id != fact.id:
        return card
    return card.replace(approval=replace(approval, args_sha256=fact.args_sha256))


def add_escalation(card: Card, fact: f.ApprovalEscalated) -> Card:
    """Add people and groups that may vote, without duplicates."""
    approval = card.approval
    if approval is None or (fact.id and fact.id != approval.id):
        return card
    new_escalations = tuple((to, fact.at) for to in fact.to if to not in {name for name, _ in approval.escalated})
    return (
        card.replace(approval=replace(approval, escalated=(*approval.escalated, *new_escalations)))
        if new_escalations
        else card
    )


def add_review(card: Card, fact: f.CallReviewed) -> Card:
    """Keep the reviewer's answer, once for each approval."""
    approval = card.approval
    if approval is None or approval.review is not None or (fact.id and fact.id != approval.id):
        return card
    review = {
        "by": fact.by.name, "answer": fact.answer, "reason": fact.reason, "note": fact.note,
        "prompt_sha256": fact.prompt_sha256,
    }  # fmt: skip
    return card.replace(approval=replace(approval, review=review))


def set_agent_away(card: Card, fact: f.AgentPresenceChanged) -> Card:
    """Record whether the agent is disconnected.

    The approval and pending votes stay valid.
    """
    approval = card.approval
    if approval is None or approval.away is fact.away:
        return card
    return card.replace(approval=replace(approval, away=fact.away))


def change_approval_state(card: Card, fact: f.ApprovalChanged) -> Card:
    """Change the state of an answered approval.

    Facts about older approvals are ignored.
    """
    approval = card.approval
    if approval is None or approval.state == fact.state or (fact.id and approval.id and fact.id != approval.id):
        return card
    return card.replace(approval=replace(approval, state=fact.state))


def mark_fetched(card: Card, fact: f.ApprovalFetched) -> Card:
    """Record that the agent knows that the call was approved."""
    approval = card.approval
    if approval is None or approval.fetched or approval.state != "approved" or fact.id not in ("", approval.id):
        return card
    return card.replace(approval=replace(approval, fetched=True))


def expire_approval(card: Card, fact: f.CallClosed) -> Card:
    """Deny the call because the approval expired."""
    actor = f.Actor("timeout")
    approval = replace(card.approval or CardApproval(), state="expired", decided_at=fact.at, by=actor)
    times = replace(card.times, decided=fact.at, finished=fact.at)
    return card.replace(
        state=S.OUTPUT_DENIED, approval=approval, denied=fact.reason, denied_by=actor, segment=None, times=times
    )


def _build_approval(fact: f.ApprovalRequested) -> CardApproval:
    return CardApproval(
        id=fact.id, source_id=fact.source_id, opener=fact.opener, automatic=fact.automatic,
        request_reason=fact.reason, requested_at=fact.at, expires_at=fact.expires_at, reply_to=fact.reply_to,
        votable=fact.votable, args_sha256=fact.args_sha256, terms=fact.terms, twin=fact.twin,
        former_ids=tuple(fact.former_ids),
    )  # fmt: skip


def _is_same_approval(approval: CardApproval, fact: f.ApprovalRequested) -> bool:
    """Compare by the wire's id, else by ours; requests of an agent without an id are the same."""
    if approval.opener != fact.opener:
        return False
    if fact.source_id or approval.source_id:
        return fact.source_id == approval.source_id
    return fact.opener == "agent" or fact.id == approval.id


def _is_other_approval(approval: CardApproval, fact: Any) -> bool:
    if fact.source_id and approval.source_id and fact.source_id not in (approval.source_id, approval.id):
        return True
    return bool(fact.id) and bool(approval.id) and fact.id != approval.id
