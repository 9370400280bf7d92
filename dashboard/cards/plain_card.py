"""Plain cards as HTML: what `toolcards/card.html` draws for them, written without the template engine.

Most cards are plain: the call runs or went well, or was answered by a person, without notes and changes. The template
draws all others, and every question. A test compares both byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import NamedTuple

from dashboard.cards.card_html import CardHtml
from dashboard.cards.card_view import CardView
from dashboard.cards.labels import render_icon
from dashboard.cards.safe_text import mark_html
from dashboard.cards.times import render_time
from toolcards.core.calls.card import ToolCallState


class PlainForm(NamedTuple):
    """How plain cards of one state are drawn: the condition for it, the body, and what follows the body."""

    is_plain: Callable[[CardView], bool]
    render_body: Callable[[CardHtml], str]
    render_acts: Callable[[CardHtml], str] = lambda html: ""


def is_plain(view: CardView) -> bool:
    """Return whether `render_plain_card` can draw the card."""
    form = _FORMS.get(view.card.state or "")
    if form is None or view.has_notes or view.card.has_unknown_outcome or view.input_change:
        return False
    return not (view.card.decision is not None and view.would) and form.is_plain(view)


def render_plain_card(html: CardHtml) -> str:
    """Return the HTML of a plain card."""
    form = _FORMS[html.view.card.state or ""]
    return (
        f'<article {html.attributes}>\n  {html.head}\n  <div class="card-main">\n    <div class="card-body">\n'
        f"      <!--told-->\n      {form.render_body(html)}\n      {_render_why(html)}\n"
        f'      <p class="meta">{html.meta}</p>\n    </div>\n    {form.render_acts(html)}\n  </div>\n</article>\n'
    )


def _render_why(html: CardHtml) -> str:
    view, decision = html.view, html.view.card.decision
    if decision is None:
        return ""
    reason = f": {mark_html(decision.reason)}" if decision.reason else ""
    version = f" ·\n        v{decision.version}" if decision.version else ""
    return (
        f'\n<p class="why">\n  {render_icon("shield")}\n  <span>\n    {escape(view.verb)}{reason}\n'
        f'    <a class="rule" href="{html.why_url}"\n      title="Why?">{mark_html(view.rule)}{version}</a>\n'
        "  </span>\n</p>\n\n"
    )


# ---------------------------------------------------------------- one form for each state


def _has_no_answer(view: CardView) -> bool:
    card = view.card
    is_approved_by_person = card.approval is not None and card.approval.by and not card.approval.automatic
    return not (card.awaiting_client or is_approved_by_person)


def _is_plain_denial(view: CardView) -> bool:
    return not view.is_refused and (view.card.approval is None or not view.card.approval.lasting_rule)


def _is_plain_answer(view: CardView) -> bool:
    ask = view.card.approval
    return ask is not None and not ask.lasting_rule and not (view.is_undoable and view.held_until)


def _render_answer(html: CardHtml) -> str:
    ask = html.view.card.approval
    assert ask is not None
    moment = f" at\n      {render_time(ask.decided_at)}" if ask.decided_at else ""
    reason = f":\n      “{mark_html(ask.reason)}”" if ask.reason else ""
    return (
        f'\n{html.input}\n {html.output}\n<p class="by">\n  {render_icon("check-check")}\n  <span>\n'
        f"    Approved by <b>{mark_html(html.view.answered_by)}</b>{moment}{reason}.\n"
        f"    {mark_html(html.view.delivery)}\n  </span>\n</p>\n{_render_undo(html)}\n"
    )


def _render_undo(html: CardHtml) -> str:
    view = html.view
    if not view.is_undoable:
        return ""
    return (
        f'\n  <form class="undo needs-vote" id="{html.dom}-undo" method="post" action="{escape(view.undo_url)}"\n'
        f'    hx-post="{escape(view.undo_url)}" hx-target="closest article" hx-swap="place" hx-disable="find button">\n'
        f'    <!--token--><button class="btn small" data-undo>{render_icon("undo-2")}Undo <kbd>z</kbd></button>\n'
        '    <span class="muted">\n      Until the agent fetches the answer. If\n      undone, the call is denied.\n'
        "    </span>\n  </form>\n"
    )


def _render_denial(html: CardHtml) -> str:
    view, card = html.view, html.view.card
    moment = f" at\n        {render_time(card.times.finished)}" if card.times.finished else ""
    is_expired = card.approval is not None and card.approval.state == "expired"
    expiry = ": no one answered in time\n      " if is_expired else ""
    suggestion = card.decision.suggest if card.decision else ""
    return (
        f'\n<div class="denial" id="{html.dom}-denial" role="group" aria-label="Denial">\n  <p class="by">\n'
        f"    {render_icon('ban')}\n    <span>\n      \n"
        f"        Denied by <b>{mark_html(view.denied_by)}</b>{moment}{expiry}\n"
        f"    </span>\n  </p>\n  {_render_message(view.agent_message)}\n  {_render_suggestion(suggestion)}\n</div>\n"
        f"\n{html.input}\n {html.output}\n"
    )


def _render_message(message: str) -> str:
    if not message:
        return '\n    <p class="told-agent muted">No reason for the agent.</p>\n  '
    return f'\n    <p class="told-agent"><span class="muted">For the agent:</span> <q>{mark_html(message)}</q></p>\n  '


def _render_suggestion(text: str) -> str:
    if not text:
        return ""
    return f'\n    <p class="told-agent"><span class="muted">Suggestion:</span> {mark_html(text)}</p>\n  '


# ---------------------------------------------------------------- calls that wait for a person


# ---------------------------------------------------------------- the table


_FORMS: dict[str, PlainForm] = {
    ToolCallState.INPUT_AVAILABLE: PlainForm(_has_no_answer, lambda html: f"\n{html.input}\n {html.output}\n\n"),
    ToolCallState.OUTPUT_AVAILABLE: PlainForm(_has_no_answer, lambda html: f"\n{html.input}\n{html.output} \n"),
    ToolCallState.APPROVAL_RESPONDED: PlainForm(_is_plain_answer, _render_answer),
    ToolCallState.OUTPUT_DENIED: PlainForm(_is_plain_denial, _render_denial),
}
