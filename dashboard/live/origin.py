"""Lets only our own pages open sockets: scheme, host and port of the Origin must be ours."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import validate_host

# In the scope: the server's own `send`. What stands between it and a browser's socket asks of each message whether the
# session is to be saved; live sockets change no session, and send to thousands.
STRAIGHT = "toolcards.send"
_SCHEMES = {"ws": "http", "wss": "https", "http": "http", "https": "https"}


class OriginGuard:
    """ASGI middleware: refuses the handshake of every foreign page, and of what sends no Origin."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass on, or refuse with 403."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if ours(headers.get(b"origin", ""), headers.get(b"host", ""), scope.get("scheme", "ws")):
            await self.application({**scope, STRAIGHT: send}, receive, send)
        else:
            await send({"type": "websocket.close", "code": 4403})


def ours(origin: str, host: str, scheme: str) -> bool:
    """Whether a page of this origin may open a socket to this host."""
    try:
        parts = urlsplit(origin)
        port, name = parts.port, parts.hostname
        asked = urlsplit(f"//{host}")
        here = (_SCHEMES.get(scheme, ""), asked.hostname, asked.port or _port(_SCHEMES.get(scheme, "")))
    except ValueError:
        return False
    if not name or parts.path not in ("", "/"):
        return False
    if any(_same(origin, known) for known in settings.TOOLCARDS.origins):
        return True
    allowed = validate_host(
        f"[{asked.hostname}]" if ":" in (asked.hostname or "") else asked.hostname or "", settings.ALLOWED_HOSTS
    )
    return allowed and (parts.scheme, name, port or _port(parts.scheme)) == here


def _same(one: str, other: str) -> bool:
    a, b = urlsplit(one), urlsplit(other)
    return (a.scheme, a.hostname, a.port or _port(a.scheme)) == (b.scheme, b.hostname, b.port or _port(b.scheme))


def _port(scheme: str) -> int:
    return 443 if scheme == "https" else 80
