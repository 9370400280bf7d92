"""One task per event loop: hears which runs have news, renders each changed card once, and hands it to every browser.

Looking and rendering happen in one thread of the hub's own; the loop only hands frames over and waits for no browser.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import Any
from weakref import WeakKeyDictionary

from django.db import close_old_connections, connections
from django.db.models import Q
from django.utils import timezone

from dashboard.live.boards import Board, News
from dashboard.live.frames import Frame, Slot, join
from dashboard.live.rights import Seat, lost
from toolcards.doorbell import EVERY_RUN, Listener, listening
from toolcards.models import Run, ToolCall

log = logging.getLogger(__name__)
TICK = 0.05  # seconds between two looks, at least
SHARE = 0.3  # of the time may go into looking and rendering
HEARTBEAT = 2.0  # a lost ring costs this much
LATELY = timedelta(seconds=HEARTBEAT + 3)  # before a look: what is older has rung and was looked at
AUDIT = 2.5  # seconds between two looks at who may still watch
RUNS = 5_000  # newest runs whose position is noted as a board of all calls is opened
MOST = 300  # changed calls per look; the rest follows in the next


class Watcher:
    """One browser's socket: which boards it sees, who sits there, and what it has yet to be sent."""

    def __init__(self, seat: Seat, boards: dict[Hashable, Callable[[], Board]]) -> None:
        self.seat, self.boards = seat, boards
        self.slot = Slot()
        self.dismissed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def dismiss(self, code: int) -> None:
        """The socket is to be closed with this code."""
        if not self.dismissed.done():
            self.dismissed.set_result(code)


class Hub:
    """The boards that somebody looks at, and who does."""

    def __init__(self) -> None:
        self.boards: dict[Hashable, Board] = {}
        self.watchers: dict[Hashable, set[Watcher]] = defaultdict(set)
        self._new: list[Watcher] = []
        self._seen: dict[int, int] = {}  # run -> position up to which its calls were looked at
        self._seen_asked: dict[int, int] = {}  # the same for runs of which only calls that people are asked about count
        self._covered: dict[Hashable, Board] = {}  # the boards of the look before
        self._rung: set[int] = set()
        self._bell: Listener | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._looked_at = timezone.now()
        self.spent = 0.0  # seconds of CPU that the last look took

    # ------------------------------------------------------------ on the loop

    def enter(self, watcher: Watcher) -> None:
        """Begin to feed the watcher: its whole boards first."""
        for key, make in watcher.boards.items():
            if key not in self.boards:
                self.boards[key] = make()
            self.watchers[key].add(watcher)
        self.want_whole(watcher)
        if self._task is None or self._task.done():
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="live")
            self._task = asyncio.create_task(self._run())

    def want_whole(self, watcher: Watcher) -> None:
        """Send the watcher its whole boards at the next look."""
        self._new.append(watcher)
        if self._bell is not None:
            self._bell.wake(set())

    def leave(self, watcher: Watcher) -> None:
        """Forget the watcher, and boards that nobody looks at any more."""
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
            async with listening(EVERY_RUN) as bell:
                self._bell = bell
                await self._in_thread(self._begin)
                await self._follow(bell)
        finally:
            self._bell = None
            thread.submit(connections.close_all)
            thread.shutdown(wait=False)

    async def _follow(self, bell: Listener) -> None:
        audited = time.monotonic()
        rung: set[int] = set()
        while True:
            begun = time.monotonic()
            try:
                await self._look(rung)
                if begun - audited >= AUDIT:
                    audited = begun
                    await self._audit()
            except Exception:  # a database that is away for a moment must not end the live pages
                log.exception("live: this look failed; the next one comes")
                self._rung |= rung
            await asyncio.sleep(max(TICK, self.spent / SHARE - self.spent))
            waits = 0 if self._rung or self._new else 0.25 if self._owes() else HEARTBEAT
            rung = await bell.wait(waits) if waits else set()
            rung |= self._rung
            self._rung = set()

    def _owes(self) -> bool:
        return any(board.owes for board in self.boards.values())

    async def _look(self, rung: set[int]) -> None:
        boards, new, self._new = dict(self.boards), self._new, []
        fresh = {key for watcher in new for key in watcher.boards}
        frames, wholes, self.spent = await self._in_thread(self._work, rung, boards, fresh)
        for key, frame in frames.items():
            if frame:
                for watcher in self.watchers.get(key, ()):
                    watcher.slot.offer(frame)
        for watcher in new:
            watcher.slot.offer(join(wholes[key] for key in watcher.boards if key in wholes))

    async def _audit(self) -> None:
        everybody = {watcher for watchers in self.watchers.values() for watcher in watchers}
        seats = {watcher.seat for watcher in everybody}
        gone = await self._in_thread(lost, seats)
        for watcher in everybody:
            if watcher.seat in gone:
                watcher.dismiss(gone[watcher.seat])

    async def _in_thread(self, work: Callable[..., Any], *given: Any) -> Any:
        assert self._thread is not None
        return await asyncio.get_running_loop().run_in_executor(self._thread, _connected, work, given)

    # ------------------------------------------------------------ in the thread

    def _begin(self) -> None:
        """What is there already is not news."""
        self._looked_at = timezone.now()
        self._seen = dict(Run.objects.active().values_list("pk", "seq"))
        self._seen_asked, self._covered = dict(self._seen), {}

    def _work(self, rung: set[int], boards: dict[Hashable, Board], fresh: set[Hashable]) -> tuple[dict, dict, float]:
        # CPU, not the clock: a busy disk or neighbour must not make the next look later.
        begun = time.thread_time()
        late = self._cover(boards)
        news = self._news(rung, boards)
        news.calls[:0] = late
        frames: dict[Hashable, Frame] = {key: board.changes(news) for key, board in boards.items()}
        wholes = {key: boards[key].whole() for key in fresh if key in boards}
        return frames, wholes, time.thread_time() - begun

    def _cover(self, boards: dict[Hashable, Board]) -> list[ToolCall]:
        """A board that is new is sent whole: of what its runs said before, nothing is news. It may be 10,000 calls.

        Boards that were there before have looked at these runs for questions alone; of those they get what is left.
        """
        before, self._covered = self._covered, boards
        if any(board.every and board.runs is None for board in before.values()):
            return []
        looked_at = _runs_of(before)
        newly = {key: board for key, board in boards.items() if key not in before and board.every}
        if any(board.runs is None for board in newly.values()):
            rows = Run.objects.order_by("-pk")[:RUNS]
        else:
            rows = Run.objects.filter(pk__in=_runs_of(newly) - looked_at)
        now = list(rows.values_list("pk", "seq", "updated_at")) if newly else []
        now = [(pk, seq, at) for pk, seq, at in now if pk not in looked_at]
        self._seen |= {pk: seq for pk, seq, _ in now}
        since = self._looked_at - LATELY
        return self._fetch({pk for pk, seq, at in now if at >= since}, asked_only=True)

    def _news(self, rung: set[int], boards: dict[Hashable, Board]) -> News:
        now = timezone.now()
        switched, rung = EVERY_RUN in rung, rung - {EVERY_RUN}
        if not rung:  # a ring may have been lost
            changed = Run.objects.filter(updated_at__gte=self._looked_at - LATELY).values_list("pk", "seq")[:2_000]
            rung = {pk for pk, seq in changed if seq != self._seen.get(pk)}
        self._looked_at = now
        return News(self._calls(rung, boards), frozenset(rung), switched)

    def _calls(self, rung: set[int], boards: dict[Hashable, Board]) -> list[ToolCall]:
        """The calls of these runs that changed since the last look, as far as any board needs them."""
        everywhere = [board for board in boards.values() if board.runs is None]
        own = _runs_of(boards) & rung
        asked_only = not any(board.every for board in everywhere)
        others = rung - own if everywhere else frozenset()
        return self._fetch(own, asked_only=False) + self._fetch(others, asked_only=asked_only)

    def _fetch(self, runs: frozenset[int] | set[int], *, asked_only: bool) -> list[ToolCall]:
        found: list[ToolCall] = []
        listed, seen = sorted(runs), self._seen_asked if asked_only else self._seen
        for start in range(0, len(listed), 50):
            some = listed[start : start + 50]
            later = reduce(or_, (Q(run=pk, seq__gt=seen.get(pk, 0)) for pk in some))
            rows = ToolCall.objects.filter(later).select_related("run", "run__source")
            if asked_only:
                rows = rows.filter(requested_at__isnull=False)
            found += self._taken(list(rows.order_by("seq")[:MOST]), some, seen)
        return found

    def _taken(self, rows: list[ToolCall], runs: list[int], seen: dict[int, int]) -> list[ToolCall]:
        for call in rows:
            seen[call.run_id] = max(call.seq, seen.get(call.run_id, 0))
        if len(rows) == MOST:
            self._rung |= set(runs)  # there is more: look again
        return rows


def _runs_of(boards: dict[Hashable, Board]) -> frozenset[int]:
    """Return the runs that the boards name."""
    return frozenset().union(*(board.runs or () for board in boards.values()))


def _connected(work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    close_old_connections()
    try:
        return work(*given)
    finally:
        close_old_connections()


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def here() -> Hub:
    """Return the hub of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]
