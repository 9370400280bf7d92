"""The browsers' sockets: the whole board first, then changes. They carry no decisions; those are posted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from asgiref.sync import sync_to_async
from channels.consumer import AsyncConsumer
from django.urls import re_path

from dashboard import url_helpers
from dashboard.cards.rendering import NEW_PAGE, PageState, build_part
from dashboard.cards.timeline.zoom import TimeWindow
from dashboard.live import hub
from dashboard.live.base_board import LiveBoard
from dashboard.live.boards import BOARDS, StatusBoard
from dashboard.live.frames import Frame
from dashboard.live.run_board import RunBoard
from toolcards.models import AmbiguousRun, Run, decode_run_name
from toolcards.transports import shutdown
from toolcards.transports.api.admission import admit
from toolcards.transports.api.origins import is_own_origin
from toolcards.transports.api.seats import SIGNED_OUT, find_expired_seats, find_seat

NOT_THERE, AMBIGUOUS = 4404, 4409  # close codes

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


CLOCK_SECONDS = 15.0  # seconds between two signs of life
SHOWN_CALLS = "shown"  # the last parameter of the address: the calls that the page was drawn with

Boards = dict[Hashable, Callable[[], LiveBoard]]


class LiveSocket(AsyncConsumer):
    """A plain loop instead of Channels' dispatch, which costs a thread hop per message."""

    page = NEW_PAGE  # what the page showed when it was drawn

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one browser until it goes, or may not watch any more."""
        self.scope, self.send_raw = scope, scope[STRAIGHT]
        await receive()
        await self.send_raw({"type": "websocket.accept"})  # a refused handshake would be retried for ever
        viewer = find_seat(scope)
        code = await sync_to_async(self._barred, thread_sensitive=False)(viewer)
        boards = code or await self.boards()
        if isinstance(boards, int):
            await self.send_raw({"type": "websocket.close", "code": boards})
            return
        assert viewer is not None
        admit(scope)
        own_hub = hub.get_hub()
        await self._serve(hub.Watcher(viewer, boards, self.page), own_hub, receive)

    async def boards(self) -> Boards | int:
        """Return the socket's boards, or the close code of a refusal."""
        raise NotImplementedError

    @staticmethod
    def _barred(viewer: Any) -> int:
        return SIGNED_OUT if viewer is None else find_expired_seats({viewer}).get(viewer, 0)

    async def _serve(self, watcher: hub.Watcher, own_hub: hub.Hub, receive: Any) -> None:
        own_hub.enter(watcher)
        works = (
            _read_confirmations(watcher, receive),
            self._feed(watcher, own_hub),
            self._end(watcher),
            _send_heartbeats(watcher),
        )
        tasks = [asyncio.create_task(work) for work in works]
        try:
            with shutdown.subscribe(lambda: watcher.dismiss(shutdown.RECONNECT)):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            own_hub.leave(watcher)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _feed(self, watcher: hub.Watcher, own_hub: hub.Hub) -> None:
        """Send what is new, as fast as the browser takes it."""
        while True:
            await watcher.window.wait_until_open()
            frame = await watcher.slot.take()
            if watcher.slot.overflowed:
                watcher.slot.overflowed = False
                own_hub.want_whole(watcher)
            elif frame is not None:
                watcher.window.record_sent()
                await self.send_raw({"type": "websocket.send", "text": frame.text or _build_clock_message()})

    async def _end(self, watcher: hub.Watcher) -> None:
        code = await watcher.dismissed
        with contextlib.suppress(Exception):  # it may have gone by itself
            await self.send_raw({"type": "websocket.close", "code": code})


class MeSocket(LiveSocket):
    """On every page: the count of waiting calls, and the board of that page."""

    async def boards(self) -> Boards | int:
        """Return the badge, and the board that the page asked for."""
        query = self.scope.get("query_string", b"").decode("latin-1")
        query, _, shown_calls = query.partition(f"&{SHOWN_CALLS}=")
        self.page = PageState.read_calls(shown_calls)
        board = parse_qs(query).get("board", [""])[0]
        shown_boards: Boards = {"me": StatusBoard}
        if board in BOARDS:
            shown_boards[board, query] = lambda: BOARDS[board](query)
        return shown_boards


class RunSocket(LiveSocket):
    """A run's page."""

    async def boards(self) -> Boards | int:
        """Return the run's board, in the view that the page shows."""
        query = parse_qs(self.scope.get("query_string", b"").decode("latin-1"))
        name = decode_run_name(self.scope["url_route"]["kwargs"]["run"])
        source = query.get("source", [""])[0]
        try:
            run = await sync_to_async(Run.objects.only_one, thread_sensitive=False)(name, source)
        except Run.DoesNotExist:
            return NOT_THERE
        except AmbiguousRun:
            return AMBIGUOUS
        view = tab if (tab := query.get("tab", [""])[0]) in ("timeline", "head") else ""
        call = url_helpers.read_number(query.get("call", [""])[0]) or 0
        latest = TimeWindow.read_length(url_helpers.read_number(query.get("latest", [""])[0]) or 0)
        as_table = query.get("table", [""])[0] == "1"
        self.page = PageState(seq=url_helpers.read_number(query.get("since", [""])[0]) or 0)
        part = (latest, as_table) if view == "timeline" else ()
        return {("run", run.pk, view, call, *part): lambda: RunBoard(run.pk, view, call, latest, as_table=as_table)}


async def _send_heartbeats(watcher: hub.Watcher) -> None:
    """Send the time every CLOCK_SECONDS.

    There is one timer per socket: one per frame would cost as much as the frame.
    """
    while True:
        await asyncio.sleep(CLOCK_SECONDS)
        watcher.slot.offer(Frame({"clock": _build_clock_message()}))


async def _read_confirmations(watcher: hub.Watcher, receive: Any) -> None:
    """Read until the browser disconnects; it sends a message for each frame that it has handled, and nothing else."""
    while (await receive())["type"] != "websocket.disconnect":
        watcher.window.record_confirmed()


def _build_clock_message() -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return build_part("#server-clock", "outerMorph", f'<time id="server-clock" datetime="{now}" hidden></time>')


websocket_urlpatterns = [
    re_path(r"^ws/me/$", MeSocket.as_asgi()),
    re_path(r"^ws/runs/(?P<run>.+)/$", RunSocket.as_asgi()),
]
