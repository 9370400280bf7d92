"""A call as one line: how the page of a run shows calls that are not among its newest.

A line has seven elements where a card has sixty, so that the page of a long run stays light. It is the same article as
the card, with the same attributes; a press puts the card in its place. `static/toolcards/card_lines.js` makes the same
line out of a card.
"""

from __future__ import annotations

from html import escape

from dashboard import url_helpers
from dashboard.cards.card_html import CardHtml
from dashboard.cards.safe_text import mark_html, mark_text

MAX_MESSAGE = 120  # characters of an error on a line


def render_card_line(html: CardHtml) -> str:
    """Return the call's article with one link in it.

    The link has state, tool, summary and duration.
    """
    view = html.view
    error = " ".join(view.message.split())[:MAX_MESSAGE] if not view.card.soft else ""
    summary = " · ".join(part for part in (view.summary, error) if part)
    url = escape(url_helpers.build_call_url(html.call.public_id))
    path = f' data-agent="{escape(mark_text(view.path))}"' if view.path else ""
    is_odd = bool(view.anomalies or view.changed or view.card.by_hand)
    return (
        f"<article {html.attributes} data-line{path}{' data-odd' * is_odd}>"
        f'<a class="permalink call-line" id="{escape(html.dom)}-h" href="{url}">'
        f'<b class="st">{mark_html(view.word)}</b>'
        f' <code class="tool">{mark_html(view.card.tool.name)}</code> <span class="sum">{mark_html(summary)}</span>'
        f" {html.time}</a></article>\n"
    )
