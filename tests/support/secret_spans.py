"""Texts whose secrets are marked with « and », and what a reader of secrets finds in them."""

from __future__ import annotations

import re
from collections.abc import Callable

from toolcards.core.redaction.spans import SecretSpan

Reader = Callable[[str, int, int, int], SecretSpan | int | None]


def mark_secrets(begins: str, read: Reader, text: str) -> tuple[str, list[str]]:
    """Return the text with the secrets that the reader finds marked, and their kinds."""
    hay, place, spans = text.encode().decode("latin-1"), 0, list[SecretSpan]()
    while (candidate := re.compile(begins).search(hay, place)) is not None:
        start, end = candidate.span()
        span = read(hay, start, end, place)
        if isinstance(span, SecretSpan):
            spans.append(span)
            place = max(span.end, start + 1)
        else:
            place = max(span or 0, start + 1)
    for span in reversed(spans):
        hay = f"{hay[: span.start]}\xc2\xab{hay[span.start : span.end]}\xc2\xbb{hay[span.end :]}"
    return hay.encode("latin-1").decode(), [span.kind for span in spans]


def unmark(text: str) -> str:
    """Return the text without its marks."""
    return text.replace("«", "").replace("»", "")
