"""Views for machines without Django's middleware: waiting requests hold no thread, and paths are matched undecoded.

Views are ordinary async Django views made by `endpoint`; `urls` mounts the same ones for Django's own handler.
"""

from __future__ import annotations

import asyncio
import functools
import io
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import quote, unquote

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.views.decorators.csrf import csrf_exempt

from toolcards.adapters import BadFrame
from toolcards.gate import RequestRefused
from toolcards.transports import shutdown
from toolcards.transports.api import auth
from toolcards.transports.api.admission import admit
from toolcards.transports.api.api_errors import (
    Problem,
    build_not_found,
    build_restarting,
    convert_bad_frame,
    convert_outage,
    convert_refusal,
)
from toolcards.transports.api.auth import Caller

log = logging.getLogger(__name__)
View = Callable[..., Awaitable[Any]]
HEADERS = {
    "Cache-Control": "no-store, private",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
}
BODY_START = 1 << 16  # bytes of a body that is too large, for those who must know what it is
# How much of an unwanted body is read and dropped, so that its sender sees the answer.
DRAIN_BYTES, DRAIN_SECONDS = 16 << 20, 5.0
# Seconds of a shutdown in which a body, or the rest of a refused one, is still read.
BODY_SECONDS_AT_SHUTDOWN, DRAIN_SECONDS_AT_SHUTDOWN = 2.0, 0.5


def endpoint(method: str, *scopes: str, people: bool = False, anybody: bool = False) -> Callable[[View], View]:
    """Make a view of a function that takes `(request, caller, **path_parts)`.

    The function returns JSON or a response; errors are answered as JSON. `view.check_head` checks the method and key
    from the head of the request; a view calls it itself if that was not done. `view.reads`: whether it takes a body.
    """

    def decorate(function: View) -> View:
        @csrf_exempt
        @functools.wraps(function)
        async def view(request: Any, **path_parts: str) -> HttpResponse | StreamingHttpResponse:
            try:
                if not hasattr(request, "caller"):
                    await check_head(request)
                caller = request.caller
                if "\0" in "".join(path_parts.values()):
                    raise build_not_found()
                if any("\0" in text for values in request.GET.lists() for text in values[1]):
                    raise Problem(400, "bad_query", "Query values must not contain NUL.")
                content = await function(request, caller, **path_parts)
            except Problem as problem:
                return build_error_response(problem)
            except RequestRefused as refused:
                return build_error_response(convert_refusal(refused))
            except BadFrame as bad:
                return build_error_response(convert_bad_frame(bad))
            except Exception as error:
                if (outage := convert_outage(error)) is None:
                    raise
                unavailable = getattr(view, "unavailable", None)
                return unavailable(request, outage) if unavailable else build_error_response(outage)
            return content if isinstance(content, (HttpResponse, StreamingHttpResponse)) else build_response(content)

        async def check_head(request: Any) -> None:
            if request.method != method and (request.method, method) != ("HEAD", "GET"):
                raise Problem(405, "method_not_allowed", f"Use {method}.", headers={"Allow": method})
            request.caller = await _caller(request)
            if request.caller is not None:
                admit(request.scope if hasattr(request, "scope") else None)

        async def _caller(request: Any) -> Caller | None:
            if anybody:
                return None
            if people:
                return await auth.authenticate_reader(request, *scopes)
            return await auth.authenticate_agent(request.headers.get("Authorization", ""), *scopes)

        view.method, view.scopes, view.people = method, scopes, people  # type: ignore[attr-defined]  # for docs
        view.permission = "anyone" if anybody else "agent key"  # type: ignore[attr-defined]
        view.check_head, view.reads = check_head, method != "GET"  # type: ignore[attr-defined]
        return view

    return decorate


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


class DirectView:
    """An ASGI application around one view. A disconnect cancels a view that waits."""

    def __init__(self, view: View) -> None:
        self.view = view

    async def __call__(self, scope: Any, receive: Any, send: Any, path_parts: dict[str, str]) -> None:
        """Answer one request; `path_parts` are percent-encoded."""
        body = io.BytesIO()
        request = ASGIRequest(scope, body)
        try:
            await self._check(request)
            if self.view.reads:  # type: ignore[attr-defined]
                body.write(await read_body(scope, receive, begin=hasattr(self.view, "too_large")))
                body.seek(0)
        except Problem as problem:
            await respond_early(
                scope,
                receive,
                send,
                await self._build_too_large_response(scope, problem) or build_error_response(problem),
            )
            return
        arguments = {name: unquote(part) for name, part in path_parts.items()}
        task = asyncio.ensure_future(self._run_view(request, send, arguments))
        disconnect = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({task, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            disconnect.cancel()
            if not task.done():
                task.cancel()
            await asyncio.gather(task, disconnect, return_exceptions=True)

    async def _check(self, request: Any) -> None:
        """Check host, method and key from the head of the request; raises Problem."""
        try:
            request.get_host()
            await self.view.check_head(request)  # type: ignore[attr-defined]
        except DisallowedHost:
            raise Problem(400, "bad_host", "This host name is not served here.") from None
        except Problem:
            raise
        except Exception as error:
            problem = _build_internal_problem(request, error)
            if problem.status == 503 and hasattr(self.view, "unavailable"):
                return  # its answer depends on the body; the view checks the head again
            raise problem from None

    async def _build_too_large_response(self, scope: Any, problem: Problem) -> HttpResponse | None:
        """Return what the view itself answers to a body that is too large, knowing the beginning of it."""
        build = getattr(self.view, "too_large", None)
        if build is None or not isinstance(problem, _TooLarge):
            return None
        response: HttpResponse | None = await build(ASGIRequest(scope, io.BytesIO(problem.beginning)), problem)
        return response

    async def _run_view(self, request: Any, send: Any, path_parts: dict[str, str]) -> None:
        try:
            response = await self.view(request, **path_parts)
        except Exception as error:
            response = build_error_response(_build_internal_problem(request, error))
        try:
            await respond(send, response)
        except Exception as error:  # the client is gone
            log.debug("not sent: %s", error)
        finally:
            if isinstance(response, StreamingHttpResponse):
                response.close()  # its pieces may never have been asked for


def _build_internal_problem(request: Any, error: Exception) -> Problem:
    if (outage := convert_outage(error)) is not None:
        return outage
    log.error("%s %s failed", request.method, request.path, exc_info=error)
    return Problem(500, "internal", "Internal error. See the server's log.")


def read_headers(scope: Any, *names: bytes) -> list[str]:
    """Return the last value of each of these headers of a request, "" without one."""
    values = dict(scope["headers"])
    return [values.get(name, b"").decode("latin-1") for name in names]


_JSON_HEADERS = [
    (b"content-type", b"application/json"),
    *((name.lower().encode("ascii"), value.encode("latin-1")) for name, value in HEADERS.items()),
]


async def send_json(send: Any, content: Any, headers: dict[str, str] | None = None) -> None:
    """Send JSON with status 200, without a Django response."""
    body = json.dumps(content).encode()
    more = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in (headers or {}).items()]
    all_headers = [*_JSON_HEADERS, *more, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})


async def respond(send: Any, response: Any) -> None:
    """Send a Django response."""
    headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    streams = isinstance(response, StreamingHttpResponse)
    if not streams:
        headers.append((b"content-length", str(len(response.content)).encode()))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    if not streams:
        await send({"type": "http.response.body", "body": response.content})
        return
    pieces: AsyncIterator[bytes] = aiter(response)
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def respond_early(scope: Any, receive: Any, send: Any, response: HttpResponse) -> None:
    """Send a response before the body is read, then drain the body and close.

    A connection that is closed with bytes unread is reset, and the sender never sees the response.
    """
    response["Connection"] = "close"
    headers = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in response.items()]
    headers.append((b"content-length", str(len(response.content)).encode()))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
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
    """Return the whole body; raises Problem 413, before the first byte if possible.

    `begin`: read up to the limit even then; the problem holds the beginning.
    """
    pieces: list[bytes] = []
    size, limit = 0, settings.TOOLCARDS.max_body
    if get_announced_length(scope) > limit and not begin:
        raise _TooLarge(limit)
    try:
        async with shutdown.limit(BODY_SECONDS_AT_SHUTDOWN):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "bad_request", "The body ended early.")
                piece = message.get("body", b"")
                size += len(piece)
                if size > limit:
                    raise _TooLarge(limit, b"".join([*pieces, piece])[:BODY_START])
                pieces.append(piece)
                if not message.get("more_body"):
                    return b"".join(pieces)
    except TimeoutError:
        raise build_restarting() from None


class _TooLarge(Problem):
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


async def _wait_for_disconnect(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
