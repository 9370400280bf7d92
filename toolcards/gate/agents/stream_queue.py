"""The queue of one agent connection: frames wait here for the next group commit.

Frames are pushed on the event loop that reads the connection, and taken in batches on the writer's thread. A stream
with a call that plugins must see first is on hold at that frame until they have answered; other streams continue.
A frame that cannot be written because of a fault of ours is counted as skipped; its stream continues with the next one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from django.db import InterfaceError, InternalError, OperationalError
from django.db.transaction import TransactionManagementError

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.calls.facts import InputPiece
from toolcards.core.runs.run_context import FAULT, SkippedFrame
from toolcards.core.runs.sequence_set import SequenceNumber
from toolcards.gate.agents.run_commands import is_end_of_stream
from toolcards.gate.decisions import plugins
from toolcards.gate.decisions.plugins import PluginInquiry, PluginResult
from toolcards.gate.refusals import RequestRefused
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.transaction import MAX_SHARE, Transaction
from toolcards.models import Source

log = logging.getLogger(__name__)
# Not faults of one frame: the database or the machine is in trouble, or the request is refused. The sender tries again.
_OTHER_FAILURES = (
    RequestRefused, OperationalError, InterfaceError, InternalError, TransactionManagementError, OSError, MemoryError,
)  # fmt: skip
MAX_ON_HOLD = 500  # frames that a stream on hold accepts before its connection is no longer read


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What a commit wrote for a stream. `frames`: number of frames committed so far, including skipped ones."""

    seq: int
    frames: int
    decisions: list[dict[str, Any]] = field(default_factory=list)
    approvals: list[dict[str, str]] = field(default_factory=list)  # opened by the agent, and can be answered here
    refused_frames: int = 0  # frames whose sequence numbers have too many gaps
    faults: list[str] = field(default_factory=list)  # of each frame that a fault of ours cost: its call, "" for none


# What a frame brings (facts, one piece of input, or the mark of an unknown kind), the time of arrival in epoch seconds,
# and the sender's sequence number (0 for none). A plain tuple, because a busy server makes ten thousand a second.
Frame: TypeAlias = tuple[list[Any] | InputPiece | SkippedFrame, float, SequenceNumber]


class StreamQueue:
    """The queue of one connection. Create it on the event loop that reads the connection.

    `patience`: seconds that the agent waits for a decision, 0 for no limit. `on_commit` and `on_failure` are called on
    the event loop, after each commit and after the first failure.
    """

    def __init__(
        self,
        source: Source,
        run: str,
        *,
        protocol: str,
        agent: str = "",
        mode: str = "observe",
        channel: str = "none",
        patience: float = 0.0,
        on_commit: Callable[[CommitReport], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.source, self.run_name, self.protocol, self.agent = source, run, protocol, agent
        self.mode, self.channel, self.patience = mode, channel, patience
        self.program = ""  # the agent program, if the protocol is also that of others
        self.asks_again_after = 0.0  # seconds after which its request ends, and a person has to tell it to try again
        self.root = ""  # the folder of a new run's project, if each frame of the protocol names one
        self.run_pk = 0
        self.seq = 0
        self.urgent = False  # a request waits for the commit of its only frames
        self.reports_cards = False  # `cards` is set by the commit of the last frames
        self.cards: list[Card] = []  # of `touched_calls`, as committed, in the order of their first appearance
        self.is_shared = False  # another connection of this process sends the same run
        self.touched_calls: set[int] = set()  # ordinals of the calls in committed frames
        self.error: Exception | None = None  # once set, no frames are accepted
        self._on_commit, self._on_failure = on_commit, on_failure
        self._loop = asyncio.get_running_loop()
        self._pending: deque[Frame] = deque()
        self._leases: deque[float] = deque()  # seconds, not yet committed; the last one counts
        self._is_on_hold = self._is_queued = False
        self._queue_lock = threading.Lock()
        self._pushed_frames = self._committed_frames = 0
        self._reported_frames = 0  # whose commit was reported to `on_commit`
        self._progress = asyncio.Event()
        # The current commit:
        self._is_applied = False  # it writes this stream, which is not on hold
        self._batch: list[Frame] = []
        self._batch_leases = 0
        self._batch_calls: set[int] = set()
        self._batch_cards: list[Card] = []
        self._deferred: list[Frame] = []  # the end of the batch, for a later commit
        self._inquiries: list[PluginInquiry] = []
        self._plugin_results: list[PluginResult] = []
        self._decisions: list[dict[str, Any]] = []
        self._approvals: list[dict[str, str]] = []
        self._refused_frames = 0
        self._share = MAX_SHARE  # frames of a batch: fewer while a fault is searched for
        self._faults: list[str] = []  # not yet reported

    # ------------------------------------------------------------ on the event loop

    def push(self, content: list[Any] | InputPiece | SkippedFrame, number: SequenceNumber = 0) -> None:
        """Queue one frame and return at once."""
        if self.error is not None:
            return
        if type(content) is list and len(content) == 1 and type(content[0]) is f.InputDelta:
            content = (content[0].call_id, content[0].text)
        self._pending.append((content, time.time(), number))
        self._pushed_frames += 1
        if not self._is_queued:
            self._enqueue()
        group_commit.WRITER.frames_received += 1  # last: without a thread to write it, the frame was not received

    @property
    def is_full(self) -> bool:
        """Return whether too many frames are pending; call `wait_for_room` before reading more."""
        return group_commit.WRITER.is_full or (self._is_on_hold and len(self._pending) > MAX_ON_HOLD)

    async def wait_for_room(self) -> None:
        """Wait while too many frames are pending, to slow the agent down."""
        while self.is_full:  # noqa: ASYNC110 - a thread empties it, and setting an event of this loop is expensive
            await asyncio.sleep(0.005)

    async def wait_until_committed(self) -> None:
        """Wait until all frames pushed so far are committed; raises a failure."""
        goal = self._pushed_frames
        while self._is_behind(goal):
            self._progress.clear()
            if self._is_behind(goal):
                await self._progress.wait()
        if self.error is not None:
            raise self.error

    def renew_lease(self, lease: float) -> None:
        """Keep the run alive for `lease` seconds; then it counts as lost."""
        if self.error is None:
            self._leases.append(lease)
            self._enqueue()

    def prepare_lease(self, lease: float) -> None:
        """Renew the lease in the commit of the next frames."""
        self._leases.append(lease)

    def _is_behind(self, goal: int) -> bool:
        return self.error is None and (self._reported_frames < goal or bool(self._leases))

    def _enqueue(self) -> None:
        """Join the writer's queue unless already in it. A stream on hold joins when the plugins have answered."""
        with self._queue_lock:
            if self._is_queued or self._is_on_hold:
                return
            self._is_queued = True
        group_commit.WRITER.enqueue(self)

    # ------------------------------------------------------------ on the writer's thread

    def run_keys(self) -> Iterable[tuple[int, str]]:
        """See group_commit.Work."""
        return [(self.source.pk, self.run_name)]

    def list_approvals(self) -> Iterable[str]:
        """See group_commit.Work."""
        return ()

    def mark_dequeued(self) -> None:
        """See group_commit.Work."""
        # Not part of `apply`, which a failing batch repeats: the stream would be queued twice.
        with self._queue_lock:
            self._is_queued = False

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        # After a failure frames are lost, and none must be written after the gap. Raised here, the old error would fail
        # the other works of this commit.
        self._is_applied = not self._is_on_hold and self.error is None
        if not self._is_applied:
            return
        pending, room = self._pending, self._share - len(self._batch)
        self._batch += [pending.popleft() for _ in range(min(len(pending), room))]
        self._batch_leases, self._batch_calls, self._refused_frames = len(self._leases), set(), 0
        self._decisions, self._approvals, self._inquiries, self._deferred = [], [], [], []
        self._write(tx)

    def _write(self, tx: Transaction) -> None:
        """Write the batch and its leases."""
        raise NotImplementedError

    def finish(self, error: Exception | None) -> None:
        """See group_commit.Work."""
        if error is None and self._is_applied:
            self._finish_commit()
        elif error is not None and self._is_applied and self._isolate_fault(error):
            self._enqueue()
        elif error is not None or self.error is not None:  # else it is on hold, and new frames wait for the plugins
            self._fail(error)

    def _isolate_fault(self, error: Exception) -> bool:
        """Halve a batch that failed; skip its frame if it is one. Return whether to write what is left."""
        if isinstance(error, _OTHER_FAILURES) or not self._batch:
            return False
        self._share = len(self._batch) // 2
        if self._share:
            self._pending.extendleft(reversed(self._batch[self._share :]))
            del self._batch[self._share :]
            return True
        ((content, received_at, number),) = self._batch
        if type(content) is SkippedFrame or is_end_of_stream(content):
            return False
        log.error("a frame of run %s was skipped: it could not be recorded", self.run_name, exc_info=error)
        self._share, self._batch = 1, [(SkippedFrame(FAULT), received_at, number)]
        self._faults.append(_find_call(content))
        return True

    def _finish_commit(self) -> None:
        batch, self._batch = self._batch, []
        self._share, faults, self._faults = min(2 * self._share, MAX_SHARE), self._faults, []
        committed_count = len(batch) - len(self._deferred)
        group_commit.WRITER.frames_committed += committed_count
        self._committed_frames += committed_count
        self.touched_calls |= self._batch_calls
        self.cards = self._batch_cards
        self._plugin_results = []
        self._pending.extendleft(reversed(self._deferred))
        for _ in range(self._batch_leases):
            self._leases.popleft()
        report = CommitReport(
            self.seq, self._committed_frames, self._decisions, self._approvals, self._refused_frames, faults
        )
        if self._inquiries:
            self._consult_plugins()
        elif self._pending or self._leases:
            self._enqueue()
        group_commit.call_on_loop(self._loop, lambda: self._notify(report))

    def _fail(self, error: Exception | None) -> None:
        """Stop the stream; queued again, it would fail forever. Only its first error is reported."""
        is_first = self.error is None
        self.error = self.error or error
        self._leases.clear()
        drop_count, self._batch = len(self._batch), []
        while self._pending:
            self._pending.popleft()
            drop_count += 1
        group_commit.WRITER.frames_committed += drop_count
        group_commit.call_on_loop(self._loop, self._notify_failure if is_first else self._progress.set)

    def _consult_plugins(self) -> None:
        """Put the stream on hold until the plugins have answered all inquiries."""
        with self._queue_lock:
            self._is_on_hold = True
        futures = [plugins.start_inquiry(inquiry) for inquiry in self._inquiries]
        unanswered_count = threading.Semaphore(len(futures) - 1)

        def resume(_: Future[PluginResult]) -> None:
            if unanswered_count.acquire(blocking=False):
                return
            self._plugin_results = [future.result() for future in futures]
            with self._queue_lock:
                self._is_on_hold = False
            self._enqueue()

        for future in futures:
            future.add_done_callback(resume)

    def _notify(self, report: CommitReport) -> None:
        self._reported_frames = report.frames
        self._progress.set()
        if self.error is None and self._on_commit is not None:
            self._on_commit(report)

    def _notify_failure(self) -> None:
        self._progress.set()
        if self.error is not None and self._on_failure is not None:
            self._on_failure(self.error)


def _find_call(content: Any) -> str:
    """Return the call of a frame, "" for none."""
    if isinstance(content, tuple):
        return str(content[0])
    return next((fact.call_id for fact in content if fact.call_id), "")
