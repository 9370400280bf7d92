"""Undoes the changes of a refused work in a transaction, so that the other works can be committed.

Reading the runs again instead would take longer than the works: a run has thousands of cards.
"""

from __future__ import annotations

from typing import Any

from django.db import connection

from toolcards.core.calls.card import Card
from toolcards.gate.writer.cache import run_cache
from toolcards.gate.writer.cache.run_memory import RunMark, RunMemory

# What a transaction collects (tests/gate/writer/test_rollback.py compares). Lists only grow, so their length is enough.
_LISTS = ("new_permits", "after_write", "changed_approvals", "trace_steps", "audit_acts")
_COPIED = ("approval_columns", "runs_with_answers", "runs_with_skips", "waiting_by_source", "permit_states", "uses")


class RollbackLog:
    """The changes of one work to a transaction (`tx`) and its runs, except for their leases."""

    def __init__(self, tx: Any) -> None:
        self._tx = tx
        self._lengths = {name: len(getattr(tx, name)) for name in _LISTS}
        self._copies = {name: getattr(tx, name).copy() for name in _COPIED}
        self._payloads = len(tx.outbox.payloads)
        self._affects_every_run = tx.affects_every_run
        self._marks: dict[int, RunMark] = {}
        self._created: list[RunMemory] = []

    def note_creation(self, memory: RunMemory) -> None:
        """Note that the work has created the row of this run."""
        self._created.append(memory)

    def note_change(self, memory: RunMemory, ordinal: int, before: Card | None) -> None:
        """Note a card before the work changes it.

        Ordinal 0: the run itself.
        """
        mark = self._marks.get(memory.row.pk)
        if mark is None:
            mark = self._marks[memory.row.pk] = memory.mark()
        mark.cards.append((ordinal, before, ordinal in memory.dirty))

    def roll_back(self) -> None:
        """Undo the changes."""
        tx = self._tx
        for pk, mark in self._marks.items():
            tx.runs[pk].restore(mark)
        for memory in self._created:
            del tx.runs[memory.row.pk]
            run_cache.discard(memory.row.pk)
            with connection.cursor() as cursor:
                cursor.execute("DELETE FROM toolcards_run WHERE id = %s", [memory.row.pk])
        for name, length in self._lengths.items():
            del getattr(tx, name)[length:]
        for name, value in self._copies.items():
            setattr(tx, name, value)
        del tx.outbox.payloads[self._payloads :]
        tx.affects_every_run = self._affects_every_run
