"""The parts of a card that change often, written without the template engine, which is too slow for each tick.

All values are escaped where they are inserted. A call as one line has seven elements where a card has sixty, so that
long pages stay light. It is the same article with the same attributes; a press puts the card in its place, and
`static/toolcards/runs/card_lines.js` makes the same line out of a card.
"""

from __future__ import annotations

from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.utils.safestring import SafeString

from dashboard import url_helpers
from dashboard.cards.labels import render_icon
from dashboard.cards.payloads.ansi import render_colors
from dashboard.cards.payloads.body import render_body
from dashboard.cards.payloads.command_line import NO_COMMAND, CommandLine
from dashboard.cards.payloads.excerpts import Excerpt, build_excerpt
from dashboard.cards.safe_text import mark_html, mark_text
from dashboard.cards.times import render_time
from toolcards.core.calls.card import ToolCallState

if TYPE_CHECKING:
    from dashboard.cards.card_view import CardView
    from toolcards.models import ToolCall
from toolcards.core.text.terminal_sequences import flatten_text

SHORT_NOTE = 500  # characters of a note that is a paragraph; a longer one has a place that scrolls


class CardHtml:
    """The parts of one card, each written when its template needs it."""

    def __init__(self, call: ToolCall, view: CardView) -> None:
        self.call, self.view = call, view
        self.dom = f"c-{call.public_id}"
        self.url = url_helpers.build_call_url(call.public_id)

    @property
    def attributes(self) -> SafeString:
        """Return the attributes of the card's article.

        The first five are part of the public contract.
        """
        call, view, card, label = self.call, self.view, self.view.card, self.view.label
        is_waiting = card.waiting
        values = {
            "id": self.dom, "class": "card full" if view.full else "card", "data-call-id": mark_text(card.call_id),
            "data-run": mark_text(call.run.name), "data-state": card.state or ToolCallState.INPUT_STREAMING,
            "data-rev": card.rev, "data-seq": card.seq, "data-ordinal": card.ordinal, "data-pk": call.pk,
            "data-source": mark_text(call.run.source.name),
            "data-requested": view.requested_ms, "data-st": label.st, "aria-labelledby": f"{self.dom}-h",
            "tabindex": -1,
        }  # fmt: skip
        if is_waiting:
            values |= {"data-queue": view.queue, "data-risk": view.risk.level}
        if view.duration:
            values["data-took"] = round(view.duration * 1000)
        if card.soft:
            values["data-soft"] = mark_text(card.cause or "")
        flags = {
            "data-waiting": is_waiting, "data-moving": label.live and not card.finished, "data-full": view.full,
            "data-brief": is_waiting and view.is_brief,
        }  # fmt: skip
        parts = [f'{name}="{escape(str(value))}"' for name, value in values.items()]
        return _to_html(" ".join(parts + [name for name in flags if flags[name]]))

    @property
    def head(self) -> SafeString:
        """Render the card's first line.

        It shows state, tool, summary and duration, and links to the call's own page.
        """
        view, label = self.view, self.view.label
        return _to_html(
            '<header class="card-head">\n'
            f'<span class="badge st" data-st="{escape(label.st)}" data-form="{escape(label.form)}">'
            f"{render_icon(label.icon)}{mark_html(view.word)}</span>\n"
            f'<h3 id="{escape(self.dom)}-h">{render_icon(view.kind_icon, "kind")}'
            f'<span class="sr">{escape(view.kind)}: </span>'
            f'<span class="sum">{mark_html(view.summary)}</span> '
            f'<code class="tool">{mark_html(view.card.tool.name)}</code></h3>\n{self._name_agent()}'
            f'<span class="card-end">{self.time}{self._strip()}<a class="permalink"'
            f' href="{escape(self.url)}"'
            ' aria-label="Open this call" title="Open this call">'
            f"{render_icon('chevron-right')}</a></span>\n</header>"
        )

    def _name_agent(self) -> str:
        """Return who asks for approval, which only short lines show: cards name the agent below."""
        if self.view.card.approval is None:
            return ""
        run = self.call.run
        return f'<span class="asker" title="Agent">{mark_html(self.view.path or run.agent_name)}</span>\n'

    @property
    def time(self) -> str:
        """Return the duration, or the clock of an open call."""
        view = self.view
        if view.ticking:
            return f'<time class="dur" data-since="{escape(str(view.ticking))}"></time>'
        return f'<span class="dur">{escape(view.total)}</span>' if view.total else ""

    @property
    def why_url(self) -> str:
        """Return the page that explains the decision."""
        return f"{self.url}why/"

    @property
    def clock_time(self) -> str:
        """Return the time of day at which the call started."""
        return _render_clock_time(self.view.card.times.started)

    def _strip(self) -> str:
        """Return the call's phases as a small picture, empty until the first phase has ended."""
        if not self.view.segments:
            return ""
        rects = "".join(
            f'<rect class="{escape(segment.part)}" x="{escape(str(segment.x))}" y="0"'
            f' width="{escape(str(segment.width))}" height="6"/>' for segment in self.view.segments
        )  # fmt: skip
        return (
            '<svg class="strip" viewBox="0 0 100 6" preserveAspectRatio="none" role="img"'
            f' aria-label="{escape(self.view.durations)}">{rects}</svg>'
        )

    @property
    def input(self) -> SafeString:
        """Return the input as far as it is known, folded."""
        body = self.view.input
        return _to_html(self._folded("in", "Input", body, body.word) if body else "")

    @property
    def output(self) -> SafeString:
        """Return the output, also a partial one, folded."""
        body = self.view.output
        if not body:
            return _to_html("")
        lines = f", {body.lines} lines" if body.lines > 1 else ""
        return _to_html(self._folded("out", f"Output{' so far' * self.view.card.preliminary}", body, body.word + lines))

    @property
    def open_input(self) -> SafeString:
        """Render the input unfolded, for a call that waits for an answer."""
        return _to_html(self._body(self.view.input, "in", self.view.command)) if self.view.input else _to_html("")

    def _folded(self, part: str, label: str, body: Excerpt, size: str) -> str:
        return (
            f'<details id="{escape(self.dom)}-{part}" class="fold"{" open" * self.view.full}><summary>'
            f'{render_icon("chevron-right", "turn")}<span class="lab">{escape(label)}</span>'
            f'<span class="hint">{mark_html(body.hint)}</span><span class="size">{escape(size)}</span></summary>'
            f'<div class="body">{self._body(body, part)}</div></details>\n'
        )

    def _body(self, body: Excerpt, part: str, command: CommandLine = NO_COMMAND) -> str:
        html = render_body(
            body.value, body, dom=f"{escape(self.dom)}-{part}", kind=self.view.card.tool.kind, part=part,
            pictures_url=f"{escape(self.url)}pictures/{part}/", command=command,
        )  # fmt: skip
        return html + self._count_hidden(body) if body.hidden_count else html

    def _count_hidden(self, body: Excerpt) -> str:
        """Return the line that states a cut, with the way to the whole; "" without one."""
        link = f'<a href="{escape(self.url)}">Show all {body.size} characters</a>'
        count = f'<span class="muted">{body.hidden_count} not shown here</span>'
        return f'<p class="more">{link} {count}</p>' if body.hidden_count else ""

    @property
    def agent_note(self) -> SafeString:
        """Return what the agent says about the call, with any cut stated."""
        note = self.view.card.agent_note
        label = '<span class="muted">Agent says:</span>'
        if len(note) <= SHORT_NOTE:
            return _to_html(f'\n  <p class="says">{label} {mark_html(note)}</p>\n' if note else "")
        excerpt = build_excerpt(note, self.view.cap)
        text = f'<pre class="text">{mark_html(excerpt.text)}</pre>{self._count_hidden(excerpt)}'
        return _to_html(f'\n  <div class="says">{label}{text}</div>\n')

    @property
    def message(self) -> SafeString:
        """Return the tool's own error message."""
        text = self.view.message or "No error message given"
        return _to_html(render_colors(text))

    @property
    def attempts(self) -> str:
        """Return the link to the other attempts of this call, if any.

        They are listed in its run, because call ids belong to a run.
        """
        card, run = self.view.card, self.call.run
        if max(card.attempt, card.occurrence) <= 1:
            return ""
        return f"/calls/?{urlencode({'q': card.call_id, 'run': run.name, 'source': run.source.name}, errors='replace')}"

    @property
    def meta(self) -> SafeString:
        """Render the details: agent, run, times and the duration of each part."""
        view, card, run = self.view, self.view.card, self.call.run
        parts = [f'<span class="source" title="Source">{mark_html(run.source.name)}</span>']
        parts += [f'<span class="path">{mark_html(view.path)}</span>'] if view.path else []
        parts.append(f'<a class="runlink" href="{escape(run.url)}">{mark_html(run.name)}</a>')
        times = (
            f"step {card.step}" if card.step else "",
            f"attempt {card.attempt}" if card.attempt > 1 else "",
            f"from {card.tool.source}" if card.tool.source else "",
            "run by the model provider" if card.provider_executed else "",
        )
        parts += [f"<span>{mark_html(text)}</span>" for text in times if text]
        if clock_time := self.clock_time:
            parts.append(f"<span>{clock_time}</span>")
        if view.durations:
            parts.append(f'<span class="lengths">{escape(view.durations)}</span>')
        return _to_html("".join(parts))


@lru_cache(maxsize=4_096)
def _render_clock_time(epoch: float) -> str:
    """Return a card's time; cached, because it is drawn at every tick."""
    return str(render_time(epoch))


_to_html = SafeString  # each value was escaped where it was put in


# ---------------------------------------------------------------- a call as one line

MAX_MESSAGE = 120  # characters of an error on a line


def render_card_line(html: CardHtml, *, is_listed: bool = False) -> str:
    """Return the call's article with one link in it.

    The link has state, tool, summary, the first remark and the duration; `is_listed` adds agent, run and time of day.
    """
    view = html.view
    error = flatten_text(view.message, MAX_MESSAGE) if not view.card.soft else ""
    summary = " · ".join(part for part in (view.summary, error) if part)
    path = f' data-agent="{escape(mark_text(view.path))}"' if view.path else ""
    is_odd = bool(view.anomalies or view.input_change or view.card.by_hand)
    return (
        f"<article {html.attributes} data-line{path}{' data-odd' * is_odd}>"
        f'<a class="permalink call-line" id="{escape(html.dom)}-h" href="{escape(html.url)}">'
        f'<b class="st">{mark_html(view.word)}</b>'
        f' <span class="sum">{mark_html(summary)}</span> <code class="tool">{mark_html(view.card.tool.name)}</code>'
        f"{_render_remark(html)} {html.time}{_render_origin(html) if is_listed else ''}</a></article>\n"
    )


def _render_remark(html: CardHtml) -> str:
    remarks = html.view.anomalies
    return f' <span class="remark">{mark_html(remarks[0][1])}</span>' if remarks else ""


def _render_origin(html: CardHtml) -> str:
    agent = f'<span class="path">{mark_html(html.view.path)}</span>' if html.view.path else ""
    return f' <small class="origin">{agent}<span>{mark_html(html.call.run.name)}</span>{html.clock_time}</small>'
