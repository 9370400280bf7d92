"""Named parts of a page, which a push puts in their places, and what a page already shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape

from dashboard.cards import rendering
from dashboard.cards.payloads.excerpts import TAIL_CHARACTERS
from dashboard.cards.rendering import CardForm
from dashboard.cards.safe_text import mark_html, mark_text
from toolcards.core.calls.card import Card
from toolcards.models import ToolCall

MAX_PARTS = 400  # of one watcher; beyond, it is sent its whole boards instead
PIECE_MARK = "+"  # in the name of a part, between the name of its card and the position of the piece
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


def place_piece(call: ToolCall, before: Card, card: Card) -> str:
    """Return the part that adds a piece to a card's streaming input.

    "" if more than the text has changed. `before`: what the pages show. A page with another text asks for the card.
    """
    old, text = str(before.text), str(card.text)
    is_growth = old and text.startswith(old) and before.replace(text=card.text, rev=card.rev, seq=card.seq) == card
    if not is_growth or old.endswith("\r") or len(text) - len(old) > TAIL_CHARACTERS:
        return ""
    attributes = (
        f'id="c-{call.public_id}" data-call-id="{escape(mark_text(card.call_id))}" data-state="{card.state}"'
        f' data-rev="{card.rev}" data-seq="{card.seq}" data-from="{len(old)}" data-size="{len(text)}"'
    )
    return build_part("#board", "grow", f"<article {attributes}>{mark_html(text[len(old) :])}</article>")
