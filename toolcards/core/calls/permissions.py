"""How a call got or missed its permission, in one word: what the counts of a day add up."""

from __future__ import annotations

from typing import NamedTuple

from toolcards.core.calls.card import Card
from toolcards.core.calls.refusals import is_refused

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
