"""A call as one line: on the page of its run if it is not among the newest, and on the list of all calls.

A line has seven elements where a card has sixty, so that long pages stay light. It is the same article as the card,
with the same attributes; a press puts the card in its place. `static/toolcards/card_lines.js` makes the same line out
of a card.
"""

from __future__ import annotations

from html import escape

from dashboard import url_helpers
from dashboard.cards.card_html import CardHtml
from dashboard.cards.safe_text import mark_html, mark_text
from toolcards.core.calls.terminal_sequences import flatten_text

MAX_MESSAGE = 120  # characters of an error on a line


def render_card_line(html: CardHtml, *, is_listed: bool = False) -> str:
    """Return the call's article with one link in it.

    The link has state, tool, summary, the first remark and the duration; `is_listed` adds agent, run and time of day.
    """
    view = html.view
    error = flatten_text(view.message, MAX_MESSAGE) if not view.card.soft else ""
    summary = " · ".join(part for part in (view.summary, error) if part)
    url = escape(url_helpers.build_call_url(html.call.public_id))
    path = f' data-agent="{escape(mark_text(view.path))}"' if view.path else ""
    is_odd = bool(view.anomalies or view.changed or view.card.by_hand)
    return (
        f"<article {html.attributes} data-line{path}{' data-odd' * is_odd}>"
        f'<a class="permalink call-line" id="{escape(html.dom)}-h" href="{url}">'
        f'<b class="st">{mark_html(view.word)}</b>'
        f' <code class="tool">{mark_html(view.card.tool.name)}</code> <span class="sum">{mark_html(summary)}</span>'
        f"{_render_remark(html)} {html.time}{_render_origin(html) if is_listed else ''}</a></article>\n"
    )


def _render_remark(html: CardHtml) -> str:
    remarks = html.view.anomalies
    return f' <span class="remark">{mark_html(remarks[0][1])}</span>' if remarks else ""


def _render_origin(html: CardHtml) -> str:
    agent = f'<span class="path">{mark_html(html.view.path)}</span>' if html.view.path else ""
    return f' <small class="origin">{agent}<span>{mark_html(html.call.run.name)}</span>{html.clock_time}</small>'
