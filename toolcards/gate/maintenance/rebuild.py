"""Rebuild cards from the event log, and compare them with the stored ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.db import transaction

from toolcards.core.calls.card import Card
from toolcards.core.runs.run_state import RunState
from toolcards.encryption import DecryptionError
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.bulk_sql import SEARCH_COLUMNS, get_search_values
from toolcards.gate.writer.cache import run_cache, run_memory
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Event, Run, ToolCall
from toolcards.models.runs import BEING_DELETED


def rebuild(*, check: bool = False) -> list[str]:
    """Rebuild all cards; return a line per difference.

    `check`: only compare.
    """
    faults: list[str] = []
    for run in Run.objects.exclude(name__startswith=BEING_DELETED).order_by("pk").iterator():
        try:
            run_faults = list(find_differences(run)) and _confirm_differences(run.pk)
        except DecryptionError as error:
            faults.append(f"run {run.name}: {error}")
            continue
        faults += run_faults
        if run_faults and not check:
            group_commit.execute(RestoreCards(run.pk))
    return faults


def _confirm_differences(pk: int) -> list[str]:
    """Compare again under the run's lock, because a server may have written between the reads."""
    with transaction.atomic():
        run = Run.objects.select_for_update().filter(pk=pk).first()
        return list(find_differences(run)) if run else []


def fold_log(run: Run) -> tuple[RunState, int]:
    """Return the run's state by its log, and the last position."""
    board, seq = RunState(), 0
    for event in Event.objects.after(run, 0).iterator(chunk_size=2_000):
        board.record(event.ordinal, event.decoded_fact, event.seq)
        seq = event.seq
    return board, seq


def find_differences(run: Run) -> Iterator[str]:
    """Yield a line per difference between cards and log; raises DecryptionError."""
    board, seq = fold_log(run)
    if seq != run.seq:
        yield f"run {run.name}: the log ends at {seq}, the run has {run.seq}"
    if board.status != run.status:
        yield f"run {run.name}: the log has {board.status}, the run has {run.status}"
    counts = Counter(str(card.state) for card in board.cards.values() if card.state and not card.removed)
    if counts != Counter(json.loads(run.counts)):
        yield f"run {run.name}: the log has {dict(counts)}, the run counts {run.counts}"
    stored_calls = {call.ordinal: call for call in ToolCall.objects.filter(run=run)}
    for ordinal in sorted(board.cards.keys() | stored_calls.keys()):
        card, call = board.cards.get(ordinal), stored_calls.get(ordinal)
        if card is None or call is None:
            yield f"run {run.name}, call {ordinal}: {'not in the log' if card is None else 'not stored'}"
        elif card != call.as_card():
            yield f"run {run.name}, call {card.call_id}: the stored state differs from the log"
        elif wrong := [name for name, value in _iterate_search_values(card) if getattr(call, name) != value]:
            yield f"run {run.name}, call {card.call_id}: wrong columns ({', '.join(wrong)})"


def _iterate_search_values(card: Card) -> Iterator[tuple[str, Any]]:
    return zip(SEARCH_COLUMNS, get_search_values(card), strict=True)


class RestoreCards(Command):
    """Write a run's cards and status according to its log."""

    def __init__(self, run: int) -> None:
        super().__init__()
        self.run = run

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row: Any = Run.objects.select_for_update().get(pk=self.run)
        board, row.seq = fold_log(row)
        run_cache.discard(row.pk)
        ToolCall.objects.filter(run=row).exclude(ordinal__in=board.cards).delete()
        memory = run_memory.RunMemory(
            row=row, board=board, seq=row.seq, numbers=json.loads(row.numbers), counts=Counter(), states={},
            waiting=set(), asks={o: card.approval for o, card in board.cards.items() if card.approval}, touched=True,
            skipped=row.skipped_frames,
        )  # fmt: skip
        memory.dirty = set(board.cards)
        for card in board.cards.values():
            memory.update_counts(card)
        tx.runs[row.pk] = memory
        tx.after_write.append(lambda: run_cache.discard(row.pk))
