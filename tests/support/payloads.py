"""Payloads of cards as HTML, and what tests read in it."""

from __future__ import annotations

import base64
import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

from dashboard.cards import rendering
from dashboard.cards.payloads import excerpts
from dashboard.cards.payloads.body import render_body
from tests.support.cards import a_card, call_of
from toolcards.core.calls.card import CardTool, ToolCallState

S = ToolCallState
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`"


def render_output(output: Any, kind: str = "other", **how: Any) -> str:
    card = a_card(S.OUTPUT_AVAILABLE, output=output, tool=CardTool("tool", kind))
    return rendering.render_uncached(call_of(card), full=how.pop("full", True), **how)


def render_input(arguments: Any, state: ToolCallState = S.INPUT_AVAILABLE, **how: Any) -> str:
    card = a_card(state, input=arguments, tool=CardTool("Edit", "edit"))
    return rendering.render_uncached(call_of(card), full=how.pop("full", True))


def read_text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", "", html).replace("&quot;", '"').replace("&#x27;", "'").split())


def list_elements(html: str) -> list[tuple[str, dict[str, str | None]]]:
    elements: list[tuple[str, dict[str, str | None]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            elements.append((tag, dict(attrs)))

    Reader().feed(html)
    return elements


def read_input(arguments: Any, cap: int | None = excerpts.MAX_CHARACTERS_WAITING) -> str:
    """Return what a card shows of an input, without its folded raw text."""
    view = excerpts.build_excerpt(arguments, cap)
    html = render_body(arguments, view, dom="d", kind="execute", part="in", pictures_url="/")
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html.split('<details class="raw"')[0])).split())
