"""The connect page: instructions with this server's address, and a checklist that updates live."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from dashboard.accounts.access import KEYS, needs
from dashboard.sources import checklist
from dashboard.sources.methods import COMMAND, METHODS, ConnectMethod, find_method
from toolcards.connect import snippet_text
from toolcards.models import AgentKey, Source

__all__ = ["METHODS", "PLACEHOLDER", "ConnectMethod", "connect", "fill_snippet"]

PLACEHOLDER = "PASTE-YOUR-AGENT-KEY"


@require_http_methods(["GET", "HEAD", "POST"])
@needs()
def connect(request: HttpRequest, slug: str = "") -> HttpResponse:
    """Show one way to connect.

    POST creates a key, which only this answer shows.
    """
    way = find_method(slug) if slug else METHODS[0]
    if way is None:
        raise Http404
    if request.method != "POST":
        return _render_page(request, way, request.GET.get("source") or way.slug)
    if not request.user.has_perm(KEYS):
        raise PermissionDenied
    key, secret = AgentKey.objects.issue(way.slug)
    return _render_page(request, way, way.slug, secret=secret, made=key)


def _render_page(request: HttpRequest, way: ConnectMethod, name: str, *, secret: str = "", **more: Any) -> HttpResponse:
    base = request.build_absolute_uri("/").rstrip("/")
    context = {
        "ways": METHODS, "way": way, "placeholder": PLACEHOLDER, "secret": secret, **more,
        "snippets": [
            (snippet, fill_snippet(snippet.name, base, secret or PLACEHOLDER, way)) for snippet in way.snippets
        ],
        "steps": checklist.list_steps(name), "follows": name,
        "sources": list(Source.objects.order_by("name").values_list("name", flat=True)[:200]),
    }  # fmt: skip
    return render(request, "connect/connect.html", context)


def fill_snippet(name: str, base: str, key: str = PLACEHOLDER, way: ConnectMethod | None = None) -> str:
    """Return a snippet with this server's address in it."""
    where = " --project FOLDER-OF-YOUR-CODE" if way and way.by_project else ""
    return snippet_text.render_snippet(
        name, base, key, framework=way.slug if way and name == COMMAND else "", where=where
    )
