"""The runs we know by heart: boards kept between transactions, valid only while nobody else wrote the run.

A memory is trusted when its `seq` and its skipped frames equal the run row's and retention has not masked the run
since, checked under the row's lock; else it is loaded anew, so any process may take the next frame of any run.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Any

from toolcards.audit.trail import redactor
from toolcards.core.calls.card import Card, CardApproval
from toolcards.core.calls.tool_events import TAIL_LENGTH, LoggedFact, ToolEventSequencer
from toolcards.core.runs import sequence_set as numbers
from toolcards.core.runs.run_state import RunContext, RunState
from toolcards.core.runs.skipped_frames import SkippedFrames
from toolcards.encryption import Closed
from toolcards.gate.refusals import Undecryptable
from toolcards.gate.writer.bulk_sql import fit_text
from toolcards.models import Event, Run, ToolCall
from toolcards.models.runs import CLOSED, UNREADABLE

MAX_RUNS = 2_000
KIND_LIMIT = 1_000  # characters of an unknown kind that are searched for secrets; fewer are kept
_CLOSED = "What is known of this run cannot be read: its key is not here, or another version wrote it."
STATUS_BY_END = {"": "running", "ok": "finished", "not-executed": "finished", "interrupt": "finished"}


@dataclass
class RunMemory:
    """A run inside the gate: its board, its row, and what the open transaction has yet to write."""

    row: Run
    board: RunState
    seq: int
    numbers: list[Any]  # of the sender's frames, see core.numbers
    counts: Counter[str]
    states: dict[int, str]  # ordinal -> state as counted
    waiting: set[int]
    asks: dict[int, CardApproval]  # ordinal -> approval as its row has it
    skipped: SkippedFrames
    text_sizes: dict[int, int] = field(default_factory=dict)  # ordinal -> length of the text in the row
    events: list[tuple[Any, ...]] = field(default_factory=list)
    dirty: set[int] = field(default_factory=set)
    touched: bool = False  # the run's row alone is to be written
    sequencer: ToolEventSequencer = field(default_factory=ToolEventSequencer)
    offers: tuple[int, dict[str, Any]] | None = None  # the tools it announced, as `preparing` last read them

    @property
    def row_version(self) -> tuple[int, bool, int]:
        """What the run's row says if this memory is still true: seq, whether secrets are unmasked, frames skipped."""
        return self.seq, self.row.scrubbed_at is None, self.skipped.total

    @property
    def status(self) -> str:
        """The contract's word for how the run is."""
        if self.waiting:
            return "waiting"
        ended = self.board.context.ended
        return STATUS_BY_END.get(ended, ended)

    def is_new(self, number: numbers.SequenceNumber) -> bool:
        """Return whether the sender's frame of that number was not told yet; raises numbers.TooManyGaps."""
        return numbers.is_new(self.numbers, number)

    def note(self, number: numbers.SequenceNumber) -> None:
        """Keep that the sender's frame was told; numbers may arrive out of order over several sockets."""
        self.touched = True
        numbers.add(self.numbers, number)

    def skip(self, kind: str) -> None:
        """Count a frame of a kind that its adapter does not know."""
        self.touched = True
        self.skipped.count(
            kind if kind in self.skipped.kinds else fit_text(redactor().text(kind[:KIND_LIMIT]), KIND_LIMIT)
        )

    @property
    def skipped_more(self) -> bool:
        """Whether frames were skipped since the row was written."""
        return self.skipped.total != self.row.skipped

    def count(self, card: Card) -> None:
        """Keep the number of calls per state; a removed card counts no more."""
        before = self.states.pop(card.ordinal, "")
        if before:
            self.counts[before] -= 1
        self.waiting.discard(card.ordinal)
        if card.removed or card.state is None:
            return
        self.states[card.ordinal] = card.state
        self.counts[card.state] += 1
        if card.waiting:
            self.waiting.add(card.ordinal)


_cache: OrderedDict[int, RunMemory] = OrderedDict()
_names: dict[tuple[int, str], int] = {}
_lock = threading.Lock()


def find_pk(source_id: int, name: str) -> int | None:
    """Return the pk of a run we have in memory."""
    return _names.get((source_id, name))


def get(pk: int) -> RunMemory | None:
    """Return the memory of the run, if there is one; the caller checks its `seq`."""
    return _cache.get(pk)


def put(memory: RunMemory) -> None:
    """Remember the run; the longest unused one is forgotten when there are too many."""
    with _lock:
        _cache[memory.row.pk] = memory
        _cache.move_to_end(memory.row.pk)
        _names[(memory.row.source_id, memory.row.name)] = memory.row.pk
        if len(_cache) > MAX_RUNS:
            _, old = _cache.popitem(last=False)
            _names.pop((old.row.source_id, old.row.name), None)


def discard(pk: int) -> None:
    """Drop what we think of the run: somebody else wrote it, or our own writing was rolled back."""
    with _lock:
        memory = _cache.pop(pk, None)
        if memory:
            _names.pop((memory.row.source_id, memory.row.name), None)


def clear() -> None:
    """Drop everything (tests, and after a database was replaced)."""
    with _lock:
        _cache.clear()
        _names.clear()


def load_memory(row: Run) -> RunMemory:
    """Build the memory of a run from its rows; raises Sealed where they cannot be opened, for nothing may be added."""
    calls = list(ToolCall.objects.filter(run=row).order_by("ordinal"))
    cards = [call.as_card() for call in calls]
    if type(row.context) is Closed or any(kind == CLOSED for card in cards for kind, _ in card.anomalies):
        raise Undecryptable(_CLOSED)
    try:
        board = RunState(RunContext(**json.loads(row.context)), cards)
        known_numbers = json.loads(row.numbers)
    except UNREADABLE as error:
        raise Undecryptable(_CLOSED) from error
    memory = RunMemory(
        row=row,
        board=board,
        seq=row.seq,
        numbers=known_numbers,
        counts=Counter(),
        states={},
        waiting=set(),
        asks={card.ordinal: card.approval for card in board.cards.values() if card.approval},
        skipped=row.skipped_frames,
        text_sizes={call.ordinal: len(call.text) for call in calls},
        sequencer=_load_sequencer(row, board),
    )
    for card in board.cards.values():
        memory.count(card)
    return memory


def _load_sequencer(row: Run, board: RunState) -> ToolEventSequencer:
    last = Event.objects.filter(run=row).order_by("-seq")[:TAIL_LENGTH]
    return ToolEventSequencer.from_log(
        board.cards, (LoggedFact(event.ordinal, event.seq, event.readable_fact, event.applied) for event in last)
    )


def dump_context(board: RunState) -> str:
    """Return the board's context for the run row."""
    return json.dumps(vars(board.context), separators=(",", ":"))
