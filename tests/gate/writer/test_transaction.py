"""One transaction: which runs it locks, what each fact leaves behind, and that all of it is written at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.db import transaction as database
from django.test.utils import CaptureQueriesContext

from tests.support.gate_commands import RecordFacts
from tests.support.server import PATIENCE, ROOT, until
from toolcards import doorbell, hooks
from toolcards.audit.rows import AuditRow
from toolcards.client.common.canonical_json import digest
from toolcards.core.calls import facts as f
from toolcards.gate.writer import group_commit, transaction
from toolcards.gate.writer.cache import committed_cards, run_cache
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import AgentKey, Approval, Delivery, Event, Run, Source, ToolCall, Webhook
from toolcards.models.write_guard import allow_event_changes, allow_log_writes
from toolcards.notifications import subscriptions

pytestmark = pytest.mark.django_db
READY = f.InputReady("c", "bash", {"command": "ls"}, True)


@contextmanager
def open_transaction(now: float = 5.0) -> Iterator[Transaction]:
    """Open a transaction of the writer as an attempt does, without writing at the end."""
    with allow_log_writes(), database.atomic():
        yield Transaction(now)


def create_run(tx: Transaction, source: Source, name: str = "r", **columns: Any) -> Any:
    return tx.get_or_create_run(source.pk, name, protocol="native", **columns)


# ---------------------------------------------------------------- runs


def test_a_run_is_created_once_with_its_first_columns(source: Source) -> None:
    with open_transaction() as tx:
        memory = create_run(tx, source, mode="gate")
        assert create_run(tx, source, mode="observe") is memory and run_cache.get(memory.row.pk) is memory
        tx.flush()
    row = Run.objects.get()
    assert (row.name, row.mode, row.protocol, row.seq) == ("r", "gate", "native", 0)
    with open_transaction() as tx:
        assert create_run(tx, source) is memory  # it is cached, and its row says the same
        assert tx.load_run(row.pk) is memory
    with open_transaction() as tx, pytest.raises(Run.DoesNotExist):
        tx.load_run(row.pk + 1)


def add_runs(source: int, names: str, between: Callable[[], Any] = lambda: None) -> None:
    with open_transaction() as tx:
        tx.lock_runs([(source, name) for name in names])
        for name in names:
            tx.get_or_create_run(source, name, protocol="native")
            between()
        tx.flush()


ADD_RUNS = """
import django, sys
django.setup()
from tests.gate.writer.test_transaction import add_runs
add_runs(int(sys.argv[1]), sys.argv[2])
"""


class OtherProcess:
    """A process that adds runs to the same PostgreSQL database."""

    def __init__(self, source: int, names: str) -> None:
        self._command = [sys.executable, "-c", ADD_RUNS, str(source), names]
        address = connection.settings_dict
        url = f"postgres://{address['USER']}@{address['HOST']}:{address['PORT']}/{address['NAME']}"
        self._env = os.environ | {"TOOLCARDS_DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
        self.process: subprocess.Popen[bytes] | None = None

    def start_once(self) -> None:
        """Start it, and return once it waits for a lock, or has ended."""
        if self.process is None:
            self.process = process = subprocess.Popen(self._command, cwd=ROOT, env=self._env)
            until(lambda: self._is_waiting() or process.poll() is not None)

    @staticmethod
    def _is_waiting() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_locks WHERE NOT granted")
            return cursor.fetchone() is not None


@pytest.mark.django_db(transaction=True)
def test_two_processes_that_add_the_same_runs_in_opposite_orders_do_not_wait_in_a_circle(source: Source) -> None:
    if connection.vendor == "postgresql":
        other = OtherProcess(source.pk, "ba")
        add_runs(source.pk, "ab", other.start_once)
        assert other.process is not None and other.process.wait(PATIENCE) == 0
    else:  # there is one writer
        add_runs(source.pk, "ab")
        add_runs(source.pk, "ba")
    assert sorted(Run.objects.values_list("name", flat=True)) == ["a", "b"]


@pytest.mark.parametrize("change", [{"seq": 9}, {"skipped": 3}])
def test_a_cached_run_that_another_process_changed_is_read_again(change: dict[str, int], a_run: Any) -> None:
    run = a_run("r", READY)
    before = {name: getattr(Run.objects.get(), name) for name in change}
    stale = run_cache.get(run.pk)
    with allow_log_writes():
        Run.objects.update(**change)
    for load in (lambda tx: tx.load_run(run.pk), lambda tx: create_run(tx, run.source, run.name)):
        run_cache.discard(run.pk)
        assert stale is not None
        run_cache.store(stale)
        with open_transaction() as tx:
            tx.lock_runs([(run.source_id, run.name), (run.source_id, "none")])
            assert run.pk not in tx.runs and run_cache.get(run.pk) is None
            memory = load(tx)
            assert memory is not stale and memory.row_version == (
                Run.objects.get().seq, True, Run.objects.get().skipped,
            )  # fmt: skip
    with allow_log_writes():
        Run.objects.update(**before)
    run_cache.discard(run.pk)


def test_a_lease_that_another_process_renewed_is_taken_over_without_reading_the_calls(a_run: Any) -> None:
    run = a_run("r", READY)
    cached = run_cache.get(run.pk)
    with allow_log_writes():
        Run.objects.update(alive_until=77.0, beats=True)
    with open_transaction() as tx:
        tx.lock_runs([(run.source_id, "r")])
        assert tx.runs == {run.pk: cached}
        assert cached is not None and (cached.row.alive_until, cached.row.beats) == (77.0, True)


def test_a_run_that_was_deleted_elsewhere_begins_again(a_run: Any, source: Source) -> None:
    run = a_run("r", READY)
    cached = run_cache.get(run.pk)
    with allow_log_writes(), allow_event_changes():
        run.delete()
    with open_transaction() as tx:
        tx.lock_runs([(source.pk, "r")])
        assert tx.runs == {}
        memory = create_run(tx, source)
        assert memory is not cached and memory.seq == 0
        tx.flush()


def test_all_runs_are_locked_with_one_query(a_run: Any, source: Source) -> None:
    pks = [a_run(f"r{number}", READY).pk for number in range(3)]
    with open_transaction() as tx, CaptureQueriesContext(connection) as queries:
        tx.lock_runs([(source.pk, f"r{number}") for number in (2, 0, 1, 2)])
        assert sorted(tx.runs) == pks
        tx.lock_rows(pks)  # they are locked
        tx.lock_rows([])
    assert len(queries) == 1


# ---------------------------------------------------------------- what a fact leaves


def test_a_fact_is_logged_once_with_the_next_position_also_if_it_changes_nothing(source: Source) -> None:
    with open_transaction() as tx:
        memory = create_run(tx, source)
        (card,) = tx.record(memory, READY)
        assert tx.record(memory, f.OutputDenied("c", "no")) and tx.record(memory, f.OutputReady("c", 1))
        assert tx.record(memory, f.TextDelta(text="x")) == []
        assert [(row.seq, row.ordinal, row.applied) for row in memory.events] == [
            (1, 1, True), (2, 1, True), (3, 1, memory.events[2].applied), (4, 0, True),
        ]  # fmt: skip
        assert memory.seq == 4 and memory.dirty == {1} and tx.size == sum(len(row.fact) for row in memory.events)
        assert card.ordinal == 1
        tx.flush()
    assert [event.seq for event in Event.objects.order_by("seq")] == [1, 2, 3, 4]
    assert Run.objects.get().seq == 4


def test_the_card_that_the_caller_knows_is_the_one_that_changes(source: Source) -> None:
    with open_transaction() as tx:
        memory = create_run(tx, source)
        first = tx.record(memory, READY)[0]
        second = tx.record(memory, f.InputReady("c", "bash", {}, True, again=True, attempt=2))[-1]
        assert (first.ordinal, second.ordinal) == (1, 2)
        (card,) = tx.record(memory, f.CallClosed("c", "cancelled"), first)
        assert card.ordinal == 1
        tx.flush()
    assert list(ToolCall.objects.order_by("ordinal").values_list("state", flat=True))[1] == "input-available"


def test_an_approval_gets_an_id_if_the_wire_has_none_and_is_bound_to_its_input(source: Source) -> None:
    with open_transaction() as tx:
        memory = create_run(tx, source)
        tx.record(memory, READY)
        (card,) = tx.record(memory, f.ApprovalRequested("c", source_id="q", votable=True, args_sha256="old"))
        assert card.approval is not None and card.approval.id.startswith("apr_") and memory.has_approvals
        assert tx.changed_approvals == [(memory, 1)]
        tx.record(memory, f.InputReady("c", "bash", {"command": "pwd"}, True))
        asks = [card.approval for card in memory.board.cards.values() if card.approval]
        tx.flush()
    rows = {row.pk: row.args_sha256 for row in Approval.objects.all()}
    assert rows == {ask.id: ask.args_sha256 for ask in asks}
    waiting = ToolCall.objects.order_by("-ordinal").first()
    assert waiting is not None and waiting.as_card().approval is not None
    assert waiting.as_card().approval.args_sha256 == digest({"command": "pwd"})  # type: ignore[union-attr]


def test_the_pieces_of_a_streaming_text_are_written_when_it_has_grown_enough(source: Source) -> None:
    def stream(size: int) -> tuple[int, int, int]:
        group_commit.execute(RecordFacts(source, "r", [f.InputDelta("c", "x" * size)]))
        row = ToolCall.objects.get()
        return len(row.text), row.seq - row.text_seq, row.rev

    group_commit.execute(RecordFacts(source, "r", [f.InputStarted("c", "bash")]))
    assert (stream(100)[:2], stream(1)[:2]) == ((100, 0), (101, 0))  # a small text is always written
    assert stream(transaction.SMALL_TEXT - 101)[:2] == (4096, 0)
    assert stream(400)[:2] == (4096, 1)  # not a quarter more
    length, behind, rev = stream(700)
    assert (length, behind) == (5196, 0)
    assert stream(10)[1:] == (1, rev + 1)
    group_commit.execute(RecordFacts(source, "r", [f.OutputFailed("c", "no")]))
    row = ToolCall.objects.get()
    assert (len(row.text), row.seq - row.text_seq) == (5206, 0)


# ---------------------------------------------------------------- the end


class Work(Command):
    def __init__(self, function: Callable[[Transaction], Any]) -> None:
        super().__init__()
        self.function = function

    def apply(self, tx: Any) -> None:
        self.function(tx)


def test_what_is_to_come_after_the_rows_comes_in_order_before_the_trail(source: Source) -> None:
    notes: list[int] = []

    def work(tx: Transaction) -> None:
        tx.record(create_run(tx, source), READY)
        for number in range(2):
            tx.after_write.append(lambda number=number: notes.append(number + Event.objects.count()))  # type: ignore[misc]

    group_commit.execute(Work(work))
    assert notes == [1, 2]


def test_a_transaction_without_changes_writes_nothing(a_run: Any) -> None:
    run = a_run("r", READY)
    with open_transaction() as tx:
        tx.lock_runs([(run.source_id, "r")])
        with CaptureQueriesContext(connection) as queries:
            tx.flush()
            assert tx.finish_commit() == []
    assert not [query for query in queries.captured_queries if not query["sql"].startswith(("SELECT", "RELEASE"))]


def test_bells_ring_for_changed_runs_and_their_answers_and_for_all_if_a_switch_turns(a_call: Any) -> None:
    call = a_call("approval-requested")
    with open_transaction() as tx:
        memory = tx.load_run(call.run_id)
        tx.record(memory, f.CallClosed("call-1", "cancelled"), memory.board.cards[1])
        tx.affects_every_run = True
        tx.flush()
        news = tx.finish_commit()
    assert news == [doorbell.EVERY_RUN, call.run_id, doorbell.get_approvals_bell(call.run_id)]
    assert not memory.events and not memory.dirty and not memory.touched


def test_a_run_with_skipped_frames_rings_too(a_run: Any) -> None:
    run = a_run("r", READY)
    with open_transaction() as tx:
        memory = tx.load_run(run.pk)
        memory.count_skipped("foo")
        tx.flush()
        assert tx.finish_commit() == [run.pk]
    assert Run.objects.get().skipped == 1


@pytest.mark.parametrize("change", ["record", "touch", "finish", "new"])
def test_after_a_rollback_every_run_that_changed_is_read_again(change: str, a_run: Any, source: Source) -> None:
    run, other = a_run("r", READY), a_run("other", READY)
    with pytest.raises(RuntimeError), open_transaction() as tx:
        memory = tx.load_run(run.pk) if change != "new" else create_run(tx, source, "new")
        tx.lock_rows([other.pk] if change != "finish" else [])
        if change == "record":
            tx.record(memory, f.TextDelta(text="lost"))
        elif change == "touch":
            memory.touched = True
        elif change == "finish":
            tx.finish_commit()
        raise RuntimeError
    tx.forget()
    assert run_cache.get(memory.row.pk) is None and run_cache.get(other.pk) is not None


def test_only_the_runs_of_a_work_count_as_its_changes(a_run: Any, source: Source) -> None:
    run, other = a_run("r", READY), a_run("other", READY)
    with open_transaction() as tx:
        tx.lock_rows([run.pk, other.pk])
        keys = [(source.pk, "none"), (source.pk, "r")]
        assert not tx.has_changes(keys)
        tx.runs[other.pk].touched = True
        assert not tx.has_changes(keys) and tx.has_changes([(source.pk, "other")])
        tx.runs[other.pk].touched = False
        tx.record(tx.runs[run.pk], f.TextDelta(text="x"))
        assert tx.has_changes(keys)
        tx.flush()


def test_cards_of_a_bounded_size_are_kept_for_followers(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_cards, "MAX_SIZE", 3_000)
    large = {"command": "x" * 4_000}
    with open_transaction() as tx:
        memory = create_run(tx, source)
        tx.record(memory, READY)
        tx.record(memory, f.InputReady("large", "bash", large, True))
        tx.flush()
        assert [card.call_id for _, card in tx.small_cards] == ["c"]


def test_entries_of_the_trail_are_written_with_their_facts(source: Source) -> None:
    with open_transaction() as tx:
        memory = create_run(tx, source)
        tx.record(memory, READY)
        tx.record(memory, f.PolicyDecided("c", "allow", by=f.Actor("rule", "may"), at=5.0))
        tx.record(memory, f.AnomalyRecorded("c", "ungoverned", at=5.0))
        tx.record(memory, f.AnomalyRecorded("c", "ungoverned", at=5.0))  # known: it changes nothing
        tx.record(memory, f.PermitChanged("c", "issued", "alw_1", 5.0))
        tx.record(memory, f.PermitChanged("c", "void", "alw_1", 5.0))
        assert tx.permit_states == {"alw_1": "void"}
        tx.permit_states.clear()  # this one has no row
        tx.flush()
    assert list(AuditRow.objects.exclude(run="").order_by("seq").values_list("act", flat=True)) == [
        "decision", "ungoverned", "permit.cancelled",
    ]  # fmt: skip


# ---------------------------------------------------------------- subscribers and shares


def test_events_are_queued_for_subscribers_only(source: Source) -> None:
    subscriptions.clear_cache()
    with open_transaction() as tx:
        memory = create_run(tx, source)
        tx.record(memory, READY)
        assert tx.outbox.payloads == []
        Webhook.objects.create(name="w", url="https://example.com/")
        subscriptions.clear_cache()
        tx.record(memory, f.OutputReady("c", 1, "message"), memory.board.cards[1])  # held back until the next fact
        assert tx.outbox.payloads == []
        tx.record(memory, f.RunEnded(outcome="error"))
        assert [payload["event"] for _, payload in tx.outbox.payloads] == [
            "tool.execute.after", "tool.execute.settled", "run.failed",
        ]  # fmt: skip
        tx.flush()
    subscriptions.clear_cache()
    hooks.clear()
    assert Delivery.objects.count() == 3


def test_a_commit_that_takes_long_or_is_large_takes_fewer_frames_of_each_stream() -> None:
    tx = Transaction(5.0)
    assert tx.share == transaction.MAX_SHARE
    tx._began = time.monotonic() - 2 * transaction.LONG
    assert tx.share == transaction.SHARE
    tx.size = transaction.LARGE + 1
    assert tx.share == 1
    tx._began = time.monotonic()
    assert tx.share == 1


def test_a_run_that_another_process_creates_at_the_same_moment_is_the_same_run(a_run: Any, source: Source) -> None:
    run = a_run("r", READY)
    run_cache.clear()
    with open_transaction() as tx:
        memory = tx._create_run(source.pk, "r", {"protocol": "native"})  # this process has not seen it
        assert (memory.row.pk, memory.seq, len(memory.board.cards)) == (run.pk, run.seq, 1)
        assert tx.runs == {run.pk: memory}


def test_a_run_that_the_cache_drops_stays_that_of_its_transaction(
    a_run: Any, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run("r")
    with open_transaction() as tx:
        memory = tx.load_run(run.pk)
        tx.record(memory, READY)
        monkeypatch.setattr(run_cache, "MAX_RUNS", 1)
        create_run(tx, source, "other")
        assert run_cache.get(run.pk) is None
        assert create_run(tx, source) is tx.load_run(run.pk) is memory
        assert tx.has_changes([(source.pk, "r")]) and not tx.has_changes([(source.pk, "other")])


def test_sources_keep_their_runs_of_one_name_apart(source: Source) -> None:
    other = AgentKey.objects.ensure("tck_" + "o" * 43, name="another agent").source
    with open_transaction() as tx:
        assert create_run(tx, source) is not create_run(tx, other)
        tx.flush()
    assert Run.objects.count() == 2
