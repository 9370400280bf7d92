"""Renders a call as HTML, once per revision for all readers. Only this module names card templates."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from html import escape

from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard.cards import rendering
from dashboard.cards.card_html import CardHtml, render_card_line
from dashboard.cards.card_view import CardView
from dashboard.cards.lasting_offers import LastingOffer
from dashboard.cards.payloads.excerpts import TAIL_CHARACTERS
from dashboard.cards.plain_card import is_plain, render_plain_card
from dashboard.cards.safe_text import mark_html, mark_text
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.models import ToolCall

CACHE_SIZE = 3_000  # rendered cards in memory
CardKey = tuple[int, int, int, int, "CardForm"]  # run, ordinal, revision, position, and form

# Replaced by the reader's form token; pushed cards are shared and have none.
TOKEN = "<!--token-->"  # noqa: S105 - agents cannot write it: their text is escaped


class CardForm(Enum):
    """How a page shows a call: as a card, as a line on its run's page, or as a line among calls of many runs."""

    CARD = "card"
    LINE = "line"
    LISTED = "listed"


class CardCache:
    """The most recently rendered cards; the oldest are dropped first."""

    def __init__(self, size: int = CACHE_SIZE) -> None:
        self._size = size
        self._html_by_key: OrderedDict[CardKey, str] = OrderedDict()
        self._lock = threading.Lock()
        self.renders = 0

    def get_html(self, call: ToolCall, form: CardForm = CardForm.CARD) -> str:
        """Return the card's HTML, rendered now if this revision is not cached."""
        key = _get_key(call, form)
        with self._lock:
            html = self._html_by_key.get(key)
            if html is not None:
                self._html_by_key.move_to_end(key)
                return html
        html = render_form(call, form)
        # Lets go of the interpreter between two cards: a thread that commits or answers would else wait 5 ms for it at
        # each of its steps, as long as cards are drawn.
        time.sleep(0)
        with self._lock:
            self.renders += 1
            self._html_by_key[key] = html
            if len(self._html_by_key) > self._size:
                self._html_by_key.popitem(last=False)
        return html

    def has_html(self, call: ToolCall, form: CardForm = CardForm.CARD) -> bool:
        """Return whether this revision is cached."""
        return _get_key(call, form) in self._html_by_key

    def clear(self) -> None:
        """Remove all cards (tests)."""
        with self._lock:
            self._html_by_key.clear()


def _get_key(call: ToolCall, form: CardForm) -> CardKey:
    return call.run_id, call.ordinal, call.rev, call.seq, form  # a disconnect does not change the revision


card_cache = CardCache()


def load_for_rendering(calls: list[ToolCall], lines: Container[int] = ()) -> list[ToolCall]:
    """Return the calls; loads encrypted columns only of uncached cards.

    `calls` come without `card` and `text`; `lines` are the ordinals of those that are drawn as one line.
    """
    uncached_calls = [
        call.pk
        for call in calls
        if not (call.removed or card_cache.has_html(call, CardForm.LINE if call.ordinal in lines else CardForm.CARD))
    ]
    whole_calls = ToolCall.objects.in_bulk(uncached_calls)
    return [whole_calls.get(call.pk, call) for call in calls]


def render(call: ToolCall, form: CardForm = CardForm.CARD) -> str:
    """Return the call as it is pushed to all readers.

    `call.run` must be loaded.
    """
    return card_cache.get_html(call, form)


def render_form(call: ToolCall, form: CardForm) -> str:
    """Render the call in this form."""
    if form is CardForm.CARD:
        return render_uncached(call)
    html = CardHtml(call, CardView(call.as_shown_card(), call=call))
    return render_card_line(html, is_listed=form is CardForm.LISTED)


def render_uncached(call: ToolCall, *, full: bool = False, is_masked: bool = True) -> str:
    """Render the card.

    `full` renders whole payloads. Pass `is_masked=False` only for a person who may reveal, and record the act.
    """
    view = CardView(call.as_shown_card() if is_masked else call.as_card(), full=full, call=call)
    return render_plain_card(CardHtml(call, view)) if is_plain(view) else render_template(call, view)


def render_template(call: ToolCall, view: CardView) -> str:
    """Return any card, rendered by its templates."""
    state = view.card.state or ToolCallState.INPUT_STREAMING
    context = {
        "call": call, "card": view.card, "view": view, "dom": f"c-{call.public_id}", "html": CardHtml(call, view),
        "body": f"toolcards/card/{state}.html",
    }  # fmt: skip
    return render_to_string("toolcards/card.html", context)


def render_lasting_choices(offers: list[LastingOffer], field: str) -> str:
    """Render the buttons of lasting answers."""
    return render_to_string("toolcards/lasting_choices.html", {"offers": offers, "field": field})


def render_for_reader(
    call: ToolCall, form: CardForm = CardForm.CARD, *, token: str, full: bool = False, notice: str = "", back: str = ""
) -> SafeString:
    """Return the call for one reader, in this form.

    `token` protects its forms, `back` is the address that a form without scripts returns to, `notice` is shown above.
    """
    html = render_uncached(call, full=True) if full else render(call, form)
    if TOKEN in html:
        fields = [("csrfmiddlewaretoken", token), ("next", back)]
        inputs = format_html_join(
            "", '<input type="hidden" name="{}" value="{}">', (pair for pair in fields if pair[1])
        )
        html = html.replace(TOKEN, str(inputs))
    if notice:
        html = html.replace(
            "<!--told-->", str(format_html('<p class="notice told" data-told data-st="ask">{}</p>', notice))
        )
    return mark_safe(html)  # noqa: S308 - our own template's output


def render_removal(call: ToolCall) -> str:
    """Return what takes a card off the pages: its step was reset."""
    return str(format_html('<article id="c-{}" data-rev="{}" data-removed hidden></article>', call.public_id, call.rev))


# Named parts of a page, which a push puts in their places, and what a page already shows.
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
