"""Renders a call as HTML, once per revision for all readers. Only this module names card templates."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Container
from enum import Enum

from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard.cards.card_html import CardHtml, render_card_line
from dashboard.cards.card_view import CardView
from dashboard.cards.lasting_offers import LastingOffer
from dashboard.cards.plain_card import is_plain, render_plain_card
from toolcards.core.calls.card import ToolCallState
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
