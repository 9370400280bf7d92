"""The cards once more, from the log alone: to compare them with what is stored, or to put them right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.db import transaction

from toolcards.core.calls.card import Card
from toolcards.core.runs.run_state import RunState
from toolcards.encryption import CannotOpen
from toolcards.gate.writer import group_commit, run_cache
from toolcards.gate.writer.bulk_sql import SEARCH_COLUMNS, get_search_values
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Event, Run, ToolCall


def rebuild(*, check: bool = False) -> list[str]:
    """Fold every run's log; return a line for each card or run that is stored otherwise, and mend it unless `check`."""
    faults: list[str] = []
    for run in Run.objects.order_by("pk").iterator():
        try:
            found = list(find_differences(run)) and _confirm_differences(run.pk)
        except CannotOpen as error:
            faults.append(f"run {run.name}: {error}")
            continue
        faults += found
        if found and not check:
            group_commit.execute(RestoreCards(run.pk))
    return faults


def _confirm_differences(pk: int) -> list[str]:
    """Look again, under the run's lock: what a server wrote between our readings is no difference."""
    with transaction.atomic():
        run = Run.objects.select_for_update().filter(pk=pk).first()
        return list(find_differences(run)) if run else []


def fold_log(run: Run) -> tuple[RunState, int]:
    """Return the run's board as its log has it, and the log's last position."""
    board, seq = RunState(), 0
    for event in Event.objects.after(run, 0).iterator(chunk_size=2_000):
        board.record(event.ordinal, event.decoded_fact, event.seq)
        seq = event.seq
    return board, seq


def find_differences(run: Run) -> Iterator[str]:
    """Say where the stored cards of the run are not what its log adds up to; raises CannotOpen where it is sealed."""
    board, seq = fold_log(run)
    if seq != run.seq:
        yield f"run {run.name}: the log ends at {seq}, the run says {run.seq}"
    if board.status != run.status:
        yield f"run {run.name}: the log says {board.status}, the run says {run.status}"
    counts = Counter(str(card.state) for card in board.cards.values() if card.state and not card.removed)
    if counts != Counter(json.loads(run.counts)):
        yield f"run {run.name}: the log has {dict(counts)}, the run counts {run.counts}"
    stored = {call.ordinal: call for call in ToolCall.objects.filter(run=run)}
    for ordinal in sorted(board.cards.keys() | stored.keys()):
        told, call = board.cards.get(ordinal), stored.get(ordinal)
        if told is None or call is None:
            yield f"run {run.name}, call {ordinal}: {'not in the log' if told is None else 'not stored'}"
        elif told != call.as_card():
            yield f"run {run.name}, call {told.call_id}: stored otherwise than its log adds up to"
        elif wrong := [name for name, value in _iterate_search_values(told) if getattr(call, name) != value]:
            yield f"run {run.name}, call {told.call_id}: found by what it is not ({', '.join(wrong)})"


def _iterate_search_values(card: Card) -> Iterator[tuple[str, Any]]:
    return zip(SEARCH_COLUMNS, get_search_values(card), strict=True)


class RestoreCards(Command):
    """Write a run's cards and status as the log has them."""

    def __init__(self, run: int) -> None:
        super().__init__()
        self.run = run

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row: Any = Run.objects.select_for_update().get(pk=self.run)
        board, row.seq = fold_log(row)
        run_cache.discard(row.pk)
        ToolCall.objects.filter(run=row).exclude(ordinal__in=board.cards).delete()
        mended = run_cache.RunMemory(
            row=row, board=board, seq=row.seq, numbers=json.loads(row.numbers), counts=run_cache.Counter(), states={},
            waiting=set(), asks={o: card.approval for o, card in board.cards.items() if card.approval}, touched=True,
            skipped=row.skipped_frames,
        )  # fmt: skip
        mended.dirty = set(board.cards)
        for card in board.cards.values():
            mended.update_counts(card)
        tx.runs[row.pk] = mended
        tx.after_write.append(lambda: run_cache.discard(row.pk))
