"""A cache of runs: their boards are kept between transactions, those of idle runs as far as there is room.

An entry is valid if its `seq` and its count of skipped frames equal the run row's, and retention has not masked the
run since. The transaction checks this under the row's lock and reloads a stale entry, so any process can take the
next frame of any run.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from django.db import connection

from toolcards.core.calls.card import Card
from toolcards.gate.writer.cache import run_cache
from toolcards.gate.writer.cache.run_memory import RunMark, RunMemory

MAX_RUNS = 2_000
MAX_SIZE = 100_000_000  # of all runs; beyond, idle ones are dropped, which are read again with their next frame
UNUSED_SIZE = 5_000_000  # the same while no one uses the process
IDLE = 60.0  # seconds since its last commit after which a run may be dropped for its size

_cache: OrderedDict[int, RunMemory] = OrderedDict()  # least recently used first
_names: dict[tuple[int, str], int] = {}
_lock = threading.Lock()
_cached_size = 0  # of all cached runs, as of their last commits


def find_pk(source_id: int, name: str) -> int | None:
    """Return the pk of a cached run, or None."""
    return _names.get((source_id, name))


def get(pk: int) -> RunMemory | None:
    """Return the cached run, or None.

    The caller checks that it is valid.
    """
    return _cache.get(pk)


def store(memory: RunMemory) -> None:
    """Cache the run.

    Drop the least recently used one if there are more than `MAX_RUNS`.
    """
    with _lock:
        _use(memory)
        if len(_cache) > MAX_RUNS:
            _drop(next(iter(_cache)))


def record_use(memories: Iterable[RunMemory]) -> None:
    """Note that a transaction has used these runs.

    Drop one idle run if all exceed `MAX_SIZE`: to free one takes a while.
    """
    with _lock:
        for memory in memories:
            if _cache.get(memory.row.pk) is memory:
                _use(memory)
    _drop_one(MAX_SIZE)


def drop_idle(*, is_unused: bool = False) -> None:
    """Drop the longest idle runs while all are too large.

    While no one uses the process, that is more than `UNUSED_SIZE`.
    """
    while _drop_one(UNUSED_SIZE if is_unused else MAX_SIZE):
        pass


def _drop_one(most: int) -> bool:
    with _lock:
        pk, oldest = next(iter(_cache.items()), (0, None))
        if oldest is None or _cached_size <= most or time.monotonic() - oldest.used_at < IDLE:
            return False
        _drop(pk)
        return True


def discard(pk: int) -> None:
    """Drop the run from the cache.

    Another process wrote it, or our transaction was rolled back.
    """
    with _lock:
        _drop(pk)


def clear() -> None:
    """Drop all runs (in tests, and after the database was replaced)."""
    with _lock:
        for pk in list(_cache):
            _drop(pk)


def _use(memory: RunMemory) -> None:
    global _cached_size
    _drop(memory.row.pk)
    _cache[memory.row.pk] = memory
    _names[(memory.row.source_id, memory.row.name)] = memory.row.pk
    memory.used_at, memory.cached_size = time.monotonic(), memory.size
    _cached_size += memory.size


def _drop(pk: int) -> None:
    global _cached_size
    memory = _cache.pop(pk, None)
    if memory is not None:
        key = (memory.row.source_id, memory.row.name)
        if _names.get(key) == pk:  # the name of a run that is deleted may belong to a new one
            del _names[key]
        _cached_size -= memory.cached_size


# Undoes the changes of a refused work in a transaction, so that the other works can be committed.
#
# Reading the runs again instead would take longer than the works: a run has thousands of cards.
# What a transaction collects: a test compares. Lists only grow, so their length is enough.
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
