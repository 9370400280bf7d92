"""Masks in the place of secrets: finding them, and putting the secrets back.

A mask shows the kind, the length and a short keyed hash: `‹secret github-token 40 · 3f9a›`.
"""

from __future__ import annotations

import re
from typing import Any

from toolcards.core.redaction.detectors import CLOSE, DOT, OPEN

MASK = re.compile(rf"{OPEN}secret [a-z\-]{{2,24}} \d{{1,9}} {DOT} [0-9a-f]{{4}}{CLOSE}")


def has_mask(value: Any) -> bool:
    """Return whether the value has a mask anywhere."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            if MASK.search(part):
                return True
        elif isinstance(part, dict):
            pending += [*part, *part.values()]
        elif isinstance(part, list):
            pending += part
    return False


def replace_masks(text: str, word: str) -> str:
    """Return the text with this word in place of each mask."""
    return MASK.sub(word, text)


def restore_text(edited_text: str, original: str, masked_text: str) -> str:
    """Replace each mask by the secret of the original text."""
    position = 0
    plain = MASK.split(masked_text)
    for number, mask in enumerate(MASK.findall(masked_text)):
        start = position + len(plain[number])
        following = plain[number + 1]
        end = original.find(following, start) if following else len(original)
        if end < 0:
            return edited_text
        edited_text = edited_text.replace(mask, original[start:end])
        position = end
    return edited_text
