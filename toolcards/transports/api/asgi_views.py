"""Answers machines without Django's middleware: who waits holds no thread, and paths are read before they are decoded.

Views are ordinary async Django views made by `endpoint`; `urls` mounts the same ones for Django's own handler.
"""

from __future__ import annotations

import asyncio
import functools
import io
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
# Of an unwanted body so much is still read and forgotten, so that its sender sees the answer. Bytes and seconds.
DRAIN_BYTES, DRAIN_SECONDS = 16 << 20, 5.0
BODY_SECONDS_AT_SHUTDOWN, DRAIN_SECONDS_AT_SHUTDOWN = (
    2.0,
    0.5,
)  # seconds of a shutdown that a body, and the rest of a refused one, are read on


def endpoint(method: str, *scopes: str, people: bool = False, anybody: bool = False) -> Callable[[View], View]:
    """Make a view of a function `(request, caller, **named)` that returns JSON, or a response; every no is JSON too.

    `view.knock` checks the method and the key by the head of the request alone; a view that was not knocked at does so
    itself. `view.reads`: whether it takes a body at all.
    """

    def made(function: View) -> View:
        @csrf_exempt
        @functools.wraps(function)
        async def view(request: Any, **named: str) -> HttpResponse:
            try:
                if not hasattr(request, "caller"):
                    await knock(request)
                caller = request.caller
                if "\0" in "".join(named.values()):  # nothing is called so, and not every database can be asked for it
                    raise build_not_found()
                if any("\0" in given for values in request.GET.lists() for given in values[1]):
                    raise Problem(400, "bad_query", "Query values must not contain NUL.")
                said = await function(request, caller, **named)
            except Problem as problem:
                return build_error_response(problem)
            except RequestRefused as refused:
                return build_error_response(convert_refusal(refused))
            except BadFrame as bad:
                return build_error_response(convert_bad_frame(bad))
            except Exception as error:
                if (away := convert_outage(error)) is None:
                    raise
                unavailable = getattr(view, "unavailable", None)
                return unavailable(request, away) if unavailable else build_error_response(away)
            return said if isinstance(said, (HttpResponse, StreamingHttpResponse)) else build_response(said)

        async def knock(request: Any) -> None:
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
        view.knock, view.reads = knock, method != "GET"  # type: ignore[attr-defined]
        return view

    return made


def build_response(said: Any, status: int = 200, headers: dict[str, str] | None = None) -> HttpResponse:
    """Return the JSON answer."""
    return JsonResponse(said, status=status, headers=HEADERS | (headers or {}), safe=False)


def build_error_response(problem: Problem) -> HttpResponse:
    """Return the problem as an answer."""
    return build_response(problem.body, problem.status, problem.headers)


def get_raw_path(scope: Any) -> str:
    """Return the path as it was sent, percent-encoded, without the query."""
    raw = scope.get("raw_path")
    return raw.partition(b"?")[0].decode("latin-1") if raw else quote(scope["path"])


class DirectView:
    """An ASGI application around one view. Who hangs up while the view waits, ends the waiting."""

    def __init__(self, view: View) -> None:
        self.view = view

    async def __call__(self, scope: Any, receive: Any, send: Any, named: dict[str, str]) -> None:
        """Answer one request; `named` are the parts of the path, still encoded."""
        body = io.BytesIO()
        request = ASGIRequest(scope, body)
        try:
            await self._check(request)
            if self.view.reads:  # type: ignore[attr-defined]
                body.write(await read_body(scope, receive, begin=hasattr(self.view, "too_large")))
                body.seek(0)
        except Problem as problem:
            await respond_early(
                scope, receive, send, await self._instead(scope, problem) or build_error_response(problem)
            )
            return
        told = {name: unquote(part) for name, part in named.items()}
        task = asyncio.ensure_future(self._answered(request, send, told))
        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not task.done():
                task.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)

    async def _check(self, request: Any) -> None:
        """Check host, method and key by the head alone; raises Problem."""
        try:
            request.get_host()
            await self.view.knock(request)  # type: ignore[attr-defined]
        except DisallowedHost:
            raise Problem(400, "bad_host", "This host name is not served here.") from None
        except Problem:
            raise
        except Exception as error:
            problem = _build_internal_problem(request, error)
            if problem.status == 503 and hasattr(self.view, "unavailable"):
                return  # what it answers depends on the body; it knocks again
            raise problem from None

    async def _instead(self, scope: Any, problem: Problem) -> HttpResponse | None:
        """Return what the view itself answers to a body that is too large, knowing the beginning of it."""
        instead = getattr(self.view, "too_large", None)
        if instead is None or not isinstance(problem, _TooLarge):
            return None
        answered: HttpResponse | None = await instead(ASGIRequest(scope, io.BytesIO(problem.begun)), problem)
        return answered

    async def _answered(self, request: Any, send: Any, named: dict[str, str]) -> None:
        try:
            response = await self.view(request, **named)
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
    if (away := convert_outage(error)) is not None:
        return away
    log.error("%s %s failed", request.method, request.path, exc_info=error)
    return Problem(500, "internal", "Internal error. See the server's log.")


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
    pieces: AsyncIterator[bytes] = aiter(response)  # type: ignore[arg-type]
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def respond_early(scope: Any, receive: Any, send: Any, response: HttpResponse) -> None:
    """Send a response to a request whose body was not read, then read on for a moment, and close.

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
    """Return how long the body will be as the head says, 0 where it does not."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0][:18]) if lengths and lengths[0].isdigit() else 0


async def read_body(scope: Any, receive: Any, *, begin: bool = False) -> bytes:
    """Return the whole body; raises Problem 413, before the first byte where the head says so much.

    `begin`: read as much as is allowed even then; the problem holds the beginning.
    """
    pieces, size, limit = [], 0, settings.TOOLCARDS.max_body
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
    def __init__(self, limit: int, begun: bytes = b"") -> None:
        super().__init__(413, "too_large", f"The body must have at most {limit} bytes.")
        self.begun = begun


async def _drain(receive: Any) -> None:
    left = DRAIN_BYTES
    try:
        async with asyncio.timeout(DRAIN_SECONDS), shutdown.limit(DRAIN_SECONDS_AT_SHUTDOWN):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b"")) or 1
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return


async def _wait_for_disconnect(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
