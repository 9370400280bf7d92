"""The cache of runs: which it keeps, and which it drops."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.run_memories import make_memory
from toolcards.core.calls.tool_events import ToolEventSequencer
from toolcards.core.runs.run_state import RunState
from toolcards.gate.writer.cache import run_cache, run_memory
from toolcards.gate.writer.cache.run_memory import RunMark, RunMemory
from toolcards.gate.writer.outbox_writer import PayloadOutbox
from toolcards.gate.writer.transaction import Transaction


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    run_cache.clear()
    monkeypatch.setattr(run_cache, "MAX_RUNS", 2)


def test_the_run_that_was_stored_least_recently_is_dropped_with_its_name(few: None) -> None:
    first, second, third = (make_memory(pk, f"r{pk}") for pk in (1, 2, 3))
    for memory in (first, second, first, third):
        run_cache.store(memory)
    assert [run_cache.get(pk) for pk in (1, 2, 3)] == [first, None, third]
    assert [run_cache.find_pk(1, f"r{pk}") for pk in (1, 2, 3)] == [1, None, 3]
    run_cache.discard(1)
    run_cache.discard(1)
    assert (run_cache.get(1), run_cache.find_pk(1, "r1"), run_cache.find_pk(1, "r3")) == (None, None, 3)
    run_cache.clear()
    assert (run_cache.get(3), run_cache.find_pk(1, "r3")) == (None, None)


def test_runs_of_two_sources_with_one_name_are_two(few: None) -> None:
    one, other = make_memory(1), make_memory(2)
    other.row.source_id = 2
    run_cache.store(one)
    run_cache.store(other)
    assert (run_cache.find_pk(1, "r"), run_cache.find_pk(2, "r"), run_cache.find_pk(3, "r")) == (1, 2, None)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time of the cache, to be put forward."""
    run_cache.clear()
    now = [1_000.0]
    monkeypatch.setattr(run_cache, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def measure(*sizes: int) -> int:
    """Return the size of a run whose cards have these."""
    return sum(sizes) + run_memory.CARD_SIZE * len(sizes)


def test_runs_that_are_too_large_together_are_dropped_once_they_are_idle(
    seconds: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_cache, "MAX_SIZE", measure(0, 0) + 100)
    first, second, third = memories = [make_memory(pk, f"r{pk}") for pk in (1, 2, 3)]
    for memory in memories:
        run_cache.store(memory)
        memory.note_size(1, 50)
        run_cache.record_use([memory])
    assert [run_cache.get(pk) for pk in (1, 2, 3)] == memories  # all are in use
    seconds[0] += run_cache.IDLE
    run_cache.record_use([first])
    assert [run_cache.get(pk) for pk in (1, 2, 3)] == [first, None, third]
    assert (run_cache.find_pk(1, "r2"), run_cache.find_pk(1, "r3")) == (None, 3)
    third.note_size(1, 51)
    run_cache.record_use([third])  # in use again
    assert [run_cache.get(pk) for pk in (1, 2, 3)] == [first, None, third]
    run_cache.record_use([second])  # dropped, so it is not added by its use
    assert run_cache.get(2) is None


ACTIONS = st.tuples(
    st.sampled_from(["store", "use", "discard", "drop", "drop unused"]), st.integers(0, 3), st.integers(1, 2),
    st.integers(0, 90), st.sampled_from([0.0, run_cache.IDLE / 2, run_cache.IDLE]),
)  # fmt: skip


def drop_oldest(model: dict[int, tuple[RunMemory, int, float]], limit: int, now: float, most: int) -> None:
    """Drop at most so many of the model's runs while all are too large and the oldest is idle."""
    for oldest in list(model)[:most]:
        sizes = [size for _, size, _ in model.values()]
        if sum(sizes) <= limit or now - model[oldest][2] < run_cache.IDLE:
            return
        del model[oldest]


@given(st.lists(ACTIONS, max_size=15))
def test_the_cache_is_a_queue_of_uses_whose_idle_end_is_dropped_while_it_is_too_large(actions: list[Any]) -> None:
    run_cache.clear()
    memories = [make_memory(pk, f"r{pk}") for pk in (1, 2, 3, 1)]  # the first run was read twice
    clock, most = SimpleNamespace(now=0.0), measure(0, 0) + 100
    model: dict[int, tuple[RunMemory, int, float]] = {}  # in the order of their uses, with size and time
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_cache, "MAX_SIZE", most)
        patch.setattr(run_cache, "UNUSED_SIZE", measure(0) + 50)
        patch.setattr(run_cache, "time", SimpleNamespace(monotonic=lambda: clock.now))
        for action, place, ordinal, size, pause in actions:
            clock.now, memory = clock.now + pause, memories[place]
            pk = memory.row.pk
            if action == "discard":
                run_cache.discard(pk)
                model.pop(pk, None)
                continue
            if action == "use":
                memory.note_size(ordinal, size)
            if action == "store" or (action == "use" and pk in model and model[pk][0] is memory):
                model.pop(pk, None)
                model[pk] = memory, memory.size, clock.now
            if action == "store":
                run_cache.store(memory)
                continue
            if action == "use":
                run_cache.record_use([memory])
            else:
                run_cache.drop_idle(is_unused=action == "drop unused")
            limit = measure(0) + 50 if action == "drop unused" else most
            drop_oldest(model, limit, clock.now, 1 if action == "use" else 3)
            assert {pk: run_cache.get(pk) for pk in (1, 2, 3)} == {pk: model.get(pk, (None,))[0] for pk in (1, 2, 3)}
            assert [run_cache.find_pk(1, f"r{pk}") for pk in (1, 2, 3)] == [
                pk if pk in model else None for pk in (1, 2, 3)
            ]
    run_cache.clear()


def test_the_name_of_a_run_that_is_being_deleted_belongs_to_the_new_one(few: None) -> None:
    old, new = make_memory(1), make_memory(2)
    for memory in (old, new):
        run_cache.store(memory)
    run_cache.discard(1)
    assert (run_cache.find_pk(1, "r"), run_cache.get(2)) == (2, new)


UNDONE_BY_NAME = {"runs", "outbox", "affects_every_run"}  # in `RollbackLog.roll_back`, by their parts
KEPT_FIELDS = {
    "now": "set before the works",
    "steady": "set before the works",
    "working": "set before the works",
    "_is_traced": "set before the works",
    "rollback_log": "is the log itself",
    "size": "only limits what one commit takes",
    "_began": "only limits what one commit takes",
    "day_counts": "collected by `flush`, after the works",
    "small_cards": "collected by `flush`, after the works",
    "_is_finished": "set after `flush`",
}
RESTORED_IN_RUNS = {"seq", "events", "touched", "has_approvals", "sequencer", "row", "board", "dirty", "offers"}
KEPT_IN_RUNS = {
    "numbers": "of frames, which no command sends",
    "skipped": "of frames, which no command sends",
    "counts": "updated by `flush`",
    "states": "updated by `flush`",
    "permissions": "updated by `flush`",
    "permission_changes": "updated by `flush`",
    "waiting": "updated by `flush`",
    "text_sizes": "updated by `flush`",
    "card_sizes": "updated by `flush`",
    "size": "updated by `flush`",
    "cached_size": "updated after `flush`",
    "used_at": "updated after `flush`",
    "asks": "approvals as written, after a work that was not refused",
    "ordinals": "primary keys of rows that exist",
}


@pytest.mark.django_db
def test_every_field_of_a_transaction_is_undone_or_has_a_reason_to_stay() -> None:
    undone_fields = {*run_cache._LISTS, *run_cache._COPIED} | UNDONE_BY_NAME
    assert not undone_fields & KEPT_FIELDS.keys()
    assert vars(Transaction(0)).keys() == undone_fields | KEPT_FIELDS.keys()


def test_every_field_of_a_cached_run_is_restored_or_has_a_reason_to_stay() -> None:
    assert not RESTORED_IN_RUNS & KEPT_IN_RUNS.keys()
    assert {field.name for field in fields(RunMemory)} == RESTORED_IN_RUNS | KEPT_IN_RUNS.keys()
    names = {field.name for field in fields(RunMark)}
    assert names == {"seq", "events", "touched", "has_approvals", "pending", "title", "reason", "context", "cards"}


def test_the_parts_that_are_undone_have_no_other_fields() -> None:
    assert vars(PayloadOutbox()).keys() == {"payloads"}
    assert vars(ToolEventSequencer()).keys() == {"pending"}
    assert vars(RunState()).keys() == {"context", "cards", "_ordinals_by_call", "_waiting"}
