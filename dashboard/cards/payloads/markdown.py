"""Markdown of agents as HTML (markdown-it, CommonMark with tables): no HTML, no pictures, links as text."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from dashboard.cards.safe_text import mark_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MAX_CHARACTERS = 20_000
_SIGNS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^#{1,4} \S",
        r"^```",
        r"^(?:[-*] \S.*\n){2}",
        r"\*\*\S[^*\n]*\*\*",
        r"^\|.*\|\s*$\n^\|[ :|-]+\|$",
        r"(?<!`)`[^`\n]+`(?!`)",
    )
)
_CODE = re.compile(
    r"^(?:#!|#include|import |from \S+ import|def |class |function |const |let |package |use )", re.MULTILINE
)


def is_markdown(text: str, least: int = 2) -> bool:
    """Return whether the text looks like Markdown.

    It then has at least `least` signs of Markdown, and none of source code.
    """
    if len(text) > MAX_CHARACTERS or _CODE.search(_without_fences(text)):
        return False
    return sum(bool(sign.search(text)) for sign in _SIGNS) >= least


def render_markdown(text: str) -> str:
    """Return the text as HTML.

    Without links and pictures; the agent chooses no attributes.
    """
    parser = _get_parser()
    tokens = parser.parse(mark_text(text))
    for token in tokens:
        token.info = ""  # of a fence: it would become a class
        token.attrs = {}  # of table cells: an inline style
        if token.type in ("heading_open", "heading_close"):
            token.tag = "h4"  # the page has its own headings
    return str(parser.renderer.render(tokens, parser.options, {}))


@cache
def _get_parser() -> MarkdownIt:
    """Load the parser with the first text: a server that shows none starts sooner."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table").disable(["link", "autolink", "image", "reference"])


def _without_fences(text: str) -> str:
    return "".join(text.split("```")[::2])
