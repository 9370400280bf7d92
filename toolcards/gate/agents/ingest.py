"""Frames in: one stream per connection or body; its facts join the next group commit.

    stream = gate.open_stream(…)    stream.push(facts)    await stream.wait_until_committed()    stream.close(…)

`on_commit` is called on the event loop after each commit that held something of the stream, with what was
committed and, on a gate stream, the decisions that its calls were given. A stream with a call that plug-ins must hear
of is held at that frame until they have: its own frames wait, those of others do not.

Longer than most modules: taking in, telling and settling share the stream's queue and counters across two threads,
and are only to be understood side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.calls.facts import InputPiece
from toolcards.core.runs import sequence_set
from toolcards.core.runs.sequence_set import SequenceNumber, TooManyGaps
from toolcards.core.runs.skipped_frames import SkippedFrame
from toolcards.gate.agents.announcements import fill_in_approval
from toolcards.gate.agents.liveness import renew_lease, resume_run, void_permits
from toolcards.gate.agents.stream_end import END_OF_STREAM, close_own_calls, find_run_end
from toolcards.gate.decisions import plugins
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.evaluation import evaluate_call, start_next_attempt
from toolcards.gate.decisions.plugins import PluginInquiry, PluginResult
from toolcards.gate.decisions.preflight import is_stopped
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction, fit_text
from toolcards.models import Approval, Source

MAX_FRAMES = 1_000  # frames of one stream that one commit takes: its neighbours' acks wait no longer than for that
# So many frames of one stream in one commit, or of all streams not yet committed, are a flood: then the neighbouring
# pieces of an input are written together.
FLOOD, PRESSURE = 16, 250
MAX_HELD = 500  # frames that a held stream takes in before its connection is read no further
_INPUT_FACTS = (f.InputReady, f.InputRepaired)
_OUTPUT_FACTS = (f.OutputReady, f.OutputPartial)


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did for a stream. `frames`: how many of its frames are committed so far, skipped ones included."""

    seq: int
    frames: int
    decisions: list[dict[str, Any]] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)  # the agent's own questions that can be answered here
    refused: int = 0  # frames whose own number left a gap too many


# One frame: its facts, the one piece of input it brought, or that its kind is unknown; when it came, and the sender's
# own number (0 for none).
# Plain tuples, since ten thousand are made in a second; a piece is made a fact when it is told.
Frame: TypeAlias = tuple[list[Any] | InputPiece | SkippedFrame, float, SequenceNumber]


class Stream:
    """One connection's way into the log. Made on the event loop that reads the connection."""

    urgent = False

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
        on_commit: Callable[[Committed], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.source, self.run_name, self.protocol, self.agent = source, run, protocol, agent
        self.mode, self.channel = mode, channel
        self.patience = patience  # seconds that the agent waits for an answer at most, 0 for as long as it takes
        self.run_pk = 0
        self.seq = 0
        self.shared = False  # another connection of this process sends the run too
        self.touched: set[int] = set()  # ordinals of the calls that its committed frames spoke of
        self._touching: set[int] = set()  # the same of this commit
        self.error: Exception | None = None  # once set, nothing more is taken: what is not acked was not written
        self._on_commit, self._on_failure = on_commit, on_failure
        self._loop = asyncio.get_running_loop()
        self._pending: deque[Frame] = deque()
        self._taken: list[Frame] = []
        self._leases: deque[float] = deque()  # seconds, not yet committed; the last one counts
        self._leasing = 0  # how many of them this commit takes
        self._rest: list[Frame] = []  # of what was taken: what comes after a call that plug-ins must hear of
        self._inquiries: list[PluginInquiry] = []
        self._heard: list[PluginResult] = []
        self._held = self._queued = False
        self._applied = False  # this commit wrote what waited; not while the stream is held
        self._queueing = threading.Lock()
        self._committed = 0
        self._pushed = 0
        self._decisions: list[dict[str, Any]] = []
        self._asked: list[dict[str, str]] = []
        self._refused = 0
        self._settled = asyncio.Event()

    # ------------------------------------------------------------ on the event loop

    def push(self, said: list[Any] | InputPiece | SkippedFrame, number: SequenceNumber = 0) -> None:
        """Take in one frame: its facts, its piece of input, or that its kind is unknown; returns at once."""
        if self.error is not None:
            return
        if type(said) is list and len(said) == 1 and type(said[0]) is f.InputDelta:
            said = (said[0].call_id, said[0].text)
        self._pending.append((said, time.time(), number))
        self._pushed += 1
        group_commit.WRITER.frames_received += 1
        if not self._queued:
            self._queue()

    @property
    def is_full(self) -> bool:
        """Too much is taken in and not yet written: wait for `wait_for_room` before reading on."""
        return group_commit.WRITER.is_full or (self._held and len(self._pending) > MAX_HELD)

    async def wait_for_room(self) -> None:
        """Wait while too much is taken in and not yet written: this is what slows a flooding agent down."""
        while self.is_full:  # noqa: ASYNC110 - a thread empties it, and cannot set an event of this loop cheaply
            await asyncio.sleep(0.005)

    async def wait_until_committed(self) -> None:
        """Wait until everything pushed so far is committed; raises what made that impossible."""
        goal = self._pushed
        while self._owes(goal):
            self._settled.clear()
            if self._owes(goal):
                await self._settled.wait()
        if self.error is not None:
            raise self.error

    def renew_lease(self, lease: float) -> None:
        """The agent is there: without another sign within `lease` seconds the run counts as lost."""
        if self.error is None:
            self._leases.append(lease)
            self._queue()

    def _owes(self, goal: int) -> bool:
        return self.error is None and (self._committed < goal or bool(self._leases))

    def _queue(self) -> None:
        """Get in line for the writer, once; a stream that is held does when plug-ins were heard."""
        with self._queueing:
            if self._queued or self._held:
                return
            self._queued = True
        group_commit.WRITER.enqueue(self)

    # ------------------------------------------------------------ on the writer's thread

    def run_keys(self) -> Iterable[tuple[int, str]]:
        """See group_commit.Work."""
        return [(self.source.pk, self.run_name)]

    def mark_dequeued(self) -> None:
        """See group_commit.Work. Not part of `apply`, which a failing batch repeats: it would be queued twice."""
        with self._queueing:
            self._queued = False

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        self._applied = not self._held
        if not self._applied:
            return
        pending = self._pending
        self._taken += [pending.popleft() for _ in range(min(len(pending), MAX_FRAMES - len(self._taken)))]
        self._decisions, self._asked, self._inquiries, self._rest = [], [], [], []
        self._refused, self._touching = 0, set()
        if self.error is not None:  # a frame before these was lost: they must not be written after the gap
            raise self.error
        memory = tx.get_or_create_run(
            self.source.pk, self.run_name, protocol=self.protocol, agent=fit_text(self.agent, 200), mode=self.mode
        )
        self.run_pk = memory.row.pk
        if memory.seq == 0:
            self._begin(tx, memory)
        if self._taken or self._leases:
            resume_run(tx, memory)
        self._heard_of(tx, memory)
        self._tell_all(tx, memory)
        self._lease(tx, memory)
        self.seq = memory.seq

    def _lease(self, tx: Transaction, memory: RunMemory) -> None:
        """Write until when the agent counts as there."""
        self._leasing = len(self._leases)
        if self._leasing:
            renew_lease(tx, memory, self._leases[self._leasing - 1])

    def _heard_of(self, tx: Transaction, memory: RunMemory) -> None:
        """Judge what plug-ins were asked about; not what has ended, or was changed, since."""
        for heard in self._heard:
            card = memory.board.cards.get(heard.inquiry.ordinal)
            shown = digest_input(card) if card is not None and not (card.finished or card.removed) else ""
            if card is not None and heard.inquiry.matches(memory.row.pk, card, shown):
                self._judge(tx, memory, card, tx.now, heard)

    def _tell_all(self, tx: Transaction, memory: RunMemory) -> None:
        """Tell every frame's facts; in a flood, neighbouring pieces of one input together."""
        if self._inquiries:  # a call changed while plug-ins were asked about it
            self._rest = list(self._taken)
            return
        flood, growing = len(self._taken) >= FLOOD or group_commit.WRITER.backlog >= PRESSURE, []
        for place, frame in enumerate(self._taken):
            said, at, number = frame
            if type(said) is tuple:  # nine of ten frames on a busy day
                if number and not (sequence_set.add_next(memory.numbers, number) or self._noted(memory, number)):
                    continue
                if growing and (growing[0][0][0] != said[0] or not flood):
                    growing = self._grow(tx, memory, growing)
                growing.append(frame)
                continue
            if number and not self._is_new(memory, number):
                self._touch_repeated(memory, said)
                continue
            growing = self._grow(tx, memory, growing)
            facts = self._facts(memory, said)
            for told, fact in enumerate(facts, 1):
                self._tell(tx, memory, fact, at)
                if self._inquiries:  # the frame counts once they are answered
                    self._rest = [(facts[told:], at, number), *self._taken[place + 1 :]]
                    return
            if number:
                memory.record_number(number)
        self._grow(tx, memory, growing)

    @staticmethod
    def _facts(memory: RunMemory, said: Any) -> list[Any]:
        """Return the frame's facts; a frame of an unknown kind has none, and is counted."""
        if type(said) is SkippedFrame:
            memory.count_skipped(said.kind)
            return []
        return said  # type: ignore[no-any-return]

    def _is_new(self, memory: RunMemory, number: SequenceNumber) -> bool:
        """Whether the frame is to be told; one that the run's numbers cannot keep apart from a repeated one is not."""
        try:
            return memory.is_new(number)
        except TooManyGaps:
            self._refused += 1
            return False

    def _touch_repeated(self, memory: RunMemory, said: Any) -> None:
        """A stream that is sent again ends what its first try began, though nothing of that is told twice."""
        facts = () if type(said) is SkippedFrame else said
        cards = (memory.board.find(fact.call_id) for fact in facts if getattr(fact, "call_id", ""))
        self._touching |= {card.ordinal for card in cards if card is not None}

    def _noted(self, memory: RunMemory, number: SequenceNumber) -> bool:
        new = self._is_new(memory, number)
        if new:
            memory.record_number(number)
        return new

    def _grow(self, tx: Transaction, memory: RunMemory, growing: list[Any]) -> list[Any]:
        """Tell these pieces of one input, as one if that means the same; return an empty list."""
        if len(growing) > 1:
            (call_id, _), at, number = growing[-1]
            card = memory.board.find(call_id)
            if card is not None and card.state == "input-streaming" and card.segment is None:
                growing = [((call_id, "".join([said[1] for said, _, _ in growing])), at, number)]
        for (call_id, text), at, _ in growing:
            for card in tx.record(memory, f.InputDelta(call_id, text, at)):
                self._touching.add(card.ordinal)
        return []

    def _begin(self, tx: Transaction, memory: RunMemory) -> None:
        """The log of a run begins with its start, whether or not the protocol says so."""
        told = ((said, at) for said, at, _ in self._taken if said and type(said) is not SkippedFrame)
        first, at = next(((said[0], at) for said, at in told), (None, 0.0))
        if type(first) is f.RunStarted and not first.agent:
            object.__setattr__(first, "agent", self.agent)
        elif first is not None and type(first) is not f.RunStarted:
            tx.record(memory, f.RunStarted(agent=self.agent, at=at))

    def _tell(self, tx: Transaction, memory: RunMemory, fact: Any, at: float) -> None:
        if type(fact) is f.RunEnded and fact.reason == END_OF_STREAM:
            ended = find_run_end(memory)
            if ended is None or self._ends_a_part(tx, memory, ended, at):
                return
            fact = ended
        object.__setattr__(fact, "at", at)  # ours alone until it is told
        if type(fact) is f.ApprovalRequested:
            fill_in_approval(tx, memory, fact, self.channel)
        if type(fact) is f.RunStarted and fact.title:
            memory.row.title = fit_text(fact.title, 500)
        spoken_of = tx.record(memory, fact)
        for card in spoken_of:
            self._touching.add(card.ordinal)
            if type(fact) is f.ApprovalRequested and fact.votable and card.approval and card.approval.id == fact.id:
                self._asked.append({"id": fact.id, "source_id": fact.source_id, "call_id": card.call_id})
        if isinstance(fact, _INPUT_FACTS):
            self._decide(tx, memory, spoken_of, fact, at)
        elif self.mode == "gate" and isinstance(fact, _OUTPUT_FACTS):
            self._ungoverned(tx, memory, fact, at)
        if type(fact) is f.RunEnded:
            memory.row.reason = fit_text(fact.reason, 2000)
            void_permits(tx, memory)

    def _ends_a_part(self, tx: Transaction, memory: RunMemory, ended: f.RunEnded, at: float) -> bool:
        touched, gates = self.touched | self._touching, self.mode == "gate"
        return close_own_calls(tx, memory, ended, at, touched=touched, gates=gates, shared=self.shared)

    def _decide(self, tx: Transaction, memory: RunMemory, spoken_of: list[Card], fact: Any, at: float) -> None:
        """Judge a call whose input is complete: on a gate stream, and wherever it replaced a judged one."""
        calls = [card for card in spoken_of if card.call_id == fact.call_id]
        if not calls:
            return
        card = memory.board.cards[max(card.ordinal for card in calls)]
        if self.mode == "gate" and card.soft:  # its run ended, and the agent asks about it again
            given = fact.input if getattr(fact, "has_input", True) else card.input
            card = start_next_attempt(tx, memory, card, f.InputReady(card.call_id, fact.tool, given, True, at))
        if self.mode == "gate" or (card.gated and card.decision is None):
            self._judge(tx, memory, card, at)

    def _judge(
        self, tx: Transaction, memory: RunMemory, card: Card, at: float, heard: PluginResult | None = None
    ) -> None:
        channel = self.channel if self.mode == "gate" else "http"  # who watches takes no answers
        said = evaluate_call(tx, memory, card, channel=channel, now=at, patience=self.patience, plugin_result=heard)
        if isinstance(said, PluginInquiry):
            self._inquiries.append(said)
        elif said is not None and not self._owed(memory, card):
            self._decisions.append(said)

    def _owed(self, memory: RunMemory, card: Card) -> bool:
        """Whether the answer is on its way over a socket already: who asks again is not told twice."""
        if self.channel != "socket" or card.approval is None or card.waiting:
            return False
        return Approval.objects.undelivered(memory.row.pk, channel=self.channel).filter(id=card.approval.id).exists()

    def _ungoverned(self, tx: Transaction, memory: RunMemory, fact: Any, at: float) -> None:
        """A result of a call that nobody decided about, on a connection that should ask first."""
        card = memory.board.find(fact.call_id)
        if card is not None and card.decision is None and not is_stopped(card):
            tx.record(memory, f.AnomalyRecorded(card.call_id, "ungoverned", at=at))

    def finish(self, error: Exception | None) -> None:
        """See group_commit.Work."""
        if error is None and not self._applied:  # frames that came while it is held wait for `heard`
            return
        taken, self._taken = self._taken, []
        rest = self._rest if error is None else []
        done = taken[: len(taken) - len(rest)]
        group_commit.WRITER.frames_committed += len(done)
        if error is not None:
            self.error = error
            # Nobody waits for these now, and in line for them the stream would fail for ever.
            self._leases.clear()
            group_commit.WRITER.frames_committed += len(self._pending)
            self._pending.clear()
        else:
            self._committed += len(done)
            self.touched |= self._touching
            self._heard = []
            self._pending.extendleft(reversed(rest))
            for _ in range(self._leasing):
                self._leases.popleft()
            self._leasing = 0
        told = Committed(self.seq, self._committed, self._decisions, self._asked, self._refused)
        if error is None and self._inquiries:
            self._hold()
        elif self._pending or self._leases:
            self._queue()
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it whoever waited
            self._loop.call_soon_threadsafe(self._tell_committed, told)

    def _hold(self) -> None:
        """Ask the plug-ins; nothing of this stream is written until they were heard."""
        with self._queueing:
            self._held = True
        asked = [plugins.start_inquiry(inquiry) for inquiry in self._inquiries]
        left = threading.Semaphore(len(asked) - 1)

        def heard(_: Future[PluginResult]) -> None:
            if left.acquire(blocking=False):
                return
            self._heard = [future.result() for future in asked]
            with self._queueing:
                self._held = False
            self._queue()

        for future in asked:
            future.add_done_callback(heard)

    def _tell_committed(self, told: Committed) -> None:
        self._settled.set()
        if self.error is None and self._on_commit is not None:
            self._on_commit(told)
        elif self.error is not None and self._on_failure is not None:
            self._on_failure(self.error)
