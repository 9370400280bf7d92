"""Agents' text as HTML: escaped, with every invisible or misleading character shown as a mark."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from html import escape

from django.utils.safestring import SafeString

from toolcards.client.common.invisible_characters import INVISIBLE, name_character, replace_invisible

SHORT = 60  # characters of a text whose marked form is remembered


def mark_html(text: str) -> SafeString:
    """Escape the text for HTML; invisible characters become marks such as `U+202E`."""
    return _mark_short(text) if len(text) <= SHORT else _mark(text)


def _mark(text: str) -> SafeString:
    return SafeString(replace_invisible(escape(text.replace("\r\n", "\n")), _render_mark))


# Names of tools, fields, agents and runs repeat on every card.
_mark_short = lru_cache(maxsize=4_096)(_mark)


# What follows such a gap would be off the screen, and an input looks as if it ended before.
_EMPTY_LINES = re.compile(r"\n(?:[ \t]*\n){3,}")
_WIDE_GAP = re.compile(r"[ \t]{60,}")


def mark_gaps(html: str) -> SafeString:
    """Put marks in place of many empty lines or spaces."""
    html = _EMPTY_LINES.sub(lambda gap: f"\n{_render_gap(gap[0].count(chr(10)) - 1, 'empty lines')}\n", html)
    return SafeString(_WIDE_GAP.sub(lambda gap: _render_gap(len(gap[0]), "spaces"), html))


def _render_gap(count: int, name: str) -> str:
    return f'<span class="mark">{count:,} {name}</span>'


def mark_text(text: str) -> str:
    """Return the text for attributes and titles: the same marks, without elements."""
    return replace_invisible(text.replace("\r\n", "\n"))


def escape_in_json(text: str) -> str:
    """Escape the hidden characters in the strings of JSON text.

    The value stays the same.
    """
    return replace_invisible(text, lambda character: json.dumps(character)[1:-1])


# Values of inputs and text areas are sent back unchanged, so marks in them would be saved.
_FIELDS = re.compile(r"<textarea\b.*?</textarea>|<input\b[^>]*>", re.DOTALL | re.IGNORECASE)


def mark_page(html: str) -> str:
    """Mark invisible characters in the text of a whole page.

    For pages of the Django admin, whose templates we do not control.
    """
    parts, place = [], 0
    for match in _FIELDS.finditer(html):
        parts += [_mark_rendered_html(html[place : match.start()]), match[0], _build_field_note(match[0])]
        place = match.end()
    return "".join([*parts, _mark_rendered_html(html[place:])])


def _build_field_note(field: str) -> str:
    """Return the note next to a field with invisible characters."""
    if replace_invisible(field) == field or 'type="hidden"' in field:
        return ""
    names = sorted({name_character(sign) for sign in INVISIBLE.findall(field) if sign != "\r"})
    return f' <strong class="mark">contains {", ".join(names)}</strong>' if names else ""


def _mark_rendered_html(html: str) -> str:
    return replace_invisible(html.replace("\r\n", "\n"))


def _render_mark(character: str) -> str:
    return f'<span class="mark">{name_character(character)}</span>'
