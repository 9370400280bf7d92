"""Lets only our own pages open sockets: scheme, host and port of the Origin must match."""

from __future__ import annotations

from typing import Any

from toolcards.transports.api.origins import is_own_origin

# In the scope: the server's own `send`. The middleware in between checks for each message whether the
# session must be saved; live sockets change no session, and send to thousands.
STRAIGHT = "toolcards.send"


class OriginGuard:
    """ASGI middleware that refuses handshakes of foreign pages and handshakes without an Origin."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass the handshake on, or refuse it with 403."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if is_own_origin(headers.get(b"origin", ""), headers.get(b"host", ""), scope.get("scheme", "ws")):
            await self.application({**scope, STRAIGHT: send}, receive, send)
        else:
            await send({"type": "websocket.close", "code": 4403})
