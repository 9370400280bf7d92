"""Lets only our own pages open sockets: scheme, host and port of the Origin must be ours."""

from __future__ import annotations

from typing import Any

from toolcards.transports.api.origins import is_own_origin

# In the scope: the server's own `send`. What stands between it and a browser's socket asks of each message whether the
# session is to be saved; live sockets change no session, and send to thousands.
STRAIGHT = "toolcards.send"


class OriginGuard:
    """ASGI middleware: refuses the handshake of every foreign page, and of what sends no Origin."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass on, or refuse with 403."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if is_own_origin(headers.get(b"origin", ""), headers.get(b"host", ""), scope.get("scheme", "ws")):
            await self.application({**scope, STRAIGHT: send}, receive, send)
        else:
            await send({"type": "websocket.close", "code": 4403})
