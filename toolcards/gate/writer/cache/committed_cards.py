"""The cards of the last commits, for followers in this process: what was just written need not be opened and parsed.

A card is published after its commit and asked for by the version that the database names. So a follower never sees what
may yet be rolled back, and what another process wrote is read from its row.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from toolcards.core.calls.card import Card

MAX_CARDS = 1_000
MAX_SIZE = 20_000  # characters of a card with its text; larger ones are read from their rows
MAX_AGE = 30.0  # seconds; retention may have masked the row of an older one


class CardVersion(NamedTuple):
    """A state of a call that the database has: each commit that changes the call gives it a new one."""

    run_id: int
    ordinal: int
    rev: int
    seq: int


_cards: OrderedDict[tuple[int, int], tuple[float, Card]] = OrderedDict()
_lock = threading.Lock()


def publish(cards: Iterable[tuple[int, Card]]) -> None:
    """Keep these cards, each with its run; call this after their commit."""
    now = time.monotonic()
    with _lock:
        for run_id, card in cards:
            _cards[run_id, card.ordinal] = now, card
            _cards.move_to_end((run_id, card.ordinal))
        while len(_cards) > MAX_CARDS:
            _cards.popitem(last=False)


def find_committed_card(version: CardVersion) -> Card | None:
    """Return the card of this version.

    None if this process has not written it recently.
    """
    published_at, card = _cards.get((version.run_id, version.ordinal), (0.0, None))
    if card is None or (card.rev, card.seq) != (version.rev, version.seq):
        return None
    return card if time.monotonic() - published_at <= MAX_AGE else None


def clear() -> None:
    """Forget all cards."""
    with _lock:
        _cards.clear()
