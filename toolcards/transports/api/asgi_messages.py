"""Requests and answers as ASGI messages: headers, bodies with limits, answers as JSON, and answers before the body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse

from toolcards.transports import shutdown
from toolcards.transports.api.admission import WHOLE_ANSWER
from toolcards.transports.api.api_errors import Problem, build_not_found, build_restarting

HEADERS = {
    "Cache-Control": "no-store, private",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
}
LONGEST_CACHED = 1_000  # bytes of a query that is kept parsed
BODY_START = 1 << 16  # bytes of a body that is too large, for those who must know what it is
# How much of an unwanted body is read and dropped, so that its sender sees the answer.
DRAIN_BYTES, DRAIN_SECONDS = 16 << 20, 5.0
# Seconds of a shutdown in which a body, or the rest of a refused one, is still read.
BODY_SECONDS_AT_SHUTDOWN, DRAIN_SECONDS_AT_SHUTDOWN = 2.0, 0.5


def build_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> HttpResponse:
    """Return the JSON answer."""
    return JsonResponse(content, status=status, headers=HEADERS | (headers or {}), safe=False)


def build_error_response(problem: Problem) -> HttpResponse:
    """Return the problem as an answer."""
    return build_response(problem.body, problem.status, problem.headers)


def get_raw_path(scope: Any) -> str:
    """Return the path as it was sent, percent-encoded, without the query."""
    raw = scope.get("raw_path")
    return raw.partition(b"?")[0].decode("latin-1") if raw else quote(scope["path"])


def parse_parameters(query: bytes) -> dict[str, str]:
    """Return the last value of each parameter of a query.

    The result is shared: do not change it. Raises Problem 400 (socket 4400), so that two names that are not UTF-8 do
    not become the same one.
    """
    return (_parse_parameters if len(query) <= LONGEST_CACHED else _parse_parameters.__wrapped__)(query)


@lru_cache(maxsize=4096)
def _parse_parameters(query: bytes) -> dict[str, str]:
    try:
        parameters = parse_qs(query.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise Problem(400, "bad_query", "The query must be UTF-8, percent-encoded.") from None
    return {name: values[-1] for name, values in parameters.items()}


def decode_path_part(part: str) -> str:
    """Decode a part of a path.

    Raises Problem 404 if it is not UTF-8.
    """
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise build_not_found() from None


def read_headers(scope: Any, *names: bytes) -> list[str]:
    """Return the last value of each of these request headers.

    "" for a missing one.
    """
    values = dict(scope["headers"])
    return [values.get(name, b"").decode("latin-1") for name in names]


_encode = DjangoJSONEncoder().encode
_JSON_HEADERS = [
    (b"content-type", b"application/json"),
    *((name.lower().encode("ascii"), value.encode("latin-1")) for name, value in HEADERS.items()),
]


_HEADER_LINES = b"".join(b"%b: %b\r\n" % header for header in _JSON_HEADERS)


async def send_json(scope: Any, send: Any, content: Any, headers: dict[str, str] | None = None) -> None:
    """Send the content as JSON with status 200.

    Does not build a Django response. With the extension `WHOLE_ANSWER`, the server writes it at once.
    """
    body = _encode(content).encode()
    write = scope.get("extensions", {}).get(WHOLE_ANSWER)
    if write is not None and not headers and write(_HEADER_LINES, body):
        return
    more = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in (headers or {}).items()]
    all_headers = [*_JSON_HEADERS, *more, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})


def _encode_headers(response: Any) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in response.items()]


async def respond(send: Any, response: Any) -> None:
    """Send a Django response."""
    streams = isinstance(response, StreamingHttpResponse)
    if not streams:
        response["Content-Length"] = str(len(response.content))
    headers = _encode_headers(response)
    headers += [(b"set-cookie", cookie.OutputString().encode("ascii")) for cookie in response.cookies.values()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    if not streams:
        await send({"type": "http.response.body", "body": response.content})
        return
    pieces: AsyncIterator[bytes] = aiter(response)
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def respond_early(scope: Any, receive: Any, send: Any, response: HttpResponse) -> None:
    """Send a response before reading the body, then drain and close.

    A connection that is closed with bytes unread is reset, and the sender never sees the response.
    """
    response["Connection"] = "close"
    response["Content-Length"] = str(len(response.content))
    await send({"type": "http.response.start", "status": response.status_code, "headers": _encode_headers(response)})
    await send({"type": "http.response.body", "body": response.content, "more_body": True})
    if has_body(scope) and not any(name == b"expect" for name, _ in scope["headers"]):
        await _drain(receive)
    await send({"type": "http.response.body", "body": b""})


def has_body(scope: Any) -> bool:
    """Return whether the head of the request announces a body."""
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
               for name, value in scope["headers"])  # fmt: skip


def get_announced_length(scope: Any) -> int:
    """Return the announced length of the body, 0 without one."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0][:18]) if lengths and lengths[0].isdigit() else 0


async def read_body(scope: Any, receive: Any, *, begin: bool = False) -> bytes:
    """Return the whole body.

    Raises Problem 413, before the first byte if possible.
    `begin`: read up to the limit even then; the problem holds the beginning.
    """
    pieces: list[bytes] = []
    size, limit = 0, settings.TOOLCARDS.max_body
    if get_announced_length(scope) > limit and not begin:
        raise BodyTooLarge(limit)
    try:
        async with shutdown.limit(BODY_SECONDS_AT_SHUTDOWN):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "bad_request", "The body ended early.")
                piece = message.get("body", b"")
                size += len(piece)
                if size > limit:
                    raise BodyTooLarge(limit, b"".join([*pieces, piece])[:BODY_START])
                pieces.append(piece)
                if not message.get("more_body"):
                    return b"".join(pieces)
    except TimeoutError:
        raise build_restarting() from None


class BodyTooLarge(Problem):
    """A body above the limit; `beginning` is what was read of it."""

    def __init__(self, limit: int, beginning: bytes = b"") -> None:
        super().__init__(413, "too_large", f"The body must have at most {limit} bytes.")
        self.beginning = beginning


async def _drain(receive: Any) -> None:
    remaining = DRAIN_BYTES
    try:
        async with asyncio.timeout(DRAIN_SECONDS), shutdown.limit(DRAIN_SECONDS_AT_SHUTDOWN):
            while remaining > 0:
                message = await receive()
                remaining -= len(message.get("body", b"")) or 1
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return
