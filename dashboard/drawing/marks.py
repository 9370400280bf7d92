"""Agents' text as people may safely see it: escaped, with every invisible or misleading character drawn as a mark."""

from __future__ import annotations

import json
import re

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

# Controls (but tab and line feed), soft hyphen, Arabic and Mongolian marks, zero-width, bidi, invisible operators,
# variation selectors beyond the emoji one, interlinear anchors, tags, lone surrogates, noncharacters, odd spaces.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\uffff\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000ffffe\U000fffff\U0010fffe\U0010ffff]"
)
_JOINED_EMOJI = re.compile(
    "(?<=[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])\u200d(?=[\u2600-\u27bf\U0001f000-\U0001faff])"
)
_KEPT = "\ue0ff"  # stands for a joiner inside an emoji while the others are drawn


def visible(text: str) -> SafeString:
    """Return the text as HTML: escaped, and what cannot be seen written out as `U+202E`."""
    text = text.replace("\r\n", "\n")
    if text.isascii() and text.isprintable():
        return escape(text)
    kept = _JOINED_EMOJI.sub(_KEPT, text.replace(_KEPT, "\ufffd"))
    drawn = _HIDDEN.sub(_drawn, escape(kept))
    return mark_safe(drawn.replace(_KEPT, "\u200d"))  # noqa: S308 - escaped one line above


def plain(text: str) -> str:
    """Return the text for attributes and titles: the same marks, without elements."""
    return _HIDDEN.sub(lambda found: _name(found[0]), text.replace("\r\n", "\n"))


def in_json(text: str) -> str:
    """Return JSON text with the hidden characters in its strings written as escapes: it means the same."""
    return _HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _drawn(found: re.Match[str]) -> str:
    return f'<span class="mark">{_name(found[0])}</span>'


def _name(character: str) -> str:
    return f"U+{ord(character):04X}"
