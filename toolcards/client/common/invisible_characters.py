"""Characters that are invisible or misleading: a text that contains one is not the text that people see.

In addition to controls these are the code points that Unicode 16 calls default ignorable, format controls, blanks other
than the space, letters and symbols that are drawn blank, lone surrogates, noncharacters and tags.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SIGNS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but tab and line feed
    "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"  # blanks other than the space
    "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\uffff"  # joiners, bidi
    "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # drawn blank: Hangul fillers, Khmer vowels, an empty Braille cell
    "\ufe00-\ufe0f\U000e0000-\U000e0fff"  # variation selectors, tags
    "\ud800-\udfff"
    "\U00013430-\U00013440\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(1, 17))
)
INVISIBLE = re.compile(f"[{_SIGNS}]")
_VISIBLE_ASCII = b"\t\n" + bytes(range(0x20, 0x7F))
# A joiner between two emoji and the emoji selector are visible: they change the picture.
_EMOJI = "\u00a9\u00ae\u203c\u2049\u2100-\u27bf\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
VISIBLE_JOINERS = re.compile(
    f"(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])|(?<=[{_EMOJI}])\ufe0f|(?<=[0-9#*])\ufe0f(?=\u20e3)"
)


def name_character(character: str) -> str:
    """Return the code point as Unicode writes it."""
    return f"U+{ord(character):04X}"


def replace_invisible(text: str, mark: Callable[[str], str] = name_character) -> str:
    """Return the text with a mark in place of each invisible character.

    A text without such characters is returned as it is.
    """
    if (text.isascii() and text.isprintable()) or not _has_invisible(text):
        return text
    visible_positions = {match.start() for match in VISIBLE_JOINERS.finditer(text)}
    return INVISIBLE.sub(lambda match: match[0] if match.start() in visible_positions else mark(match[0]), text)


def _has_invisible(text: str) -> bool:
    """Return whether the text has such a character; what is visible ASCII is left out at C speed."""
    special_bytes = text.encode("utf-8", "surrogatepass").translate(None, _VISIBLE_ASCII)
    return bool(special_bytes) and INVISIBLE.search(special_bytes.decode("utf-8", "surrogatepass")) is not None
