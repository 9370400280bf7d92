"""Compresses pages. Streams and the API of agents are sent uncompressed."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.middleware.gzip import GZipMiddleware

SMALLEST_BODY = 1 << 10  # bytes; smaller responses are not worth the work
MEDIA_TYPES = {"text/html", "text/plain", "application/json", "application/yaml", "text/css", "text/javascript"}


class WholeResponseCompression(GZipMiddleware):
    """Compress whole responses of text with gzip, if the client accepts it.

    Against BREACH: Django masks the CSRF token of each page again, compressed bodies get up to 100 random bytes, and
    the session cookie is SameSite=Lax, so other sites can only navigate to pages, not request them in the background.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress the response, or return it unchanged."""
        if response.streaming or not is_worth_compressing(response):
            return response
        compressed: HttpResponseBase = super().process_response(request, response)
        return compressed


def is_worth_compressing(response: HttpResponseBase) -> bool:
    """Return whether this is a whole response of text, and large enough."""
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip()
    content: bytes = getattr(response, "content", b"")
    return media_type in MEDIA_TYPES and len(content) >= SMALLEST_BODY
