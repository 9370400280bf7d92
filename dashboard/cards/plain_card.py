"""Plain cards as HTML: what `toolcards/card.html` draws for them, written without the template engine.

Most cards of a long run are plain: the call runs or went well, without notes, changes, or an answer of a person. The
template draws all others. A test compares both byte by byte.
"""

from __future__ import annotations

from html import escape

from dashboard.cards.card_html import CardHtml
from dashboard.cards.card_view import CardView
from dashboard.cards.icons import render_icon
from dashboard.cards.safe_text import mark_html
from toolcards.core.calls.card import ToolCallState

# What stands around input and output in the templates of these two states.
_BODIES = {
    ToolCallState.INPUT_AVAILABLE: "\n{}\n {}\n\n",
    ToolCallState.OUTPUT_AVAILABLE: "\n{}\n{} \n",
}


def is_plain(view: CardView) -> bool:
    """Return whether `render_plain_card` can draw the card."""
    card = view.card
    if card.state not in _BODIES or view.has_notes or card.has_unknown_outcome or view.changed:
        return False
    if card.decision is not None and view.would:
        return False
    is_approved_by_person = card.approval is not None and card.approval.by and not card.approval.automatic
    return not (card.awaiting_client or is_approved_by_person)


def render_plain_card(html: CardHtml) -> str:
    """Return the HTML of a plain card."""
    view = html.view
    body = _BODIES[ToolCallState(view.card.state or "")].format(html.input, html.output)
    return (
        f'<article {html.attributes}>\n  {html.head}\n  <div class="card-main">\n    <div class="card-body">\n'
        f"      <!--told-->\n      {body}\n      {_render_why(view)}\n"
        f'      <p class="meta">{html.meta}</p>\n    </div>\n    \n  </div>\n</article>\n'
    )


def _render_why(view: CardView) -> str:
    decision = view.card.decision
    if decision is None:
        return ""
    reason = f": {mark_html(decision.reason)}" if decision.reason else ""
    version = f" ·\n        v{decision.version}" if decision.version else ""
    return (
        f'\n<p class="why">\n  {render_icon("shield")}\n  <span>\n    {escape(view.verb)}{reason}\n'
        f'    <span class="rule">{mark_html(view.rule)}{version}</span>\n  </span>\n</p>\n\n'
    )
