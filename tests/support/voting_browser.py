"""A browser that votes by htmx, as an ASGI application sees it."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.middleware.csrf import _get_new_csrf_string  # type: ignore[attr-defined]

from toolcards.models import Approval, ToolCall

FORM = b"application/x-www-form-urlencoded;charset=UTF-8"


class Answer(NamedTuple):
    """What one application answered. `names`: those of its headers, also where one comes twice."""

    status: int
    headers: dict[str, str]
    body: bytes
    names: list[str]


class Browser:
    """A person's browser that votes by htmx. Change `headers` and `fields` to send something else."""

    def __init__(self, session: str, call: ToolCall) -> None:
        self.call, token = call, _get_new_csrf_string()
        self.approval = Approval.objects.get(call=call).pk
        self.path, self.method, self.query = f"/approvals/{self.approval}/vote", "POST", b""
        self.extra = b""  # sent after the fields
        self.headers = {
            b"host": b"127.0.0.1", b"origin": b"http://127.0.0.1", b"content-type": FORM, b"hx-request": b"true",
            b"cookie": f"toolcards_session={session}; toolcards_csrf={token}".encode(), b"x-csrftoken": token.encode(),
        }  # fmt: skip
        ask = call.as_card().approval
        assert ask is not None
        self.fields = {
            "decision": "approve",
            "rev": str(call.rev),
            "args_sha256": ask.args_sha256,
            "reason": "",
            "grant": "",
        }

    async def send(self, application: Any, body: bytes | None = None) -> Answer:
        body = urlencode(self.fields).encode() if body is None else body
        headers = {b"content-length": b"%d" % len(body), **self.headers}
        pieces = [body[: len(body) // 2], body[len(body) // 2 :]]
        scope = {
            "type": "http", "method": self.method, "path": self.path, "query_string": self.query, "root_path": "",
            "headers": list(headers.items()), "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 5000),
            "http_version": "1.1", "scheme": "http",
        }  # fmt: skip
        frames: list[Any] = []

        async def receive() -> Any:
            if not pieces:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

        async def send(message: Any) -> None:
            frames.append(message)

        await application(scope, receive, send)
        head = {name.decode().lower(): value.decode() for name, value in frames[0]["headers"]}
        body = b"".join(message.get("body", b"") for message in frames)
        names = sorted(name.decode().lower() for name, _ in frames[0]["headers"])
        return Answer(frames[0]["status"], head, body, names)
