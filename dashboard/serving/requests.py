"""Count requests that are not known yet, where the server has not counted their connections: proxies, Daphne."""

from __future__ import annotations

import io
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.template.loader import render_to_string

from dashboard.middleware import with_headers
from dashboard.serving.peers import RETRY_AFTER, Crowd
from toolcards.transports.http import refusal, respond_early
from toolcards.transports.lines import LINE
from toolcards.transports.problems import Problem

MESSAGE = "Too many requests from this address are waiting to be identified."


class Counted:
    """ASGI application in front of all others."""

    def __init__(self, application: Any, most: int) -> None:
        self.application, self.crowd = application, Crowd(most)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on, or answer 429; a socket is refused before it is opened."""
        lines = scope.get(LINE, ())
        if scope["type"] == "lifespan" or any(line.counted for line in lines):
            await self.application(scope, receive, send)
            return
        peer = self.crowd.enter((scope.get("client") or ("",))[0])
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
        answer = refusal(Problem(429, "slow_down", MESSAGE))
    else:
        page = HttpResponse(render_to_string("429.html"), status=429)
        answer = with_headers(ASGIRequest(scope, io.BytesIO()), page)
    answer["Retry-After"] = str(RETRY_AFTER)
    await respond_early(scope, receive, send, answer)
