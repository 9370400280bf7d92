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
from toolcards.gate import Refused
from toolcards.transports import auth
from toolcards.transports.auth import Caller
from toolcards.transports.problems import Problem, not_found, of_bad_frame, of_refusal

log = logging.getLogger(__name__)
View = Callable[..., Awaitable[Any]]
HEADERS = {
    "Cache-Control": "no-store, private",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
}
BEGUN = 1 << 16  # bytes of a body that is too large, for those who must know what it is
DRAINED = 1 << 20  # bytes of a body nobody wants that are still read, so that the sender hears why


def endpoint(method: str, *scopes: str, people: bool = False, anybody: bool = False) -> Callable[[View], View]:
    """Make a view of a function `(request, caller, **named)` that returns JSON, or a response; every no is JSON too."""

    def made(function: View) -> View:
        @csrf_exempt
        @functools.wraps(function)
        async def view(request: Any, **named: str) -> HttpResponse:
            try:
                if request.method != method and (request.method, method) != ("HEAD", "GET"):
                    raise Problem(405, "method_not_allowed", f"Use {method}.", headers={"Allow": method})
                caller = await _caller(request)
                if "\0" in "".join(named.values()):  # nothing is called so, and not every database can be asked for it
                    raise not_found()
                if any("\0" in given for values in request.GET.lists() for given in values[1]):
                    raise Problem(400, "bad_query", "No value here has a NUL.")
                said = await function(request, caller, **named)
            except Problem as problem:
                return refusal(problem)
            except Refused as refused:
                return refusal(of_refusal(refused))
            except BadFrame as bad:
                return refusal(of_bad_frame(bad))
            return said if isinstance(said, (HttpResponse, StreamingHttpResponse)) else answer(said)

        async def _caller(request: Any) -> Caller | None:
            if anybody:
                return None
            if people:
                return await auth.reader(request, *scopes)
            return await auth.agent(request.headers.get("Authorization", ""), *scopes)

        view.method, view.scopes, view.people = method, scopes, people  # type: ignore[attr-defined]  # for docs
        return view

    return made


def answer(said: Any, status: int = 200, headers: dict[str, str] | None = None) -> HttpResponse:
    """Return the JSON answer."""
    return JsonResponse(said, status=status, headers=HEADERS | (headers or {}), safe=False)


def refusal(problem: Problem) -> HttpResponse:
    """Return the problem as an answer."""
    return answer(problem.body, problem.status, problem.headers)


def raw_path(scope: Any) -> str:
    """Return the path as it was sent, percent-encoded, without the query."""
    raw = scope.get("raw_path")
    return raw.partition(b"?")[0].decode("latin-1") if raw else quote(scope["path"])


class Direct:
    """An ASGI application around one view. Who hangs up while the view waits, ends the waiting."""

    def __init__(self, view: View) -> None:
        self.view = view

    async def __call__(self, scope: Any, receive: Any, send: Any, named: dict[str, str]) -> None:
        """Answer one request; `named` are the parts of the path, still encoded."""
        try:
            request = ASGIRequest(scope, io.BytesIO(await body_of(receive)))
            request.get_host()
        except Problem as problem:
            await respond(send, await self._instead(scope, problem) or refusal(problem))
            return
        except DisallowedHost:
            await respond(send, refusal(Problem(400, "bad_host", "This host name is not served here.")))
            return
        told = {name: unquote(part) for name, part in named.items()}
        task = asyncio.ensure_future(self._answered(request, send, told))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not task.done():
                task.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)

    async def _instead(self, scope: Any, problem: Problem) -> HttpResponse | None:
        """What the view itself answers to a body that is too large; it has the beginning of it."""
        instead = getattr(self.view, "too_large", None)
        begun = problem.told.pop("begun", b"")
        return await instead(ASGIRequest(scope, io.BytesIO(begun)), problem) if instead else None

    async def _answered(self, request: Any, send: Any, named: dict[str, str]) -> None:
        try:
            response = await self.view(request, **named)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            response = refusal(Problem(500, "internal", "Something went wrong here; it is in the server's log."))
        try:
            await respond(send, response)
        except Exception as error:  # the client is gone
            log.debug("not sent: %s", error)


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


async def body_of(receive: Any) -> bytes:
    """Return the whole body; raises Problem 413."""
    pieces, size, limit = [], 0, settings.TOOLCARDS.max_body
    while True:
        message = await receive()
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            await drain(receive)
            begun = b"".join([*pieces, piece])[:BEGUN]
            raise Problem(413, "too_large", f"A body has at most {limit} bytes.", begun=begun)
        pieces.append(piece)
        if not message.get("more_body"):
            return b"".join(pieces)


async def drain(receive: Any) -> None:
    """Read on for a while and forget it: a sender that is cut off does not read our answer."""
    left = 8 * DRAINED
    try:
        async with asyncio.timeout(2):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b"")) or 1
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
