"""Help pages from the documents in `docs/`, and the API's descriptions for programs.

Links between documents stay inside the help, and commands match this installation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe

from dashboard.accounts.access import allow_anyone, needs
from dashboard.environment import BASE_DIR, CHECKOUT, PACKAGE
from toolcards.core.policy.language import document as policy_documents

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
    "settings",
    "performance",
    "glossary",
)
_FOR_DEVELOPERS = frozenset({"architecture", "following"})
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
    """Return the documents for users, the most important ones first."""
    names = sorted({path.stem for path in FOLDER.glob("*.md")} - _FOR_DEVELOPERS)
    names.sort(key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))
    return [load_document(name) for name in names]


@cache
def load_document(name: str) -> Document:
    """Return the document of that name; raises FileNotFoundError."""
    if name in _FOR_DEVELOPERS:
        raise FileNotFoundError(name)
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
            if match and match["name"] not in _FOR_DEVELOPERS and (FOLDER / f"{match['name']}.md").exists():
                child.attrSet("href", reverse("help-document", args=[match["name"]]) + (match["anchor"] or ""))
            elif "://" in target:
                child.attrSet("rel", "noopener")
            elif not target.startswith("#"):
                outside = True
        if outside and child.type in ("link_open", "link_close"):
            outside = child.type == "link_open"
            child.type, child.tag, child.nesting, child.content = "text", "", 0, ""


@require_safe
@needs()
def index(request: HttpRequest) -> HttpResponse:
    """List the documents."""
    return render(request, "help/index.html", {"documents": list_documents()})


@require_safe
@needs()
def document(request: HttpRequest, name: str) -> HttpResponse:
    """Show one document."""
    try:
        context: dict[str, Any] = {"document": load_document(name), "documents": list_documents()}
    except FileNotFoundError:
        raise Http404 from None
    return render(request, "help/document.html", context)


@allow_anyone
@require_safe
def openapi(request: HttpRequest) -> JsonResponse:
    """Return the HTTP API as OpenAPI 3.1; no sign-in required."""
    from dashboard.help.openapi import build_document  # its models of answers are for this page alone

    return _describe(build_document())


@allow_anyone
@require_safe
def policy_schema(request: HttpRequest) -> JsonResponse:
    """Return the JSON Schema of policy documents, for editors."""
    return _describe(policy_documents.build_schema())


def _describe(value: dict[str, Any]) -> JsonResponse:
    response = JsonResponse(value)
    response["Cache-Control"] = "no-cache"
    response["Access-Control-Allow-Origin"] = "*"  # documentation tools in browsers read it
    return response
