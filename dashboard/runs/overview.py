"""The first page: what waits for people, what runs, what went wrong."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from dashboard import pages
from dashboard.accounts.access import needs


@require_GET
@needs()
def now(request: HttpRequest) -> HttpResponse:
    """Everything at a glance."""
    return render(
        request, "now/now.html", pages.now() | {"calls": pages.waiting_window()[:20], "base": _get_base_url(request)}
    )


def _get_base_url(request: HttpRequest) -> str:
    return f"{request.scheme}://{request.get_host()}"
