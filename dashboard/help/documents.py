"""The documents in `docs/` as HTML: links stay inside the help, and commands match this installation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from dashboard.environment import BASE_DIR, CHECKOUT, PACKAGE

if TYPE_CHECKING:
    from markdown_it.token import Token

FOLDER = BASE_DIR / "docs" if CHECKOUT else PACKAGE / "_docs"
# The documents that people need first; others follow by name.
ORDER = (
    "connect-coding-agents",
    "connect-python",
    "connect-javascript",
    "policy",
    "api",
    "hooks",
    "operations",
    "glossary",
)
_COMMENTS = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_LINK = re.compile(r"(?P<name>[\w-]+)\.md(?P<anchor>#.*)?")


@dataclass(frozen=True)
class Document:
    """A document: the name in its address, its title, its HTML, and its sections as (id, title)."""

    name: str
    title: str
    html: SafeString
    sections: tuple[tuple[str, str], ...]


def list_documents() -> list[Document]:
    """Return all documents, those that people need first at the top."""
    names = sorted(path.stem for path in FOLDER.glob("*.md"))
    names.sort(key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    return [load_document(name) for name in names]


@cache
def load_document(name: str) -> Document:
    """Return the document of that name; raises FileNotFoundError."""
    from markdown_it import MarkdownIt  # loaded with the first document, so that servers start sooner

    text = _COMMENTS.sub("", (FOLDER / f"{Path(name).name}.md").read_text())
    if not CHECKOUT:
        text = re.sub(r"python3? manage\.py", "toolcards", text)
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    title, sections = name, []
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            heading = _plain_text(content)
            token.attrSet("id", _slug(heading))
            if token.tag == "h1":
                title = heading
            elif token.tag == "h2":
                sections.append((_slug(heading), heading))
    for token in tokens:
        _keep_links_inside(token)
        if token.type == "table_open":
            token.attrSet("tabindex", "0")  # wide tables scroll, also by keyboard
    html = mark_safe(markdown.renderer.render(tokens, markdown.options, {}))  # noqa: S308 - our own text, and without HTML
    return Document(name, title, html, tuple(sections))


def _plain_text(token: Token) -> str:
    return "".join(child.content for child in token.children or [] if child.type in ("text", "code_inline"))


def _slug(heading: str) -> str:
    """Return the id of a heading as GitHub makes it, so that links work in both places."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _keep_links_inside(token: Token) -> None:
    """Point links between documents at the help; links to other files of the repository become plain text."""
    children = token.children or []
    outside = False
    for child in children:
        if child.type == "link_open":
            target = str(child.attrGet("href") or "")
            match = _LINK.fullmatch(target)
            outside = False
            if match and (FOLDER / f"{match['name']}.md").exists():
                child.attrSet("href", reverse("help-document", args=[match["name"]]) + (match["anchor"] or ""))
            elif "://" in target:
                child.attrSet("rel", "noopener")
            elif not target.startswith("#"):
                outside = True
        if outside and child.type in ("link_open", "link_close"):
            outside = child.type == "link_open"
            child.type, child.tag, child.nesting, child.content = "text", "", 0, ""
