"""The end of a run: what it does to each open card."""

from __future__ import annotations

from dataclasses import replace

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.calls.reducer.input_handlers import read_streamed_input
from toolcards.core.runs.run_context import RunContext

S = ToolCallState
MOVED_ON = "The conversation continued, and no result was reported."


def explain_end(fact: f.RunEnded, context: RunContext) -> f.RunEnded:
    """Return the end with the earlier error as reason.

    This applies if the stream broke off (rule 17).
    """
    if fact.outcome != "truncated" or not context.error or fact.lane:
        return fact
    return f.RunEnded(
        outcome="error", reason=context.error, scope=fact.scope, close_open_input=fact.close_open_input,
        away=fact.away, at=fact.at,
    )  # fmt: skip


def mark_failed(fact: f.RunEnded, context: RunContext) -> f.RunEnded:
    """Return the end, as a failure after an error without tools."""
    if fact.outcome != "not-executed" or not context.error or fact.lane:
        return fact
    return replace(fact, outcome="error", reason=context.error)


def is_repeated_end(fact: f.RunEnded, context: RunContext) -> bool:
    """Return whether this end has no effect, because the run has ended.

    After an error, that is another error, and the regular end that some servers send in any case.
    """
    if fact.lane or not context.ended:
        return False
    is_same_run = fact.outcome == "error" or (fact.scope == context.scope != "" and fact.scope not in context.scopes)
    return fact.again or (context.ended == "error" and is_same_run)


def ends_nothing(fact: f.AnyFact) -> bool:
    """Return whether a fact alone begins no run: a good end."""
    if isinstance(fact, f.RunEnded):
        return fact.outcome in {"ok", "unreported"}
    return isinstance(fact, (f.CallClosed, f.StepFinished))


def ends_run(fact: f.RunEnded, context: RunContext) -> bool:
    """Return whether this is the end of the run itself.

    A sub-agent, or a scope that is not the current one, ends a part of it; a repeated end ends nothing.
    """
    if fact.lane or is_repeated_end(fact, context):
        return False
    return fact.scope in {"", context.scope} or (fact.or_current and fact.scope not in context.scopes)


def ends_card(card: Card, fact: f.RunEnded, context: RunContext) -> bool:
    """Return whether the run's end ends the card.

    The card has the same lane or scope, or the run inherited it.
    """
    if card.soft or (fact.away and card.outlives_agent):
        return False
    if fact.lane:
        return card.lane == fact.lane
    if card.scope == (fact.scope or context.scope):
        return True
    # a run that took over what an interrupted one left running ends that too
    is_inherited = card.scope not in context.scopes and not card.awaiting_client
    return is_inherited and card.state is not S.APPROVAL_REQUESTED


def is_agents_question(card: Card) -> bool:
    """Return whether the agent itself asks, and no one has answered."""
    return card.state is S.APPROVAL_REQUESTED and card.approval is not None and card.approval.opener == "agent"


def owes_answer(card: Card) -> bool:
    """Return whether the call waits for its app or its user."""
    return (card.awaiting_client and not card.soft) or is_agents_question(card)


def list_end_facts(card: Card, fact: f.RunEnded, context: RunContext) -> list[f.AnyFact]:
    """Return the facts that end an open card."""
    facts: list[f.AnyFact] = []
    # no frame ends the input of a chunked call, so this end does
    is_chunked = card.call_id in (*context.chunked.values(), *context.paused)
    if fact.close_open_input and card.state is S.INPUT_STREAMING and not is_chunked:
        facts.append(f.AnomalyRecorded(card.call_id, "protocol-violation", at=fact.at))
        if read_streamed_input(card)[1]:
            facts.append(f.InputReady(card.call_id, kind=card.tool.kind, at=fact.at))
    reason = fact.reason or (context.error if fact.outcome == "error" else "")
    if fact.outcome == "ok" and _was_passed_over(card):
        return [*facts, f.CallClosed(card.call_id, "superseded", at=fact.at)]
    return [*facts, f.CallClosed(card.call_id, _choose_reason(card, fact, context), reason=reason, at=fact.at)]


def _was_passed_over(card: Card) -> bool:
    """Return whether a later turn of a chat ends, too, without the answer that an earlier one had waited for."""
    is_chat = card.per_step or card.message_id is not None
    return is_chat and is_agents_question(card) and card.approval is not None and card.approval.outlasts_run


def _choose_reason(card: Card, fact: f.RunEnded, context: RunContext) -> f.CloseReason:
    """Return the run's outcome, or the end of an approval of the gate."""
    is_left_to_app = not context.ended and fact.outcome != "aborted"  # by the call itself, before the run ended
    if card.awaiting_client and (is_left_to_app or fact.outcome in {"ok", "interrupt"}):
        return "deferred"
    if card.approval and card.approval.opener == "gate":
        if card.state is S.APPROVAL_REQUESTED:
            return "cancelled"
        is_unclaimed = card.approval.state == "approved" and fact.outcome == "unreported"
        if card.state is S.APPROVAL_RESPONDED and (is_unclaimed or fact.outcome in {"ok", "interrupt"}):
            return "not-executed"
    elif card.unclaimed and fact.outcome in {"ok", "interrupt", "unreported"}:
        return "not-executed"
    return fact.outcome
