"""Plain cards as HTML: what `toolcards/card.html` draws for them, written without the template engine.

Most cards are plain: the call runs or went well, waits for a person or was answered by one, without notes and changes.
The template draws all others. A test compares both byte by byte. Of calls that wait, those are plain that ask whether
a call may run, which is nearly all; questions, proposed changes, an escalation or an agent's own reason are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import NamedTuple

from dashboard.cards import labels
from dashboard.cards.card_html import CardHtml
from dashboard.cards.card_view import CardView
from dashboard.cards.icons import render_icon
from dashboard.cards.safe_text import mark_html, mark_text
from dashboard.cards.times import format_clock, format_iso, render_time
from toolcards.core.calls.card import ToolCallState
from toolcards.core.calls.questions import is_readable_form, read_questions

LATEST_TIME = 1e11  # epoch seconds; the template formats greater ones


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


def _is_plain_answer(view: CardView) -> bool:
    return view.card.approval is not None and not (view.is_undoable and view.held_until)


def _render_answer(html: CardHtml) -> str:
    ask = html.view.card.approval
    assert ask is not None
    moment = f" at\n      {render_time(ask.decided_at)}" if ask.decided_at else ""
    reason = f":\n      “{mark_html(ask.reason)}”" if ask.reason else ""
    return (
        f'\n{html.input}\n {html.output}\n<p class="by">\n  {render_icon("check-check")}\n  <span>\n'
        f"    Approved by <b>{mark_html(html.view.answered_by)}</b>{moment}{reason}.\n"
        f"    {html.view.delivery}\n  </span>\n</p>\n{_render_undo(html)}\n"
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
        f"    {render_icon('ban')}\n    <span>\n      Denied by <b>{mark_html(view.denied_by)}</b>{moment}{expiry}\n"
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


def is_plain_question(view: CardView) -> bool:
    """Return whether the card only asks whether its call may run."""
    card, ask = view.card, view.card.approval
    if ask is None or not view.votable or view.input_change or view.proposed_change or ask.escalated:
        return False
    reason = card.decision.reason if card.decision else None
    if (ask.request_reason and ask.request_reason != reason) or not 0 <= ask.expires_at < LATEST_TIME:
        return False
    return not (is_readable_form(card.tool.name, card.input) or read_questions(card.tool.name, card.input))


def render_question(html: CardHtml) -> str:
    """Return the HTML of the body: the risks and the input."""
    view = html.view
    lines = view.input.lines if view.input else 0
    body = f"\n    {html.open_input}\n  " if view.input else '\n    <p class="muted">No input</p>\n  '
    return (
        f'\n\n{_render_risks(view.risk.reasons)}\n<div class="asked" id="{html.dom}-args" tabindex="0" role="group"\n'
        f'  aria-label="Input, {lines} line{"" if lines == 1 else "s"}">\n  {body}\n</div>\n\n\n'
    )


def _render_risks(reasons: tuple[str, ...]) -> str:
    if not reasons:
        return ""
    items = "".join(f"\n      <li>{render_icon('triangle-alert')}{escape(reason)}</li>\n    " for reason in reasons)
    return f'\n  <ul class="risks" aria-label="Why to look closely">\n    {items}\n  </ul>\n'


def render_vote_form(html: CardHtml) -> str:
    """Return the HTML of the form with which people vote."""
    view, card, ask = html.view, html.view.card, html.view.card.approval
    assert ask is not None
    url = escape(view.vote_url)
    is_risky = view.risk.level == "high"
    sure = f' data-sure="{escape(mark_text(card.tool.name))}"' if is_risky else ""
    hidden = f" <small>({escape(view.hidden_note)})</small>" if view.hidden_note else ""
    need = escape(labels.describe_reason_need(ask.terms.get("reason", "")))
    return (
        f'\n<form class="acts" id="{html.dom}-form" method="post" action="{url}" hx-post="{url}"\n'
        f'  hx-target="closest article" hx-swap="place" hx-disable="find button"\n  {sure}>\n'
        f'  <!--token--><input type="hidden" name="rev" value="{card.rev}">\n'
        f'  <input type="hidden" name="args_sha256" value="{escape(ask.args_sha256)}">\n'
        f'  <input type="hidden" name="view_sha256" value="{view.view_sha256}">\n'
        f'  <div class="due">\n    {_render_time_limit(ask.expires_at)}\n    \n'
        f"    {_render_quorum(view, ask.have)}\n    {_render_digest(ask.args_sha256)}\n  </div>\n  \n  \n"
        f'  {_RISK_CHECK if is_risky else ""}\n  <div class="answer needs-vote">\n'
        '    <button class="btn danger" name="decision" value="deny" formnovalidate>Deny <kbd>d</kbd></button>\n'
        '    <label class="reason">\n'
        f'      <span class="sr">Reason sent to the agent</span><input name="reason" id="{html.dom}-reason"'
        ' maxlength="2000"\n        autocomplete="off" list="quick-reasons"\n'
        f'        placeholder="Reason sent to the agent ({need})">\n    </label>\n    \n'
        '    <button class="btn pri" name="decision" value="approve">\n      <span class="word">Approve</span>\n'
        f"      {hidden}\n      <kbd>a</kbd>\n    </button>\n    \n  </div>\n  \n"
        f"  {_render_offers(html) if view.offers else ''}\n</form>\n\n\n"
    )


_RISK_CHECK = """
    <label class="check unscripted needs-vote">
      <input type="checkbox" name="sure" required> High risk: I have read it and approve (not required to deny)
    </label>
  """


def _render_time_limit(moment: float) -> str:
    if not moment:
        return ""
    return (
        f'\n      <span class="countdown">\n        {render_icon("clock")}Expires\n'
        f'        <time datetime="{format_iso(moment)}"\n          data-until="{math.floor(moment + 0.5)}">\n'
        f"          {format_clock(moment)}\n        </time>\n      </span>\n    "
    )


def _render_quorum(view: CardView, have: int) -> str:
    return f"<span>{have} of {view.need} approvals</span>" if view.need > 1 else ""


def _render_digest(sha256: str) -> str:
    if not sha256:
        return ""
    return (
        f'\n      <span class="digest" title="SHA-256 of these arguments: {escape(sha256)}">\n'
        f"        {escape(sha256[:8])}\n      </span>\n    "
    )


def _render_offers(html: CardHtml) -> str:
    """Return what a person may do apart from approving and denying."""
    view = html.view
    grants = _render_grants(view.grants) if view.grants else ""
    assert view.card.approval is not None
    editable = view.card.approval.terms.get("editable")
    editor = _render_editor(view, editable) if editable else ""
    return (
        f'\n    <details class="extras needs-vote" id="{html.dom}-more">\n'
        f"      <summary>{render_icon('pencil')}{escape(view.offers)}</summary>\n"
        f'      <div class="stack tight">\n        {grants}\n        {editor}\n      </div>\n    </details>\n  '
    )


def _render_grants(kinds: list[str]) -> str:
    whole_run = (
        '\n                <option value="run">this exact call, for the rest of this run</option>\n              '
    )
    limit = '\n                <option value="until">this exact call, for 15 minutes</option>\n              '
    return (
        '\n          <label class="granting">\n            Also allow\n            <select name="grant">\n'
        '              <option value="">nothing else</option>\n'
        f"              {whole_run if 'run' in kinds else ''}\n              {limit if 'until' in kinds else ''}\n"
        "            </select>\n          </label>\n        "
    )


def _render_editor(view: CardView, editable: list[str]) -> str:
    if "" in editable:
        parts = "\n                You can change all of it.\n              "
    else:
        names = "".join(f"<code>{mark_html(name)}</code> " for name in editable)
        parts = f"\n                May change: {names}\n              "
    return (
        '\n          <label class="field">\n            <span class="help">\n              Input as JSON.\n'
        f"              {parts}\n            </span>\n"
        '            <textarea class="code" name="edited_args" rows="6" spellcheck="false">'
        f"{escape(view.editable_json)}</textarea>\n          </label>\n"
        '          <p><button class="btn" name="decision" value="edit">Approve as edited</button></p>\n        '
    )


# ---------------------------------------------------------------- the table


_FORMS: dict[str, PlainForm] = {
    ToolCallState.INPUT_AVAILABLE: PlainForm(_has_no_answer, lambda html: f"\n{html.input}\n {html.output}\n\n"),
    ToolCallState.OUTPUT_AVAILABLE: PlainForm(_has_no_answer, lambda html: f"\n{html.input}\n{html.output} \n"),
    ToolCallState.APPROVAL_REQUESTED: PlainForm(is_plain_question, render_question, render_vote_form),
    ToolCallState.APPROVAL_RESPONDED: PlainForm(_is_plain_answer, _render_answer),
    ToolCallState.OUTPUT_DENIED: PlainForm(lambda view: True, _render_denial),
}
