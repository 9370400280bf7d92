"""How a call got or missed its permission, and which refusals of the agent's own reviewer may be tried again."""

from __future__ import annotations

from typing import NamedTuple

from toolcards.core.calls.card import Card, ToolCallState

DAY_SECONDS = 86_400
WORDS = ("allowed", "denied", "refused", "asked")


class Permission(NamedTuple):
    """The word for a call, and the day of the call (days since 1970, UTC)."""

    day: int
    word: str


def find_permission(card: Card) -> Permission | None:
    """Return the permission of a decided call.

    A call that a person was asked about is `asked`, whatever the answer; one that the agent's own reviewer refused is
    `refused`.
    """
    ask, decision = card.approval, card.decision
    if card.removed:
        return None
    if ask is not None and not (ask.automatic or ask.twin):
        word = "asked"
    elif is_refused(card):
        word = "refused"
    elif decision is not None:
        word = "denied" if decision.effect == "deny" else "allowed"
    else:
        return None
    return Permission(int((card.times.available or card.times.started or card.times.finished) // DAY_SECONDS), word)


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
