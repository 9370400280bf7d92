"""Cards of calls that wait for a person, written without the template engine; see plain_card.

Drawn here are those that ask whether a call may run, which is nearly all. Cards with questions, proposed changes, an
escalation or an agent's own reason are drawn by `card/approval-requested.html` and `vote.html`.
"""

from __future__ import annotations

import math
from html import escape

from dashboard.cards import labels
from dashboard.cards.card_html import CardHtml
from dashboard.cards.card_view import CardView
from dashboard.cards.icons import format_clock, format_iso, render_icon
from dashboard.cards.safe_text import mark_html, mark_text
from toolcards.core.calls.questions import is_readable_form, read_questions

LATEST_TIME = 1e11  # epoch seconds; the template formats greater ones


def is_plain_question(view: CardView) -> bool:
    """Return whether the card only asks whether its call may run."""
    card, ask = view.card, view.card.approval
    if ask is None or not view.votable or view.changed or view.proposed or ask.escalated:
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
    hidden = f" <small>({escape(view.hidden)})</small>" if view.hidden else ""
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
      <input type="checkbox" name="sure" required> High risk: I have read it and approve (not needed to deny)
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
    limited = '\n                <option value="until">this exact call, for 15 minutes</option>\n              '
    return (
        '\n          <label class="granting">\n            Also allow\n            <select name="grant">\n'
        '              <option value="">nothing else</option>\n'
        f"              {whole_run if 'run' in kinds else ''}\n              {limited if 'until' in kinds else ''}\n"
        "            </select>\n          </label>\n        "
    )


def _render_editor(view: CardView, editable: list[str]) -> str:
    if "" in editable:
        parts = "\n                All of it may change.\n              "
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
