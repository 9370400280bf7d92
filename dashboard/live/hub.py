"""One task per event loop: reads runs that rang, renders their changes, and sends them to every browser.

Reading and rendering happen in one thread of the hub. The loop only passes frames on and waits for no browser.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

from django.db import close_old_connections, connections

from dashboard.cards.rendering import NEW_PAGE, PageState
from dashboard.live.base_board import LiveBoard
from dashboard.live.changes import HEARTBEAT_SECONDS, ChangeReader, TickResult
from dashboard.live.frames import FrameSlot, Pacing, SendWindow, join_frames, render_answered
from toolcards import gate
from toolcards.database import read_with_retries, report_outage
from toolcards.doorbell import EVERY_APPROVAL, EVERY_RUN, Listener, listen
from toolcards.transports.api.seats import Seat, find_expired_seats

log = logging.getLogger(__name__)
TICK_SECONDS = 0.04  # seconds from the start of a tick to that of the next, on average
BURST = 4  # ticks that may follow each other at once after a pause, so that first changes are shown without delay
MAX_LOAD = 0.3  # the average share of time for reading, rendering and sending
SEND_SECONDS = 0.00003  # CPU that it takes to send one frame to one browser
FLOOD_LOAD = 0.1  # the same while frames arrive faster than they are written: writing them comes first
FLOOD_BACKLOG = 250  # frames that are not written yet
LOAD_ALLOWANCE = 0.5  # seconds that ticks may be ahead of that share: about 0.15 s of work without a pause
RECOVERY_SECONDS = 0.5  # seconds of pause after a failed tick
SERVER_ERROR = 1011  # the WebSocket close code after which a page connects again
AUDIT_SECONDS = 2.5  # seconds between two checks of access


class Watcher:
    """One browser's socket: its boards, its person, and its unsent parts.

    `page`: what its page showed when it was drawn; the first boards are sent without that.
    """

    def __init__(self, seat: Seat, boards: dict[Hashable, Callable[[], LiveBoard]], page: PageState = NEW_PAGE) -> None:
        self.seat, self.boards, self.page = seat, boards, page
        self.slot, self.window = FrameSlot(), SendWindow()
        self.dismissed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def dismiss(self, code: int) -> None:
        """Ask the socket to close with this code."""
        if not self.dismissed.done():
            self.dismissed.set_result(code)


class Hub:
    """The boards that are open in browsers, and their watchers."""

    def __init__(self) -> None:
        self.boards: dict[Hashable, LiveBoard] = {}
        self.watchers: dict[Hashable, set[Watcher]] = defaultdict(set)
        self._new: list[Watcher] = []
        self._changes = ChangeReader()
        self._rung: set[int] = set()
        self._bell: Listener | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self.spent = 0.0  # seconds of CPU of the last tick, with the frames that it sends

    # ------------------------------------------------------------ on the loop

    def enter(self, watcher: Watcher) -> None:
        """Add the watcher, which first gets its whole boards."""
        for key, make in watcher.boards.items():
            if key not in self.boards:
                self.boards[key] = make()
            self.watchers[key].add(watcher)
        self.want_whole(watcher)
        if self._task is None or self._task.done():
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="live")
            self._task = asyncio.create_task(self._run())

    def want_whole(self, watcher: Watcher) -> None:
        """Send the watcher its whole boards with the next tick."""
        self._new.append(watcher)
        if self._bell is not None:
            self._bell.wake(set())

    def leave(self, watcher: Watcher) -> None:
        """Remove the watcher, and boards without watchers."""
        for key in watcher.boards:
            self.watchers[key].discard(watcher)
            if not self.watchers[key]:
                self.watchers.pop(key, None)
                self.boards.pop(key, None)
        if not self.watchers and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        thread = self._thread
        assert thread is not None
        try:
            async with listen(EVERY_RUN, EVERY_APPROVAL) as bell:
                self._bell = bell
                await read_with_retries(lambda: self._in_thread(self._changes.begin), math.inf)
                await self._follow(bell)
        finally:
            self._bell = None
            thread.submit(connections.close_all)
            thread.shutdown(wait=False)

    async def _follow(self, bell: Listener) -> None:
        last_audit, ticks, load = time.monotonic(), Pacing(TICK_SECONDS * (BURST - 1)), Pacing(LOAD_ALLOWANCE)
        rung_runs: set[int] = set()
        while True:
            start = time.monotonic()
            try:
                await self._look(rung_runs)
                if start - last_audit >= AUDIT_SECONDS:
                    last_audit = start
                    await self._audit()
            except Exception as error:  # a short outage of the database must not end the live pages
                if not report_outage(error):
                    log.exception("live: an update failed; the next one sends complete pages")
                self._new = list({watcher for watchers in self.watchers.values() for watcher in watchers})
                await asyncio.sleep(RECOVERY_SECONDS)
            tick_end = start + ticks.record(start, TICK_SECONDS)
            await asyncio.sleep(start + load.record(start, self.spent / limit_load()) - time.monotonic())
            waits = 0.0 if self._rung or self._new else self._compute_rest()
            rung_runs = await bell.wait(waits) if waits > 0 else set()
            while not _is_urgent(rung_runs) and (seconds_left := tick_end - time.monotonic()) > 0:
                rung_runs |= await bell.wait(seconds_left)
            rung_runs |= self._rung
            self._rung = set()

    def _compute_rest(self) -> float:
        """Return for how many seconds no board needs a tick without news."""
        return min([HEARTBEAT_SECONDS, *[board.pending_seconds for board in self.boards.values()]])

    async def _look(self, rung_runs: set[int]) -> None:
        boards, new, self._new = dict(self.boards), self._new, []
        fresh: set[Hashable] = set().union(*[watcher.boards for watcher in new]) if new else set()
        result: TickResult = await self._in_thread(self._changes.read, rung_runs, boards, fresh)
        self._rung |= result.unfinished
        if result.frames.keys() != boards.keys() or not fresh <= result.wholes.keys():
            self._note_failures(result, boards.keys(), fresh & boards.keys())
        frame_count = len(new)
        for key, frame in result.frames.items():
            watchers = self.watchers.get(key, set()) if frame else set()
            frame_count += len(watchers)
            for watcher in watchers:
                watcher.slot.offer(frame)
        for watcher in new:
            wholes = [result.wholes[key] for key in watcher.boards if key in result.wholes]
            frame = join_frames(board_frame.select_newer(watcher.page) for board_frame in wholes)
            if answered_calls := watcher.page.calls.keys() - join_frames(wholes).parts.keys():
                frame = frame.merge(await self._in_thread(render_answered, answered_calls))
            watcher.slot.offer(frame)
            watcher.page = NEW_PAGE
        self.spent = result.spent + frame_count * SEND_SECONDS

    def _note_failures(self, result: TickResult, keys: Set[Hashable], fresh: Set[Hashable]) -> None:
        """Send whole boards instead of changes that failed; close the sockets of boards that fail again."""
        failures = keys - result.frames.keys()
        broken_keys = (fresh - result.wholes.keys()) | (fresh & failures)
        for key in failures - broken_keys:
            self._new += self.watchers.get(key, ())
        for key in broken_keys:
            for watcher in self.watchers.get(key, ()):
                watcher.dismiss(SERVER_ERROR)

    async def _audit(self) -> None:
        everybody = {watcher for watchers in self.watchers.values() for watcher in watchers}
        seats = {watcher.seat for watcher in everybody}
        close_codes = await self._in_thread(find_expired_seats, seats)
        for watcher in everybody:
            if watcher.seat in close_codes:
                watcher.dismiss(close_codes[watcher.seat])

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        assert self._thread is not None
        return await asyncio.get_running_loop().run_in_executor(self._thread, _run_with_connection, work, arguments)


def limit_load() -> float:
    """Return the share of time for reading and rendering now."""
    return FLOOD_LOAD if gate.count_backlog() >= FLOOD_BACKLOG else MAX_LOAD


def _is_urgent(rung_runs: set[int]) -> bool:
    """Return whether an approval changed, because a person or an agent waits for it."""
    return min(rung_runs, default=0) < 0


def _run_with_connection(work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    close_old_connections()
    try:
        return work(*arguments)
    finally:
        close_old_connections()


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def get_hub() -> Hub:
    """Return the hub of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]
