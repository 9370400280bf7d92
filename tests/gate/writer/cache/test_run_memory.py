"""A run as the writer knows it equals what its rows say, and one that cannot be read gets no more facts."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.run_memories import make_memory
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, CardApproval, CardTool, ToolCallState
from toolcards.core.runs.run_state import RunContext
from toolcards.core.runs.sequence_set import TooManyGaps
from toolcards.gate.refusals import Undecryptable
from toolcards.gate.writer.cache import run_cache, run_memory
from toolcards.models import Run, ToolCall
from toolcards.models.write_guard import allow_log_writes

S = ToolCallState
NOW = datetime(2026, 5, 4, tzinfo=UTC)


def make_card(ordinal: int, state: ToolCallState | None, **more: Any) -> Card:
    return Card(f"c{ordinal}", ordinal=ordinal, state=state, tool=CardTool("bash"), **more)


# ---------------------------------------------------------------- counts, numbers and versions


@loop_over("change", [{"seq": 1}, {"scrubbed_at": NOW}, {"skipped": 2}])
def test_a_row_that_another_process_wrote_has_another_version(change: dict[str, Any]) -> None:
    memory, row = make_memory(), Run(pk=1, **change)
    assert memory.row_version == (0, True, 0)
    assert memory.row_version != (row.seq, row.scrubbed_at is None, row.skipped)


def test_the_size_of_a_run_is_that_of_its_cards_as_they_were_last_written() -> None:
    memory = make_memory()
    for ordinal, size in [(1, 10), (2, 5), (1, 30), (1, 20)]:
        memory.note_size(ordinal, size)
    assert memory.size == 20 + 5 + 2 * run_memory.CARD_SIZE


def test_every_card_is_counted_under_its_present_state_and_removed_ones_are_not() -> None:
    memory, pending = make_memory(), CardApproval("a", state="pending")
    waiting = make_card(1, S.APPROVAL_REQUESTED, approval=pending)
    for card in (
        make_card(1, None), make_card(1, S.INPUT_AVAILABLE), make_card(2, S.INPUT_AVAILABLE), waiting,
        make_card(3, S.OUTPUT_AVAILABLE), make_card(3, S.OUTPUT_AVAILABLE, removed=True),
    ):  # fmt: skip
        memory.update_counts(card)
    assert {state: count for state, count in memory.counts.items() if count} == {
        S.APPROVAL_REQUESTED: 1, S.INPUT_AVAILABLE: 1,
    }  # fmt: skip
    assert (memory.states, memory.waiting, memory.status) == (
        {1: S.APPROVAL_REQUESTED, 2: S.INPUT_AVAILABLE}, {1}, "waiting",
    )  # fmt: skip
    memory.update_counts(waiting.replace(removed=True))
    assert (memory.waiting, memory.status, sum(memory.counts.values())) == (set(), "running", 1)


@loop_over("end, status", [
    ("", "running"), ("ok", "finished"), ("not-executed", "finished"), ("interrupt", "finished"), ("error", "error"),
    ("aborted", "aborted"), ("truncated", "truncated"),
])  # fmt: skip
def test_a_run_has_the_status_of_its_end(end: str, status: str) -> None:
    memory = make_memory(context=RunContext(ended=end))
    assert memory.status == status == memory.board.status


def test_a_number_counts_once_and_marks_the_run_to_be_written() -> None:
    memory = make_memory()
    assert memory.is_new(1) and not memory.touched
    memory.record_number(1)
    memory.record_number(3)
    assert memory.touched and [memory.is_new(number) for number in (1, 2, 3)] == [False, True, False]
    with pytest.raises(TooManyGaps):
        for number in range(5, 10**6, 2):
            assert memory.is_new(number)
            memory.record_number(number)


def test_a_skipped_frame_is_counted_under_its_kind_without_secrets_and_cut() -> None:
    memory, token = make_memory(), "ghp_" + "a1B2" * 9
    for kind in ("foo", "foo", token, "k" * 5_000):
        memory.count_skipped(kind)
    assert memory.touched and memory.has_new_skips and memory.skipped.total == 4
    assert memory.skipped.kinds["foo"] == 2 and token not in str(memory.skipped.kinds)
    assert max(map(len, memory.skipped.kinds)) <= run_memory.KIND_LIMIT


# ---------------------------------------------------------------- the row


def test_a_row_has_the_columns_of_its_board_and_an_end_that_stays() -> None:
    memory = make_memory(context=RunContext(agent="b" * 300, ended="error"), agent="old", scrubbed_at=NOW)
    memory.update_counts(make_card(1, S.OUTPUT_ERROR))
    memory.counts["input-available"] = 0
    memory.seq = 9
    memory.record_number(1)
    update = memory.build_row(NOW.timestamp(), NOW)
    assert (update.agent, update.status, update.seq, update.calls) == ("b" * 200, "error", 9, 1)
    assert json.loads(update.counts) == {"output-error": 1} and json.loads(update.numbers) == [1]
    assert RunContext(**json.loads(update.context)) == memory.board.context
    assert memory.row.ended_at == NOW and memory.row.scrubbed_at == NOW
    memory.build_row(NOW.timestamp() + 60, NOW)
    assert memory.row.ended_at == NOW
    memory.events = [object()]  # type: ignore[list-item]
    memory.board.context.ended = ""
    update = memory.build_row(NOW.timestamp(), NOW)
    assert (update.ended_at, update.masked_seq, update.id, memory.row.scrubbed_at) == (None, 9, 1, None)


def test_an_agent_without_a_name_keeps_the_one_of_its_row() -> None:
    assert make_memory(agent="old").build_row(0.0, NOW).agent == "old"


def test_secrets_in_title_and_reason_are_masked_and_the_masks_fit_their_column() -> None:
    words = "password=hunter2 " * 40
    memory = make_memory(title=words[:500], reason=words, context=RunContext(ended="error"))
    update = memory.build_row(0.0, NOW)
    assert "hunter2" not in update.title + update.reason
    assert len(update.title) == 500 < len(update.reason)
    assert memory.build_row(0.0, NOW).title == update.title


# ---------------------------------------------------------------- undoing


def test_what_is_restored_equals_what_was_marked_with_its_lease_as_it_is_now() -> None:
    memory = make_memory(title="old", reason="", alive_until=1.0)
    first = memory.board.record(1, f.InputReady("a", "bash", {}, True), 1)[0]
    memory.dirty, memory.seq, memory.events = {1}, 1, [object()]  # type: ignore[list-item]
    mark = memory.mark()
    for ordinal, call in ((1, "a"), (2, "b"), (1, "a"), (0, "")):
        before = memory.board.cards.get(ordinal)
        mark.cards.append((ordinal, before, ordinal in memory.dirty))
        fact = f.OutputFailed(call, "no") if ordinal else f.RunEnded(outcome="error")
        memory.board.record(ordinal, fact, 2)
        memory.dirty.add(ordinal)
    memory.dirty.discard(0)
    memory.seq, memory.touched, memory.has_approvals, memory.offers = 5, True, True, (1, {})
    memory.events += [object()] * 4  # type: ignore[list-item]
    memory.row.title = memory.row.reason = "new"
    memory.row.alive_until = 2.0
    memory.restore(mark)
    assert (memory.seq, memory.touched, memory.has_approvals, memory.offers) == (1, False, False, None)
    assert (len(memory.events), memory.dirty, memory.board.cards) == (1, {1}, {1: first})
    assert (memory.board.context.ended, memory.board.list_ordinals("b")) == ("", [])
    assert (memory.row.title, memory.row.reason, memory.row.alive_until) == ("old", "", 2.0)


# ---------------------------------------------------------------- loading


@pytest.mark.django_db
def test_a_loaded_run_equals_the_one_that_wrote_its_rows(a_call: Callable[..., ToolCall]) -> None:
    for state, call in (("approval-requested", "a"), ("output-error", "b"), ("input-streaming", "c")):
        a_call(state, call_id=call)
    cached, run = run_cache.get(Run.objects.get().pk), Run.objects.get()
    memory = run_memory.load_memory(run)
    assert cached is not None and cached is not memory
    names = ("seq", "numbers", "states", "waiting", "asks", "text_sizes", "card_sizes", "size", "has_approvals")
    for name in (*names, "row_version", "status"):
        assert getattr(memory, name) == getattr(cached, name), name
    assert +memory.counts == +cached.counts and memory.board.cards == cached.board.cards
    assert vars(memory.board.context) == vars(cached.board.context)
    assert memory.sequencer.pending == cached.sequencer.pending
    assert memory.ordinals == dict(ToolCall.objects.values_list("pk", "ordinal"))
    assert run_memory.dump_context(memory.board) == run.context


@loop_over("column, text", [
    ("context", "{"), ("context", "[]"), ("context", '{"unknown": 1}'), ("numbers", "{"), ("context", "null"),
])  # fmt: skip
def test_a_run_that_cannot_be_read_gets_no_more_facts(column: str, text: str) -> None:
    row = Run(pk=1, **{column: text})
    with pytest.raises(Undecryptable, match="cannot be read"):
        run_memory.create_memory(row)


@pytest.mark.django_db
def test_a_run_with_a_call_that_cannot_be_opened_gets_no_more_facts(a_call: Callable[..., ToolCall]) -> None:
    a_call("input-available")
    whole = ToolCall.objects.get().card
    with allow_log_writes():
        ToolCall.objects.update(card="not JSON")
    with pytest.raises(Undecryptable):
        run_memory.load_memory(Run.objects.get())
    with allow_log_writes():
        ToolCall.objects.update(card=whole)
