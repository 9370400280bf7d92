"""Agents' text as people may safely see it: escaped, with every invisible or misleading character drawn as a mark."""

from __future__ import annotations

import json
import re

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from toolcards.core.redaction.invisible_characters import UNSEEN, name, replaced


def visible(text: str) -> SafeString:
    """Return the text as HTML: escaped, and what cannot be seen written out as `U+202E`."""
    shown = replaced(escape(text.replace("\r\n", "\n")), _drawn)
    return mark_safe(shown)  # noqa: S308 - escaped one line above


def plain(text: str) -> str:
    """Return the text for attributes and titles: the same marks, without elements."""
    return replaced(text.replace("\r\n", "\n"))


def in_json(text: str) -> str:
    """Return JSON text with the hidden characters in its strings written as escapes: it means the same."""
    return replaced(text, lambda character: json.dumps(character)[1:-1])


# What an input or a text area holds is sent back as it stands: marks in it would be saved.
_HELD = re.compile(r"<textarea\b.*?</textarea>|<input\b[^>]*>", re.DOTALL | re.IGNORECASE)


def in_page(html: str) -> str:
    """Return a whole page with the same marks in its text, for pages that are not ours to write (the Django admin)."""
    shown, place = [], 0
    for found in _HELD.finditer(html):
        shown += [_marked(html[place : found.start()]), found[0], _remark(found[0])]
        place = found.end()
    return "".join([*shown, _marked(html[place:])])


def _remark(field: str) -> str:
    """Return the note that is drawn next to a field whose text holds such characters."""
    if replaced(field) == field or 'type="hidden"' in field:
        return ""
    named = sorted({name(sign) for sign in UNSEEN.findall(field) if sign != "\r"})
    return f' <strong class="mark">contains {", ".join(named)}</strong>' if named else ""


def _marked(html: str) -> str:
    return replaced(html.replace("\r\n", "\n"))


def _drawn(character: str) -> str:
    return f'<span class="mark">{name(character)}</span>'
