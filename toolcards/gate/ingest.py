"""Frames in: one stream per connection or body; its facts join the next group commit.

    stream = gate.open_stream(…)        stream.push(facts)        await stream.settle()        stream.close(…)

`on_commit` is called on the event loop after each commit that held something of the stream, with what was
committed and, on a gate stream, the decisions that its calls were given.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from toolcards.core import facts as f
from toolcards.core.facts import AnyFact
from toolcards.core.policy import AskTerms
from toolcards.gate import journal
from toolcards.gate.answers import digest_of_input
from toolcards.gate.judge import judge
from toolcards.gate.memory import RunMemory
from toolcards.gate.people import eligible
from toolcards.gate.preparing import stopped
from toolcards.gate.transaction import Transaction, plain
from toolcards.ids import new_id
from toolcards.models import Source

PORTION = 1_000  # frames of one stream that one commit takes: its neighbours' acks wait no longer than for that
# So many frames of one stream in one commit, or of all streams not yet committed, are a flood: then the neighbouring
# pieces of an input are written together.
FLOOD, PRESSURE = 100, 1_000
_HEARD = frozenset({"socket", "watch", "hook", "poll"})  # ways in on which an answer finds its way back
_DECIDABLE = (f.InputReady, f.InputRepaired)
_RAN = (f.OutputReady, f.OutputPartial)


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did for a stream. `frames`: how many of its frames are committed so far, skipped ones included."""

    seq: int
    frames: int
    decisions: list[dict[str, Any]] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)  # the agent's own questions that can be answered here


# One frame: its facts, when it came, the sender's own number (0 for none), and 1, or 0 for a lease, which is no frame.
# A plain tuple, since ten thousand are made in a second.
Frame: TypeAlias = tuple[list[Any], float, int, int]


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
        self.touched: set[int] = set()  # ordinals of the calls that its frames spoke of
        self.error: Exception | None = None  # once set, nothing more is taken: what is not acked was not written
        self._on_commit, self._on_failure = on_commit, on_failure
        self._loop = asyncio.get_running_loop()
        self._pending: deque[Frame] = deque()
        self._taken: list[Frame] = []
        self._queued = False
        self._committed = 0
        self._frames = 0
        self._pushed = 0
        self._decisions: list[dict[str, Any]] = []
        self._asked: list[dict[str, str]] = []
        self._settled = asyncio.Event()

    # ------------------------------------------------------------ on the event loop

    def push(self, facts: list[AnyFact], number: int = 0) -> None:
        """Take in one frame's facts (`[]` for a frame that is only counted); returns at once."""
        self._put((facts, time.time(), number, 1))

    @property
    def full(self) -> bool:
        """Too much is taken in and not yet written: wait for `room` before reading on."""
        return journal.WRITER.full

    async def room(self) -> None:
        """Wait while too much is taken in and not yet written: this is what slows a flooding agent down."""
        while journal.WRITER.full:  # noqa: ASYNC110 - a thread empties it, and cannot set an event of this loop cheaply
            await asyncio.sleep(0.005)

    async def settle(self) -> None:
        """Wait until everything pushed so far is committed; raises what made that impossible."""
        goal = self._pushed
        while self._committed < goal and self.error is None:
            self._settled.clear()
            if self._committed < goal and self.error is None:
                await self._settled.wait()
        if self.error is not None:
            raise self.error

    def touch(self, lease: float) -> None:
        """The agent is there: without another sign within `lease` seconds the run counts as lost."""
        self._put(([_Lease(lease)], time.time(), 0, 0))

    def _put(self, frame: Frame) -> None:
        if self.error is not None:
            return
        self._pending.append(frame)
        self._pushed += 1
        journal.WRITER.taken_in += 1
        if not self._queued:
            self._queued = True
            journal.WRITER.put(self)

    # ------------------------------------------------------------ on the writer's thread

    def runs(self) -> Iterable[tuple[int, str]]:
        """See journal.Work."""
        return [(self.source.pk, self.run_name)]

    def apply(self, tx: Transaction) -> None:
        """See journal.Work."""
        self._queued = False
        pending = self._pending
        for _ in range(min(len(pending), PORTION - len(self._taken))):
            self._taken.append(pending.popleft())
        self._decisions, self._asked = [], []
        if self.error is not None:  # a frame before these was lost: they must not be written after the gap
            raise self.error
        memory = tx.run(
            self.source.pk, self.run_name, protocol=self.protocol, agent=plain(self.agent, 200), mode=self.mode
        )
        self.run_pk = memory.row.pk
        if memory.seq == 0:
            self._begin(tx, memory)
        self._tell_all(tx, memory)
        self.seq = memory.seq

    def _tell_all(self, tx: Transaction, memory: RunMemory) -> None:
        """Tell every frame's facts; in a flood, neighbouring pieces of one input together."""
        flood, growing = len(self._taken) >= FLOOD or journal.WRITER.backlog >= PRESSURE, []
        for facts, at, number, _ in self._taken:
            if number and not _first_time(memory, number):
                continue
            for fact in facts:
                if type(fact) is f.InputDelta:  # nine of ten facts on a busy day
                    object.__setattr__(fact, "at", at)  # ours alone until it is told
                    if growing and (growing[0].call_id != fact.call_id or not flood):
                        growing = self._grow(tx, memory, growing)
                    growing.append(fact)
                    continue
                if growing:
                    growing = self._grow(tx, memory, growing)
                self._tell(tx, memory, fact, at)
        self._grow(tx, memory, growing)

    def _grow(self, tx: Transaction, memory: RunMemory, growing: list[f.InputDelta]) -> list[f.InputDelta]:
        """Tell these pieces of one input, as one if that means the same; return an empty list."""
        if len(growing) > 1:
            card = memory.board.find(growing[0].call_id)
            if card is not None and card.state == "input-streaming" and card.segment is None:
                growing = [replace(growing[-1], text="".join([piece.text for piece in growing]))]
        for piece in growing:
            for card in tx.tell(memory, piece):
                self.touched.add(card.ordinal)
        return []

    def _begin(self, tx: Transaction, memory: RunMemory) -> None:
        """The log of a run begins with its start, whether or not the protocol says so."""
        facts = ((fact, at) for facts, at, *_ in self._taken for fact in facts if type(fact) is not _Lease)
        first, at = next(facts, (None, 0.0))
        if type(first) is f.RunStarted and not first.agent:
            object.__setattr__(first, "agent", self.agent)
        elif first is not None and type(first) is not f.RunStarted:
            tx.tell(memory, f.RunStarted(agent=self.agent, at=at))

    def _tell(self, tx: Transaction, memory: RunMemory, fact: Any, at: float) -> None:
        if type(fact) is _Lease:
            memory.row.alive_until, memory.touched = at + fact.seconds, True
            return
        if type(fact) is f.RunEnded and fact.reason == END_OF_STREAM:
            ended = self._end_of_stream(memory)
            if ended is None:
                return
            fact = ended
        object.__setattr__(fact, "at", at)  # ours alone until it is told
        if type(fact) is f.ApprovalAsked:
            self._announced(tx, memory, fact)
        if type(fact) is f.RunStarted and fact.title:
            memory.row.title = plain(fact.title, 500)
        for card in tx.tell(memory, fact):
            self.touched.add(card.ordinal)
            if type(fact) is f.ApprovalAsked and fact.votable and card.approval and card.approval.id == fact.id:
                self._asked.append({"id": fact.id, "source_id": fact.source_id, "call_id": card.call_id})
            if self.mode == "gate" and isinstance(fact, _DECIDABLE) and card.call_id == fact.call_id:
                now = memory.board.cards[card.ordinal]
                answer = judge(tx, memory, now, channel=self.channel, at=at, patience=self.patience)
                if answer is not None:
                    self._decisions.append(answer)
        if self.mode == "gate" and isinstance(fact, _RAN):
            self._ungoverned(tx, memory, fact, at)
        if type(fact) is f.RunEnded:
            memory.row.reason = fact.reason

    def _ungoverned(self, tx: Transaction, memory: RunMemory, fact: Any, at: float) -> None:
        """A result of a call that nobody decided about, on a connection that should ask first."""
        card = memory.board.find(fact.call_id)
        if card is not None and card.decision is None and not stopped(card):
            tx.tell(memory, f.Odd(card.call_id, "ungoverned", at=at))

    def _announced(self, tx: Transaction, memory: RunMemory, fact: f.ApprovalAsked) -> None:
        """An approval that the agent itself announced: it can be answered here if its connection takes answers."""
        card = memory.board.find(fact.call_id) if fact.call_id else memory.board.meant(fact)
        answerable = not fact.terms.get("local") or eligible(AskTerms(allow_requester=True), memory.row.source)
        heard = self.channel in _HEARD and bool(answerable)
        object.__setattr__(fact, "id", new_id("apr"))
        object.__setattr__(fact, "votable", heard and not fact.automatic)
        object.__setattr__(fact, "args_sha256", digest_of_input(card) if card else "")
        tx.extras[fact.id] = {"channel": self.channel if fact.votable else "none"}

    def _end_of_stream(self, memory: RunMemory) -> f.RunEnded | None:
        """The body is over: what the protocol itself did not end is ended now."""
        context = memory.board.context
        if context.ended or not memory.seq:
            return None
        if context.error:
            return f.RunEnded(outcome="error", reason=context.error)
        return f.RunEnded(outcome="truncated", reason="The stream stopped without an end.")

    def settled(self, error: Exception | None) -> None:
        """See journal.Work."""
        taken, self._taken = self._taken, []
        journal.WRITER.written += len(taken)
        if error is not None:
            self.error = error
        else:
            self._committed += len(taken)
            self._frames += sum(counted for *_, counted in taken)
        told = Committed(self.seq, self._frames, self._decisions, self._asked)
        if self._pending and not self._queued:
            self._queued = True
            journal.WRITER.put(self)
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it whoever waited
            self._loop.call_soon_threadsafe(self._tell_committed, told)

    def _tell_committed(self, told: Committed) -> None:
        self._settled.set()
        if self.error is None and self._on_commit is not None:
            self._on_commit(told)
        elif self.error is not None and self._on_failure is not None:
            self._on_failure(self.error)


END_OF_STREAM = "\x00end-of-stream"


def end_of_stream() -> f.RunEnded:
    """Return the fact that a transport pushes when a whole body has been read."""
    return f.RunEnded(reason=END_OF_STREAM)


@dataclass(frozen=True, slots=True)
class _Lease:
    seconds: float


def _first_time(memory: RunMemory, number: int) -> bool:
    """Whether the sender's frame of that number is new; numbers may arrive out of order over several sockets."""
    numbers = memory.numbers
    if number == numbers[0] + 1 and len(numbers) == 1:
        numbers[0] = number
        memory.touched = True
        return True
    if number <= numbers[0] or number in numbers[1:]:
        return False
    numbers.append(number)
    while numbers[0] + 1 in numbers[1:]:
        numbers.remove(numbers[0] + 1)
        numbers[0] += 1
    memory.touched = True
    return True
