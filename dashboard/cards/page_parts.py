"""Named parts of a page, which a push puts in their places, and what a page already shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dashboard.cards import rendering
from dashboard.cards.rendering import CardForm
from toolcards.models import ToolCall

MAX_PARTS = 400  # of one watcher; beyond, it is sent its whole boards instead
_CALL_STATE = re.compile(r"([0-9]{1,18}-[0-9]{1,9})\.([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PageState:
    """What a page showed when it was drawn.

    `seq`: the position of its run; `calls`: that of each call, by public id, on a page with calls of several runs.
    """

    seq: int = 0
    calls: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read_calls(cls, text: str) -> PageState:
        """Read what `write_calls` wrote, and leave out what is broken."""
        matches = (_CALL_STATE.fullmatch(part) for part in text.split("_")[:MAX_PARTS])
        return cls(calls={match[1]: int(match[2]) for match in matches if match})

    @staticmethod
    def write_calls(calls: Iterable[ToolCall]) -> str:
        """Return the calls and their positions for an address."""
        return "_".join(f"{call.public_id}.{call.seq}" for call in calls)


NEW_PAGE = PageState()  # without anything yet


def build_part(target: str, swap: str, html: str) -> str:
    """Return one part: what to put where."""
    return f'<hx-partial hx-target="{target}" hx-swap="{swap}">{html}</hx-partial>'


def place_card(call: ToolCall, form: CardForm = CardForm.CARD, *, known_only: bool = False) -> str:
    """Return the part that puts a call on a board.

    `known_only`: only on pages that have the call already.
    """
    if call.removed:
        return build_part("#board", "place", rendering.render_removal(call))
    return build_part("#board", "renew" if known_only else "place", rendering.render(call, form))
