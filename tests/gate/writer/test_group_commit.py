"""One refused piece of a group commit touches no other: every frame is written once, in its order."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, get_args

import pytest
from django.db import connections, transaction
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.core.calls import facts as f
from toolcards.gate.refusals import NotFound
from toolcards.gate.writer import group_commit
from toolcards.gate.writer import transaction as writer_transaction
from toolcards.gate.writer.cache import run_cache, run_memory
from toolcards.gate.writer.command import Command
from toolcards.models import Event, Run, Source

pytestmark = pytest.mark.django_db(transaction=True)
STREAMS = 3


class Refuser(Command):
    """Work that is refused, at its place in the batch or at its end; frames come in while it is tried.

    Before that, it records facts in the runs of streams, in a new run, and writes to the database, as told.
    """

    def __init__(self, push: Callable[[int], None], streams: list[int], runs: list[Any], how: Refusal) -> None:
        super().__init__()
        self.push, self.streams, self.runs, self.how = push, streams, runs, how

    def apply(self, tx: Any) -> None:
        if self.streams:
            self.push(self.streams.pop())
        for source, name in self.runs:
            memory = tx.get_or_create_run(source.pk, name, protocol="native")
            tx.record(memory, f.RunStarted(agent="refused", tools=[{"name": "Bash", "kind": "delete"}]))
            cards = tx.record(memory, f.InputReady("call", "Bash", {"command": "refused"}, True))
            tx.record(memory, f.OutputReady("call", "refused"), cards[-1])
            tx.record(memory, f.InputReady(f"new {id(self)}", "Bash", {}, True))
            memory.row.title = memory.row.reason = "refused"
            tx.runs_with_answers.add(memory.row.pk)
            tx.after_write.append(self._forbid)
        if self.how == "written":
            Source.objects.update(name="refused")
        if self.how != "late":
            raise NotFound("There is no such thing.")
        tx.after_write[:] = [self._refuse]

    def _refuse(self) -> None:
        raise NotFound("There is no such thing.")

    def _forbid(self) -> None:
        raise AssertionError("this work was refused")


Refusal = Literal["early", "written", "late"]
# One batch: frames of streams, and pieces that are refused while others push more. `STREAMS`: a run that is new.
pieces = st.one_of(
    st.tuples(st.just("frames"), st.integers(0, STREAMS - 1), st.integers(1, 3)),
    st.tuples(
        st.just("refused"),
        st.tuples(st.sampled_from(get_args(Refusal)), st.lists(st.integers(0, STREAMS), max_size=2, unique=True)),
        st.lists(st.integers(0, STREAMS - 1), max_size=2),
    ),
)
batches = st.lists(st.lists(pieces, min_size=1, max_size=6), min_size=1, max_size=5)
_runs = iter(range(10**9))


@pytest.mark.slow
@draw(60, suppress_health_check=list(HealthCheck))
@given(story=batches, is_long=st.booleans())
def test_frames_are_written_once_whatever_else_is_refused(source: Source, story: list[Any], is_long: bool) -> None:
    name = f"r{next(_runs)}"
    with pytest.MonkeyPatch.context() as patch:
        if is_long:  # each commit takes two frames of a stream, the others wait for the next one
            patch.setattr(writer_transaction, "LONG", -1.0)
            patch.setattr(writer_transaction, "SHARE", 2)
        expected = asyncio.run(play(source, name, story))
    for number, texts in enumerate(expected):
        run = Run.objects.filter(name=f"{name}-{number}").first()
        rows = [event.decoded_fact for event in Event.objects.after(run, 0)] if run else []
        assert [fact.text for fact in rows if isinstance(fact, f.TextDelta)] == texts
        assert not [fact for fact in rows if "refused" in repr(fact)]
        if run is not None:
            assert_cache_is_true(run)
    assert not Run.objects.filter(name=f"{name}-{STREAMS}").exists()
    assert not Source.objects.filter(name="refused").exists()
    refusers = [work for work in _refusers if work.error is not None]
    assert len(refusers) == len(_refusers) and all(type(work.error) is NotFound for work in _refusers)


def assert_cache_is_true(run: Run) -> None:
    """Compare the cached run with one that is read from the database."""
    cached = run_cache.get(run.pk)
    if cached is None:
        return
    memory = run_memory.load_memory(run)
    assert (run.title, run.reason) == ("", "") == (cached.row.title, cached.row.reason)
    assert vars(cached.board.context) == vars(memory.board.context)
    assert cached.board.cards == memory.board.cards and not cached.events and not cached.dirty and not cached.touched
    assert (cached.seq, cached.states, cached.has_approvals) == (memory.seq, memory.states, memory.has_approvals)
    for call_id in ("call", *(card.call_id for card in memory.board.cards.values())):
        assert cached.board.list_ordinals(call_id) == memory.board.list_ordinals(call_id)


_refusers: list[Refuser] = []


async def play(source: Source, name: str, story: list[Any]) -> list[list[str]]:
    """Hand the batches to the writer; return the texts that each stream took in, in their order."""
    run_cache.clear()
    _refusers.clear()
    streams = [gate.open_stream(source, f"{name}-{number}", protocol="native") for number in range(STREAMS)]
    expected: list[list[str]] = [[] for _ in streams]

    def push(number: int) -> None:
        expected[number].append(str(len(expected[number])))
        streams[number].push([f.TextDelta(text=expected[number][-1])])
        streams[number].push([f.InputReady("call", "Bash", {"command": expected[number][-1]}, True)])

    for batch in story:
        for kind, first, second in batch:
            if kind == "frames":
                for _ in range(second):
                    push(first)
            else:
                how, runs = first
                named_runs = [(source, f"{name}-{number}") for number in runs]
                _refusers.append(Refuser(push, list(second), named_runs, how))
                group_commit.WRITER.enqueue(_refusers[-1])
        assert await asyncio.to_thread(gate.drain, PATIENCE)
    for stream in streams:
        await asyncio.wait_for(stream.wait_until_committed(), PATIENCE)
    return expected


class _HeldCommand(Command):
    """A work that keeps its transaction open until it is released."""

    def __init__(self, transactions: list[int], release: threading.Event | None = None) -> None:
        super().__init__()
        self.transactions, self.release, self.start_event = transactions, release, threading.Event()

    def apply(self, tx: Any) -> None:
        self.transactions.append(id(tx))
        self.start_event.set()
        if self.release is not None:
            self.release.wait(PATIENCE)
        self.answer = threading.current_thread().name


def test_works_that_threads_wait_for_share_a_transaction() -> None:
    transactions: list[int] = []
    release = threading.Event()
    first = _HeldCommand(transactions, release)
    with ThreadPoolExecutor(6) as pool:
        waiting = [pool.submit(group_commit.execute_in_group, first)]
        assert first.start_event.wait(PATIENCE)
        transactions.clear()
        works = [_HeldCommand(transactions) for _ in range(5)]
        waiting += [pool.submit(group_commit.execute_in_group, work) for work in works]
        until = time.monotonic() + PATIENCE
        while len(group_commit.WRITER._queue) < 5 and time.monotonic() < until:
            time.sleep(0.01)
        release.set()
        assert {future.result(PATIENCE) for future in waiting} == {"journal"}
    assert len(transactions) == 5 and len(set(transactions)) == 1


def test_inside_of_a_transaction_a_work_runs_on_its_thread() -> None:
    with transaction.atomic():
        assert group_commit.execute_in_group(_HeldCommand([])) == threading.current_thread().name


class Waker(Command):
    """Work that tells when its sender is notified."""

    def __init__(self, notify: Callable[[], None]) -> None:
        super().__init__()
        self.on_finish = notify

    def apply(self, tx: Any) -> None:
        self.answer = True


async def test_a_commit_wakes_each_event_loop_once_and_notifies_in_the_order_of_arrival() -> None:
    loop, notified = asyncio.get_running_loop(), []
    wakes = []
    call_soon_threadsafe = loop.call_soon_threadsafe

    def count_wakes(function: Callable[..., Any], *args: Any) -> Any:
        wakes.append(function)
        return call_soon_threadsafe(function, *args)

    def notify(number: int) -> Callable[[], None]:
        return lambda: group_commit.call_on_loop(loop, lambda: notified.append(number) if number != 2 else 1 / 0)

    works = [Waker(notify(number)) for number in range(5)]
    loop.call_soon_threadsafe = count_wakes  # type: ignore[method-assign]
    try:
        thread = threading.Thread(target=group_commit.commit, args=(works,))
        thread.start()
        async with asyncio.timeout(PATIENCE):
            while 4 not in notified:
                await asyncio.sleep(0.01)
    finally:
        del loop.call_soon_threadsafe  # type: ignore[method-assign]
    assert notified == [0, 1, 3, 4]  # a failing notification keeps no other sender waiting
    assert len(wakes) == 1


def test_one_bad_piece_of_work_does_not_lose_its_neighbours(source: Any, a_run: Any) -> None:
    run = a_run("good")

    class Broken:
        urgent, error = True, None

        def mark_dequeued(self) -> None:
            pass

        def run_keys(self) -> list[Any]:
            return []

        list_approvals = run_keys

        def apply(self, tx: Any) -> None:
            raise RuntimeError("broken")

        def finish(self, error: Exception | None) -> None:
            self.error = error

    broken, good = Broken(), gate.agents.run_commands.RecordHeartbeat(source, "good")
    group_commit.commit([broken, good])
    assert isinstance(broken.error, RuntimeError)
    assert good.error is None
    assert Run.objects.get(pk=run.pk).alive_until


class Hesitant(group_commit.Writer):
    """A writer whose thread is held up after each thing that it notes, so that others can look at it half-way."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if threading.current_thread().name == "journal":
            time.sleep(0.05)


class Note(Command):
    """A piece of work that writes nothing."""

    over = False

    def apply(self, tx: Any) -> None:
        pass

    def finish(self, error: Exception | None) -> None:
        connections.close_all()  # of a thread that gets no more work
        self.over = True


def test_who_waits_for_the_journal_waits_for_what_it_has_taken_and_not_begun() -> None:
    writer, work = Hesitant(), Note()
    writer.enqueue(work)
    writer.drain(PATIENCE)
    assert work.over


class _Unfinishable(Command):
    """Work whose sender cannot be woken."""

    def apply(self, tx: Any) -> None:
        self.answer = "written"

    def finish(self, error: Exception | None) -> None:
        raise RuntimeError("cannot wake")


async def test_a_work_that_cannot_be_finished_keeps_no_other_waiting() -> None:
    group_commit.WRITER.enqueue(_Unfinishable())
    async with asyncio.timeout(PATIENCE):
        assert await group_commit.submit(_Answer()) == "written"


class _Answer(Command):
    """Work with an answer."""

    def apply(self, tx: Any) -> None:
        self.answer = "written"


class _Misnamed(_Answer):
    """Work that cannot say which runs it will change."""

    def run_keys(self) -> Any:
        raise RuntimeError("no keys")


async def test_a_fault_outside_of_all_works_is_raised_for_its_sender_and_the_thread_continues() -> None:
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(RuntimeError, match="no keys"):
            await group_commit.submit(_Misnamed())
        assert await group_commit.submit(_Answer()) == "written"
