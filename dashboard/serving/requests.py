"""All requests of the process: counts those of unknown peers, and waits for open ones at a shutdown.

It counts peers behind a proxy or Daphne; the server counts other connections itself.
"""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Awaitable
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.template.loader import render_to_string

from dashboard.middleware import with_headers
from dashboard.serving.bodies import SendTracker
from dashboard.serving.peers import RETRY_AFTER, UnknownPeers
from toolcards.transports import shutdown
from toolcards.transports.api.admission import LINE
from toolcards.transports.api.api_errors import Problem, build_restarting
from toolcards.transports.api.asgi_messages import build_error_response, respond, respond_early
from toolcards.transports.background import activity

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
