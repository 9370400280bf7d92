"""Middleware of pages: security headers, compression, outages, and the actor for the audit trail."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.defaults import server_error

from dashboard.accounts.guessing import hashing
from dashboard.cards import safe_text
from toolcards.audit.trail import ACTOR
from toolcards.database import LONGEST_PAUSE, PATIENCE, RETRY_AFTER, report_outage

ADMIN = "/admin/"

# Constant, without nonces, which pushed cards could not have. Pages have no inline scripts or styles.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
# Only htmx may turn text into elements. The admin's jQuery does not support this.
TRUSTED_TYPES = "; require-trusted-types-for 'script'; trusted-types htmx"

PERMISSIONS = ", ".join(
    f"{feature}=()"
    for feature in ("camera", "microphone", "geolocation", "payment", "usb", "serial", "hid", "display-capture")
)
# A page loads fifty of these files. What governs documents means nothing for them, and is half of what each would send.
PARTS_OF_PAGES = frozenset({"text/javascript", "application/javascript", "text/css"})
HEADERS_OF_DOCUMENTS = (
    "Content-Security-Policy", "Permissions-Policy", "Cross-Origin-Opener-Policy", "Referrer-Policy",
)  # fmt: skip

# Streams and the API of agents are sent uncompressed.
SMALLEST_BODY = 1 << 10  # bytes; smaller responses are not worth the work
MEDIA_TYPES = {"text/html", "text/plain", "application/json", "application/yaml", "text/css", "text/javascript"}


class Middleware:
    """The base of middleware for requests on the event loop and on threads."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)  # type: ignore[type-var]


class SecurityHeaders(Middleware):
    """Sets headers that Django's SecurityMiddleware does not support."""

    def __call__(self, request: HttpRequest) -> Any:
        """Answer on a thread, or return the coroutine that does."""
        if self.is_async:
            return self._answer(request)
        return with_headers(request, self.get_response(request))

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        return with_headers(request, await self.get_response(request))


class NoNul(Middleware):
    """Refuses NUL in an address or a form with 400, because PostgreSQL cannot store it."""

    def __call__(self, request: HttpRequest) -> Any:
        """Refuse or pass on the request."""
        if not _has_nul(request):
            return self.get_response(request)
        refusal = answer_bad_request(request, BadRequest("a NUL"))
        return _return_later(refusal) if self.is_async else refusal


def _has_nul(request: HttpRequest) -> bool:
    queries = (request.GET, request.POST)
    texts = (value for query in queries for _, values in query.lists() for value in values)
    return "\0" in request.path_info or any("\0" in str(value) for value in texts)


async def _return_later(response: HttpResponse) -> HttpResponse:
    return response


class TooBusy(Middleware):
    """Answers 429 if too many requests wait for password hashing, 503 while the database is unavailable.

    Pages that only read are retried for a few seconds first.
    """

    def __call__(self, request: HttpRequest) -> Any:
        """Pass the request on; retry reads during an outage."""
        if self.is_async:
            return self._answer(request)
        deadline = time.monotonic() + PATIENCE
        while True:
            response = self.get_response(request)
            if not _is_worth_another_try(request, response, deadline):
                return response
            time.sleep(LONGEST_PAUSE)

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        deadline = time.monotonic() + PATIENCE
        while True:
            response: HttpResponse = await self.get_response(request)
            if not _is_worth_another_try(request, response, deadline):
                return response
            await asyncio.sleep(LONGEST_PAUSE)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """See Django."""
        if report_outage(exception):
            response = unavailable(request)
            response.is_outage = True  # type: ignore[attr-defined]
            return response
        if not isinstance(exception, hashing.HashingBusy):
            return None
        answer = render(request, "429.html", status=429)
        answer["Retry-After"] = str(hashing.RETRY_AFTER)
        return answer


def unavailable(request: HttpRequest) -> HttpResponse:
    """Return the 503 page or JSON error, without reading the database."""
    headers = {"Retry-After": str(RETRY_AFTER)}
    if request.path.startswith("/api/"):
        error = {"code": "unavailable", "message": "The database is not available right now. Send the request again."}
        return JsonResponse({"error": error}, status=503, headers=headers)
    return HttpResponse(render_to_string("503.html"), status=503, headers=headers)


def answer_bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return the 400 page or JSON error, without reading the form.

    Its charset may be what is refused.
    """
    if request.path.startswith("/api/"):
        error = {"code": "bad_request", "message": "The server does not understand this request."}
        return JsonResponse({"error": error}, status=400)
    return HttpResponse(render_to_string("400.html"), status=400)


def broken(request: HttpRequest) -> HttpResponse:
    """Return Django's 500 or its JSON error.

    503 if a middleware found the database unavailable.
    """
    error = sys.exc_info()[1]
    if error is not None and report_outage(error):
        return unavailable(request)
    if request.path.startswith("/api/"):
        return JsonResponse(
            {"error": {"code": "internal", "message": "Internal error. See the server's log."}}, status=500
        )
    return server_error(request)


def _is_worth_another_try(request: HttpRequest, response: HttpResponse, deadline: float) -> bool:
    return hasattr(response, "is_outage") and request.method in ("GET", "HEAD") and time.monotonic() < deadline


class Acting(Middleware):
    """Sets the actor, which the audit trail names for acts of this request."""

    def __call__(self, request: HttpRequest) -> Any:
        """Set the actor for this request only: context variables belong to it."""
        ACTOR.set(lambda: _person(request))
        return self.get_response(request)


class VisibleAdmin(Middleware):
    """Marks invisible characters on pages of the admin, whose templates are Django's."""

    def __call__(self, request: HttpRequest) -> Any:
        """Answer on a thread, or return the coroutine that does."""
        if self.is_async:
            return self._answer(request)
        return _with_marks(request, self.get_response(request))

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        return _with_marks(request, await self.get_response(request))


def _with_marks(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    page = response.headers.get("Content-Type", "").startswith("text/html") and not response.streaming
    if page and request.path.startswith(ADMIN):
        response.content = safe_text.mark_page(response.content.decode()).encode()
    return response


def _person(request: HttpRequest) -> tuple[str, str]:
    """Return the actor. Called only when an act is written, since it costs a query."""
    user = getattr(request, "user", None)
    return ("human", user.get_username()) if user is not None and user.is_authenticated else ("nobody", "")


def with_headers(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Add our headers to the response.

    A view's own headers stay, except Cache-Control.
    """
    response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    is_static = request.path.startswith(settings.STATIC_URL)
    if is_static and response.headers.get("Content-Type", "").partition(";")[0] in PARTS_OF_PAGES:
        for name in HEADERS_OF_DOCUMENTS:
            response.headers.pop(name, None)
        return response
    admin = request.path.startswith(ADMIN)
    response.headers.setdefault("Content-Security-Policy", POLICY if admin else POLICY + TRUSTED_TYPES)
    response.headers.setdefault("Permissions-Policy", PERMISSIONS)
    if not is_static:
        # Responses with texts of people or agents must not stay in a cache. All pages, exports and redirects do, and
        # after a sign-out, the back button must not show cards.
        response.headers["Cache-Control"] = "no-store, private"
    return response


class WholeResponseCompression(GZipMiddleware):
    """Compress whole responses of text with gzip, if the client accepts it.

    Against BREACH: Django masks the CSRF token of each page again, compressed bodies get up to 100 random bytes, and
    the session cookie is SameSite=Lax, so other sites can only navigate to pages, not request them in the background.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress the response, or return it unchanged."""
        if response.streaming or not is_worth_compressing(response):
            return response
        compressed_response: HttpResponseBase = super().process_response(request, response)
        return compressed_response


def is_worth_compressing(response: HttpResponseBase) -> bool:
    """Return whether this is a whole response of text, and large enough."""
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip()
    content: bytes = getattr(response, "content", b"")
    return media_type in MEDIA_TYPES and len(content) >= SMALLEST_BODY
