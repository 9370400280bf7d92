"""Template tags and filters: icons, times, marks, cards, and addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django import template
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dashboard import url_helpers
from dashboard.cards import labels, rendering, safe_text, times
from dashboard.cards.rendering import CardForm
from dashboard.runs.tables import StatePart
from toolcards import __version__
from toolcards.core.calls.card import Card
from toolcards.core.calls.questions import Question, is_readable_form, read_message, read_questions
from toolcards.models import ToolCall

register = template.Library()
register.simple_tag(labels.render_icon, name="icon")
register.simple_tag(times.render_time, name="moment")
register.filter("iso", times.format_iso)
register.filter("utc", times.format_clock)
register.filter("reason_need", labels.describe_reason_need)


@register.filter
def visible(value: Any) -> SafeString:
    """Return agents' text escaped, with marks for invisible characters."""
    return safe_text.mark_html(str(value))


@register.filter
def quoted(value: Any) -> SafeString:
    """Return agents' text escaped, with marks; what stands between backticks is code."""
    parts = [safe_text.mark_html(part) for part in str(value).split("`")]
    parts[1::2] = [format_html("<code>{}</code>", part) for part in parts[1::2]]
    return format_html_join("", "{}", ((part,) for part in parts))


@register.filter
def plainly(value: Any) -> str:
    """Return the same for attributes and titles, without elements."""
    return safe_text.mark_text(str(value))


@register.filter
def digest(value: Any) -> SafeString:
    """Return agents' text with marks.

    A SHA-256 is shortened, a change has an arrow.
    """
    if isinstance(value, dict) and value.keys() == {"was", "is"}:
        return format_html("{} → {}", digest(value["was"]), digest(value["is"]))
    if isinstance(value, list):
        return safe_text.mark_html(", ".join(map(str, value)) or "—")
    text = "—" if value == "" else str(value)
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        return safe_text.mark_html(text)
    return format_html('<code title="{}">{}…</code>', text, text[:12])


@register.filter
def questions(card: Card) -> tuple[Question, ...]:
    """Return the questions that the agent asks by this call."""
    return read_questions(card.tool.name, card.input) if not _has_answer(card) else ()


@register.filter
def is_form(card: Card) -> bool:
    """Return whether the call is a form without an answer."""
    return is_readable_form(card.tool.name, card.input) and not _has_answer(card)


@register.filter
def form_message(card: Card) -> str:
    """Return the message above a form's fields."""
    return read_message(card.tool.name, card.input)


def _has_answer(card: Card) -> bool:
    return card.approval is not None and card.approval.has_edited


@register.filter
def thousands(value: int) -> str:
    """Format a count: 2,410."""
    return f"{value:,}"


@register.filter
def seconds(value: Any) -> str:
    """Format seconds for people.

    As in 0.8 s, 42 s, 3 min 10 s, 2 h 5 min.
    """
    if value is None or value == "":
        return ""
    return times.format_duration(float(value))


@register.filter
def describe_shares(shares: Iterable[StatePart]) -> str:
    """Return the states and their counts in words: "Done 3, Failed 1"."""
    return ", ".join(f"{share.word} {share.count}" for share in shares) or "No calls"


@register.simple_tag
def board_query(board: str, filter_rows: Iterable[tuple[str, str, str]]) -> str:
    """Return the query of the board's socket.

    `filter_rows` begin with name and value.
    """
    return "?" + urlencode({"board": board} | {name: value for name, value, _ in filter_rows})


@register.simple_tag(takes_context=True)
def permitted_actions(context: dict[str, Any]) -> str:
    """Return the reader's permissions for scripts: words of vote, policy, throw."""
    permissions = {"vote": "vote", "edit_policy": "policy", "throw_killswitch": "throw"}
    granted_permissions = context["perms"]["toolcards"] if "perms" in context else {}
    return " ".join(word for name, word in permissions.items() if granted_permissions and granted_permissions[name])


@register.simple_tag(takes_context=True)
def waiting_prefix(context: dict[str, Any]) -> str:
    """Return the count of waiting calls for titles: "(3) " or ""."""
    request = context.get("request")
    if request is None or not request.user.is_authenticated:
        return ""
    count = context["waiting"]["count"]
    return f"({count}) " if count else ""


@register.simple_tag
def run_url(name: str, source: str = "", **query: str | int) -> str:
    """Return the path of the run's page."""
    return url_helpers.build_run_url(name, source, **{key: value for key, value in query.items() if value})


@register.simple_tag
def version() -> str:
    """Return the version of this server."""
    return __version__


@register.simple_tag
def link(name: str, *args: Any) -> str:
    """Return `url`, but `#` if this installation has no such page."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return "#"


@register.simple_tag(takes_context=True)
def with_query(context: dict[str, Any], **changes: Any) -> str:
    """Return this page's query with changed fields, from the first page.

    None removes a field.
    """
    request: HttpRequest = context["request"]
    query = request.GET.copy()
    for name in ("before", "after"):
        query.pop(name, None)
    for name, value in changes.items():
        query.pop(name, None)
        if value not in (None, ""):
            query[name] = value
    return f"?{query.urlencode()}"


@register.simple_tag(takes_context=True)
def mark_current(context: dict[str, Any], prefix: str) -> SafeString | str:
    """Return the attribute that marks the current navigation link."""
    path = context["request"].path if "request" in context else ""
    open_now = path == prefix if prefix == "/" else path.startswith(prefix)
    return format_html('aria-current="{}"', "page" if path == prefix else "true") if open_now else ""


@register.simple_tag(takes_context=True)
def card(context: dict[str, Any], call: ToolCall, form: CardForm = CardForm.CARD, *, full: bool = False) -> SafeString:
    """Return the call's card or line with the reader's form token."""
    back = context["request"].get_full_path() if "request" in context else ""
    return rendering.render_for_reader(call, form, token=str(context.get("csrf_token", "")), full=full, back=back)
