"""What the writer knows of a run: its board, its row, and what the open transaction has yet to write."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from toolcards.core.calls.card import Card, CardApproval
from toolcards.core.calls.identity import Permission, find_permission
from toolcards.core.calls.tool_events import TAIL_LENGTH, LoggedFact, PendingEnd, ToolEventSequencer
from toolcards.core.runs import sequence_set
from toolcards.core.runs.run_context import SkippedFrames
from toolcards.core.runs.run_state import RunContext, RunState
from toolcards.encryption import UnreadableText, get_redactor
from toolcards.gate.refusals import Undecryptable
from toolcards.gate.writer.bulk_sql import EventRow, RunUpdate, adapt_datetime, fit_text
from toolcards.models import Event, Run, ToolCall
from toolcards.models.runs import CANNOT_BE_OPENED, UNREADABLE

_encode = json.JSONEncoder(separators=(",", ":")).encode
CARD_SIZE = 3_000  # of a card without its values, in characters
KIND_LIMIT = 1_000  # characters of an unknown kind that are searched for secrets; fewer are kept
_UNREADABLE_RUN = "This run cannot be read: its encryption key is missing, or another version wrote it."
STATUS_BY_END = {"": "running", "ok": "finished", "not-executed": "finished", "interrupt": "finished"}


@dataclass
class RunMark:
    """A state of a cached run within a transaction; `cards`: ordinal, card before, and whether it was dirty."""

    seq: int
    events: int
    touched: bool
    has_approvals: bool
    pending: PendingEnd | None
    title: str
    reason: str
    context: RunContext
    cards: list[tuple[int, Card | None, bool]] = field(default_factory=list)


@dataclass
class RunMemory:
    """A cached run: its board, its row, and what the open transaction has yet to write."""

    row: Run
    board: RunState
    seq: int
    numbers: list[Any]  # sequence numbers of the sender's frames (core/runs/sequence_set.py)
    counts: Counter[str]
    states: dict[int, str]  # ordinal -> the state under which `counts` has it
    waiting: set[int]
    asks: dict[int, CardApproval]  # ordinal -> the approval as stored
    skipped: SkippedFrames
    permissions: dict[int, Permission] = field(default_factory=dict)  # ordinal -> as the counts of days have it
    ordinals: dict[int, int] = field(default_factory=dict)  # pk of a call -> its ordinal, as far as known
    text_sizes: dict[int, int] = field(default_factory=dict)  # ordinal -> length of the text in the row
    card_sizes: dict[int, int] = field(default_factory=dict)  # ordinal -> characters of the card as stored
    events: list[EventRow] = field(default_factory=list)
    dirty: set[int] = field(default_factory=set)
    permission_changes: Counter[Permission] = field(default_factory=Counter)  # since the last commit
    touched: bool = False  # the row must be written even without new events
    sequencer: ToolEventSequencer = field(default_factory=ToolEventSequencer)
    has_approvals: bool = False  # a card has or had an approval or a permit, so approval rows exist
    offers: tuple[int, dict[str, Any]] | None = None  # announced tools, as preflight last read them
    size: int = 0  # of all its cards, in characters
    cached_size: int = 0  # what the cache has counted of it
    used_at: float = 0.0  # monotonic time of its last commit

    @property
    def row_version(self) -> tuple[int, bool, int]:
        """Return the row's columns that are the same while it is valid.

        The seq, the unmasked flag and the number of skipped frames.
        """
        return self.seq, self.row.scrubbed_at is None, self.skipped.total

    @property
    def status(self) -> str:
        """The run's status as the API names it."""
        if self.waiting:
            return "waiting"
        end = self.board.context.ended
        return STATUS_BY_END.get(end, end)

    def is_new(self, number: sequence_set.SequenceNumber) -> bool:
        """Return whether the sender's frame of that number is new; raises sequence_set.TooManyGaps."""
        return sequence_set.is_new(self.numbers, number)

    def record_number(self, number: sequence_set.SequenceNumber) -> None:
        """Record a frame's number.

        Several sockets can deliver numbers out of order.
        """
        self.touched = True
        sequence_set.add(self.numbers, number)

    def count_skipped(self, kind: str) -> None:
        """Count a frame of a kind unknown to its adapter."""
        self.touched = True
        self.skipped.count(
            kind if kind in self.skipped.kinds else fit_text(get_redactor().text(kind[:KIND_LIMIT]), KIND_LIMIT)
        )

    @property
    def has_new_skips(self) -> bool:
        """Return whether frames were skipped since the row was written."""
        return self.skipped.total != self.row.skipped

    def note_size(self, ordinal: int, size: int) -> None:
        """Note how many characters the card has in its row."""
        size += CARD_SIZE
        self.size += size - self.card_sizes.get(ordinal, 0)
        self.card_sizes[ordinal] = size

    def update_counts(self, card: Card) -> None:
        """Update the number of calls per state; removed cards do not count."""
        self._count_permission(card)
        before = self.states.pop(card.ordinal, "")
        if before:
            self.counts[before] -= 1
        self.waiting.discard(card.ordinal)
        if card.removed or card.state is None:
            return
        self.states[card.ordinal] = card.state
        self.counts[card.state] += 1
        if card.unanswered:
            self.waiting.add(card.ordinal)

    def _count_permission(self, card: Card) -> None:
        permission, before = find_permission(card), self.permissions.pop(card.ordinal, None)
        if permission is not None:
            self.permissions[card.ordinal] = permission
            self.permission_changes[permission] += 1
        if before is not None:
            self.permission_changes[before] -= 1

    def build_row(self, now: float, updated_at: datetime) -> RunUpdate:
        """Return the columns to write; `now`: wall time of the commit."""
        row, context = self.row, self.board.context
        if context.agent and context.agent != row.agent:
            row.agent = fit_text(context.agent, 200)
        if row.title:
            row.title = fit_text(get_redactor().text(row.title), 500)  # masks can be longer than their secrets
        if row.reason:
            row.reason = get_redactor().text(row.reason)
        status = self.status
        if status not in ("running", "waiting"):
            row.ended_at = row.ended_at or datetime.fromtimestamp(now, UTC)
        else:
            row.ended_at, row.reason = None, row.reason if context.ended else ""
        row.status, row.seq, row.updated_at = status, self.seq, updated_at
        if self.has_approvals:
            row.mode = "gate"
        row.calls = sum(self.counts.values())
        row.counts = _encode(dict(+self.counts))
        if self.has_new_skips:
            row.skipped, row.skipped_kinds = self.skipped.total, self.skipped.dump_kinds()
        if self.events:
            row.scrubbed_at = None
        row.context, row.numbers = dump_context(self.board), _encode(self.numbers) if self.numbers else "[]"
        ended_at = adapt_datetime(row.ended_at) if row.ended_at else None
        return RunUpdate(
            row.agent, row.title, row.protocol, row.mode, row.status, row.reason, adapt_datetime(updated_at),
            ended_at, row.alive_until, row.seq, row.calls, row.counts, row.skipped, row.skipped_kinds, row.context,
            row.numbers, row.seq, row.pk,
        )  # fmt: skip

    def mark(self) -> RunMark:
        """Return what `restore` needs to undo later facts."""
        row = self.row
        return RunMark(
            self.seq, len(self.events), self.touched, self.has_approvals, self.sequencer.pending, row.title, row.reason,
            self.board.context.copy(),
        )  # fmt: skip

    def restore(self, mark: RunMark) -> None:
        """Undo the facts since the mark.

        The lease stays.
        """
        self.seq, self.touched, self.has_approvals = mark.seq, mark.touched, mark.has_approvals
        self.sequencer.pending, self.row.title, self.row.reason = mark.pending, mark.title, mark.reason
        self.board.context = mark.context
        self.offers = None  # they were read for other kinds
        del self.events[mark.events :]
        for ordinal, before, was_dirty in reversed(mark.cards):
            if ordinal:
                self.board.put_back(ordinal, before)
                if not was_dirty:
                    self.dirty.discard(ordinal)


def load_memory(row: Run) -> RunMemory:
    """Load a run from its rows.

    Raises Undecryptable if they cannot be read, because then no facts may be added.
    """
    calls = list(ToolCall.objects.filter(run=row).order_by("ordinal"))
    memory = _build_memory(row, calls)
    memory.sequencer = _load_sequencer(row, memory.board)
    return memory


def create_memory(row: Run) -> RunMemory:
    """Return the memory of a new run; reads nothing."""
    return _build_memory(row, [])


def _build_memory(row: Run, calls: list[ToolCall]) -> RunMemory:
    cards = [call.as_card() for call in calls]
    if type(row.context) is UnreadableText or any(
        kind == CANNOT_BE_OPENED for card in cards for kind, _ in card.anomalies
    ):
        raise Undecryptable(_UNREADABLE_RUN)
    try:
        board = RunState(RunContext(**json.loads(row.context)), cards)
        numbers = json.loads(row.numbers)
    except UNREADABLE as error:
        raise Undecryptable(_UNREADABLE_RUN) from error
    memory = RunMemory(
        row=row,
        board=board,
        seq=row.seq,
        numbers=numbers,
        counts=Counter(),
        states={},
        waiting=set(),
        asks={card.ordinal: card.approval for card in board.cards.values() if card.approval},
        skipped=row.skipped_frames,
        ordinals={call.pk: call.ordinal for call in calls},
        text_sizes={call.ordinal: len(call.text) for call in calls},
    )
    for card in board.cards.values():
        memory.update_counts(card)
    memory.permission_changes.clear()
    for call in calls:
        memory.note_size(call.ordinal, len(call.card) + len(call.text))
    memory.has_approvals = any(card.approval or card.permit for card in cards)
    return memory


def _load_sequencer(row: Run, board: RunState) -> ToolEventSequencer:
    latest_events = Event.objects.filter(run=row).order_by("-seq")[:TAIL_LENGTH]
    return ToolEventSequencer.from_log(
        board.cards,
        (LoggedFact(event.ordinal, event.seq, event.readable_fact, event.applied) for event in latest_events),
    )


def dump_context(board: RunState) -> str:
    """Return the board's context as JSON for the run row."""
    return _encode(vars(board.context))
