"""Limits the bodies of page requests before Django spools them: small without a session, larger with one.

Django's handler reads a complete body before anything else. So the limit is checked here: by the length in the head,
else while the body arrives. More than a sign-in form needs is read only from people who are signed in or have a
personal token.
"""

from __future__ import annotations

import io
from collections.abc import Awaitable
from typing import Any

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse
from django.template.loader import render_to_string

from dashboard.middleware import with_headers
from toolcards.transports.api import auth
from toolcards.transports.api.admission import admit
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.asgi_messages import build_error_response, get_announced_length, has_body, respond_early

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
