"""What makes the dashboard an app of a phone or a desktop: the web manifest, the service worker and the offline page.

The service worker keeps the offline page and its styles, and nothing that needs a sign-in. It shows the messages of Web
Push as notifications, which open the page of the call.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.views.decorators.http import require_safe

from dashboard.accounts.access import allow_anyone

COLORS = {"light": "#f9fafc", "dark": "#0c0e13"}
SHELL_FILES = ("tokens", "base", "parts")  # styles of the offline page


@allow_anyone
@require_safe
def manifest(request: HttpRequest) -> JsonResponse:
    """Return the web manifest (https://www.w3.org/TR/appmanifest/)."""
    icons = [
        {"src": static("toolcards/icon-192.png"), "sizes": "192x192", "type": "image/png", "purpose": "any"},
        {"src": static("toolcards/icon-512.png"), "sizes": "512x512", "type": "image/png", "purpose": "any"},
        {"src": static("toolcards/icon-maskable.png"), "sizes": "512x512", "type": "image/png", "purpose": "maskable"},
    ]
    shortcuts = [{"name": "Approvals", "url": "/approvals/"}, {"name": "Runs", "url": "/runs/"}]
    document = {
        "id": "/", "name": "Toolcards", "short_name": "Toolcards", "start_url": "/approvals/", "scope": "/",
        "description": "See every tool call of your agents, and stop the ones that you do not want.",
        "display": "standalone", "background_color": COLORS["light"], "theme_color": COLORS["light"],
        "icons": icons, "shortcuts": shortcuts,
    }  # fmt: skip
    return JsonResponse(document, content_type="application/manifest+json")


@allow_anyone
@require_safe
def service_worker(request: HttpRequest) -> HttpResponse:
    """Return the service worker.

    It is served from the root, so that its scope is every page.
    """
    files = [static(f"toolcards/{name}.css") for name in SHELL_FILES]
    files += [static("toolcards/theme.js"), static("toolcards/favicon.svg")]
    context = {"files": files, "icon": static("toolcards/icon-192.png")}
    return render(request, "web_app/service_worker.js", context, content_type="text/javascript")


@allow_anyone
@require_safe
def offline(request: HttpRequest) -> HttpResponse:
    """Show what the service worker shows while the server cannot be reached."""
    files = [static(f"toolcards/{name}.css") for name in SHELL_FILES]
    return render(request, "web_app/offline.html", {"files": files})
