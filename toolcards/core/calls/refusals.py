"""Calls that the agent's own reviewer refused, and which of them may be tried again."""

from __future__ import annotations

from toolcards.core.calls.card import Card, ToolCallState

_HOSTS = frozenset({"Claude Code"})  # report a refusal, and run the same call later without asking their reviewer


def is_refused(card: Card) -> bool:
    """Return whether the reviewer of the agent's program refused the call."""
    actor = card.denied_by
    is_host = actor is not None and actor.kind == "host" and actor.name in _HOSTS
    return card.state is ToolCallState.OUTPUT_DENIED and is_host


def is_retryable(card: Card) -> bool:
    """Return whether a person may let the refused call try again.

    Nothing else denied it, and it is unanswered.
    """
    is_denied_here = card.decision is not None and card.decision.effect == "deny"
    return is_refused(card) and not (card.retry or card.removed or is_denied_here) and card.has_input
