"""The composition root: machines over HTTP and sockets, people's pages, people's live sockets, start and end."""

# ruff: noqa: E402 - models can be imported only after Django is set up
import os

from dashboard.serving.page_handler import get_page_handler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
pages = get_page_handler()  # sets up Django, so it comes before the imports below

from contextlib import suppress
from typing import Any

from asgiref.sync import sync_to_async
from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings

from dashboard.inbox.vote_middleware import VoteMiddleware
from dashboard.live.sockets import OriginGuard, websocket_urlpatterns
from dashboard.serving.bodies import BodyMeter, PeerCounter, RequestTracker
from toolcards import gate
from toolcards.database import report_outage
from toolcards.transports.api.api_errors import CLOSE_TRY_AGAIN
from toolcards.transports.background import anchor_copies, scheduler
from toolcards.transports.routing import AGENT_SOCKET, MachineRouter, agent_socket, reject_socket

# People's sockets: same origin only, signed in by session.
browser_sockets = OriginGuard(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))


async def sockets(scope: Any, receive: Any, send: Any) -> None:
    """Route agent sockets (by key) and browser sockets (by session)."""
    scheduler.start()
    if scope["path"] == AGENT_SOCKET or scope["path"] + "/" == AGENT_SOCKET:
        await agent_socket(scope, receive, send)
        return
    # Checked before authentication, so that an agent with a mistyped address does not blame its key.
    is_browser_socket = any(route.pattern.match(scope["path"].removeprefix("/")) for route in websocket_urlpatterns)
    try:
        await (browser_sockets if is_browser_socket else reject_socket)(scope, receive, send)
    except Exception as error:
        if not report_outage(error):
            raise
        with suppress(Exception):  # it may already be accepted or gone
            await send({"type": "websocket.accept"})
        with suppress(Exception):
            await send({"type": "websocket.close", "code": CLOSE_TRY_AGAIN})


async def lifespan(scope: Any, receive: Any, send: Any) -> None:
    """Start the scheduler with the server; commit accepted frames before it ends."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            scheduler.start()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await application.settle()  # a canceled request may still release an answer or a key
            await scheduler.stop()
            await sync_to_async(gate.drain, thread_sensitive=False)()
            await sync_to_async(anchor_copies.send_due, thread_sensitive=False)(all_of_it=True)
            await send({"type": "lifespan.shutdown.complete"})
            return


router = ProtocolTypeRouter(
    {"http": MachineRouter(VoteMiddleware(BodyMeter(pages))), "websocket": sockets, "lifespan": lifespan}
)
application = RequestTracker(PeerCounter(router, settings.TOOLCARDS.max_unauthenticated))
