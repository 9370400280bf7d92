"""Routes machine requests by their undecoded path, before Django's middleware."""

from __future__ import annotations

import re
from typing import Any

from django.urls import is_valid_path

from toolcards.transports.agents.agent_socket import AgentSocket
from toolcards.transports.agents.http_ingest import answer_ingest
from toolcards.transports.api.api_errors import build_not_found
from toolcards.transports.api.asgi_messages import build_error_response, get_raw_path, respond
from toolcards.transports.api.asgi_views import DirectView
from toolcards.transports.background import scheduler
from toolcards.transports.urls import ROUTES

AGENT_SOCKET = "/ws/agent/"
INGEST = "/api/v1/ingest"
agent_socket = AgentSocket.as_asgi()


def _list_spellings(route: str) -> tuple[str, str]:
    """Return the two paths of a route without parts: with and without a slash at the end."""
    return f"/{route}", f"/{route}/"


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile("/" + re.sub(r"<(\w+)>", r"(?P<\1>[^/]+)", pattern) + "/?")


_routes = [(_compile_pattern(route), DirectView(view)) for route, view in ROUTES.items() if "<" in route]
_fixed_routes = {
    path: DirectView(view) for route, view in ROUTES.items() if "<" not in route for path in _list_spellings(route)
}


# Below a machine's address, but a page's view: `votes` is not an approval.
_PAGE_PATHS = frozenset(_list_spellings("api/v1/approvals/votes"))


class MachineRouter:
    """HTTP for machines; everything else goes to `otherwise`."""

    def __init__(self, otherwise: Any) -> None:
        self.otherwise = otherwise

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer, or pass on."""
        scheduler.start()
        path = get_raw_path(scope)
        if path.rstrip("/") == INGEST:
            await answer_ingest(scope, receive, send)
            return
        application = _fixed_routes.get(path)
        if application is not None:
            await application(scope, receive, send, {})
            return
        for pattern, application in _routes:
            match = pattern.fullmatch(path) if path not in _PAGE_PATHS else None
            if match:
                await application(scope, receive, send, match.groupdict())
                return
        if path.startswith("/api/") and not is_valid_path(scope["path"]):
            await respond(send, build_error_response(build_not_found()))
            return
        await self.otherwise(scope, receive, send)


async def reject_socket(scope: Any, receive: Any, send: Any) -> None:
    """Close a socket at an unknown address with a code.

    Clients retry a refused handshake forever.
    """
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": 4404})
