"""Limits the bodies of page requests before Django spools them: small without a session, larger with one.

Django's handler reads a complete body before anything else. So the limit is checked here: by the length in the head,
else while the body arrives. More than a sign-in form needs is read only from people who are signed in or have a
personal token.
"""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Awaitable
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.template.loader import render_to_string

from dashboard.middleware import with_headers
from dashboard.serving.limits import RETRY_AFTER, UnknownPeers
from toolcards.transports import shutdown
from toolcards.transports.api import auth
from toolcards.transports.api.admission import LINE, admit
from toolcards.transports.api.api_errors import Problem, build_restarting
from toolcards.transports.api.asgi_messages import (
    build_error_response,
    get_announced_length,
    has_body,
    respond,
    respond_early,
)
from toolcards.transports.background import activity

# All requests of the process: counts those of unknown peers, and waits for open ones at a shutdown.
#
# It counts peers behind a proxy or Daphne; the server counts other connections itself.
log = logging.getLogger(__name__)
SETTLE = 2.0  # seconds that canceled requests have to finish
MESSAGE = "Too many requests from this address are waiting to be identified."


class RequestTracker:
    """Outermost ASGI middleware: knows the open requests, and answers one that a shutdown interrupts."""

    def __init__(self, application: Any) -> None:
        self.application = application
        self._running: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on."""
        task = asyncio.current_task()
        if scope["type"] == "lifespan" or task is None:
            await self.application(scope, receive, send)
            return
        self._running.add(task)
        try:
            with activity.use():
                await (self._answer if scope["type"] == "http" else self.application)(scope, receive, send)
        except asyncio.CancelledError:
            if not shutdown.has_begun():
                raise
            log.warning("shutdown: %s was interrupted", scope["path"])
        finally:
            self._running.discard(task)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        answering = SendTracker(send)
        try:
            await self.application(scope, receive, answering.send)
        except asyncio.CancelledError:
            if shutdown.has_begun() and not answering.began:
                await respond(send, build_error_response(build_restarting()))
            raise

    async def settle(self) -> None:
        """Wait until every request has ended."""
        loop = asyncio.get_running_loop()
        if running := {task for task in self._running if task.get_loop() is loop}:
            await asyncio.wait(running, timeout=SETTLE)


class PeerCounter:
    """ASGI middleware that limits unknown peers."""

    def __init__(self, application: Any, most: int) -> None:
        self.application, self.unknown_peers = application, UnknownPeers(most)

    def __call__(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        """Pass the request on, or answer 429; sockets are refused before they open."""
        lines = scope.get(LINE, ())
        if scope["type"] == "lifespan" or any([line.is_counted for line in lines]):  # noqa: C419 - half the time
            answering: Awaitable[None] = self.application(scope, receive, send)
            return answering
        return self._count(scope, receive, send, lines)

    async def _count(self, scope: Any, receive: Any, send: Any, lines: Any) -> None:
        peer = self.unknown_peers.enter((scope.get("client") or ("",))[0])
        if peer is None:
            await _refuse(scope, receive, send)
            return
        try:
            await self.application({**scope, LINE: (*lines, peer)}, receive, send)
        finally:
            peer.close()


async def _refuse(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 4429})
        return
    if scope["path"].startswith("/api/"):
        answer = build_error_response(Problem(429, "slow_down", MESSAGE))
    else:
        page = HttpResponse(render_to_string("429.html"), status=429)
        answer = with_headers(ASGIRequest(scope, io.BytesIO()), page)
    answer["Retry-After"] = str(RETRY_AFTER)
    await respond_early(scope, receive, send, answer)


SMALL = 64 << 10  # bytes: a sign-in form, and other forms that need no session
LARGE = ("/policy/", "/api/v1/policy/")  # addresses that accept whole documents


class BodyMeter:
    """ASGI middleware in front of Django."""

    def __init__(self, pages: Any) -> None:
        self.pages = pages

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on with a limited body, or refuse it.

        413 for a body that is too long; 401 for a program without a session.
        """
        if not has_body(scope):
            await self.pages(scope, receive, send)
            return
        body = _RequestBody(scope, receive)
        if await body.fits(get_announced_length(scope)):
            answering = SendTracker(send)
            await self.pages(scope, body.receive, answering.send)
            if not body.over or answering.began:
                return
        await respond_early(scope, receive, send, body.refusal())


class _RequestBody:
    """The body of one request. `over`: it exceeds its limit; `known`: the person is signed in."""

    def __init__(self, scope: Any, receive: Any) -> None:
        self._scope, self._receive = scope, receive
        self._size, self._most = 0, SMALL
        self.over = False
        self.is_known: bool | None = None

    async def fits(self, size: int) -> bool:
        """Return whether a body of this length is allowed.

        Small ones need no session.
        """
        if size <= self._most:
            return True
        if self.is_known is None:
            self.is_known = await auth.is_person(ASGIRequest(self._scope, io.BytesIO()))
            if self.is_known:
                admit(self._scope)
                env, path = settings.TOOLCARDS, self._scope["path"]
                self._most = env.max_body if path.startswith(LARGE) else env.max_form
        self.over = size > self._most
        return not self.over

    async def receive(self) -> Any:
        """Return the next message; a disconnect if the body is too long."""
        message = await self._receive()
        self._size += len(message.get("body", b""))
        return message if await self.fits(self._size) else {"type": "http.disconnect"}

    def refusal(self) -> HttpResponse:
        """Return the response that refuses the body."""
        if self._scope["path"].startswith("/api/"):
            if not self.is_known:
                return build_error_response(Problem(401, "signed_out", "Sign in first."))
            return build_error_response(Problem(413, "too_large", f"The body must have at most {self._most} bytes."))
        page = HttpResponse(render_to_string("413.html", {"most": self._most}), status=413)
        return with_headers(ASGIRequest(self._scope, io.BytesIO()), page)


class SendTracker:
    """Records whether a response was started."""

    def __init__(self, send: Any) -> None:
        self._send, self.began = send, False

    def send(self, message: Any) -> Awaitable[None]:
        """Pass the message on."""
        self.began = True
        sending: Awaitable[None] = self._send(message)
        return sending
