"""How to connect an agent: what works today, as text to copy, with this server's own address."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.http import require_GET

from dashboard.views.guards import needs
from dashboard.ways import WAYS, Way

__all__ = ["PLACEHOLDER", "WAYS", "Way", "connect", "text"]

PLACEHOLDER = "PASTE-YOUR-AGENT-KEY"


@require_GET
@needs()
def connect(request: HttpRequest, slug: str = "") -> HttpResponse:
    """One way at a time."""
    way = next((way for way in WAYS if way.slug == (slug or WAYS[0].slug)), None)
    if way is None:
        raise Http404
    base = request.build_absolute_uri("/").rstrip("/")
    shown = [(snippet, text(snippet.name, base)) for snippet in way.snippets]
    return render(
        request, "connect/connect.html", {"ways": WAYS, "way": way, "snippets": shown, "placeholder": PLACEHOLDER}
    )


def text(name: str, base: str, key: str = PLACEHOLDER) -> str:
    """Return a snippet with this server's address in it."""
    host = "ws" + base.removeprefix("http")
    return render_to_string(f"connect/snippets/{name}.txt", {"base": base, "socket": host, "key": key}).strip() + "\n"
