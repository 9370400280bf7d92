"""The queue of a connection: every frame is committed once and in order, and a failed stream takes no other with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.held_writer import HeldWriter, hold_writer
from tests.support.server import PATIENCE, until
from toolcards import hooks, outages
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import SkippedFrame
from toolcards.gate.agents import stream_queue
from toolcards.gate.agents.stream_queue import StreamQueue
from toolcards.gate.refusals import KeyReuse, NotFound
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import MAX_SHARE
from toolcards.models import Event, Source

pytestmark = pytest.mark.django_db


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldWriter]:
    held_writer = hold_writer(monkeypatch)
    yield held_writer
    held_writer.loop.close()


class Notes(StreamQueue):
    """A queue that writes to a list. Each batch defers its frames after the first `share`, or fails with `failure`."""

    share, failure = MAX_SHARE, None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.batches: list[list[Any]] = []

    def _write(self, tx: Any) -> None:
        if self.failure is not None:
            raise self.failure
        self.batches.append([content for content, _, _ in self._batch[: self.share]])
        self._deferred = self._batch[self.share :]


def text(number: int) -> list[Any]:
    return [f.TextDelta(text=str(number))]


# ---------------------------------------------------------------- order and counts


def test_a_wait_for_a_commit_ends_only_after_its_report(writer: HeldWriter, source: Source) -> None:
    stream = writer.open(source, kind=Notes)
    stream.push(text(1))
    stream.mark_dequeued()
    group_commit.commit([stream])  # on the writer's thread; the event loop has not run since
    assert stream._is_behind(1) and not writer.reports
    writer.wait(stream)
    assert [report.frames for report in writer.reports] == [1]


@draw(40, suppress_health_check=list(HealthCheck))
@given(pushes=st.lists(st.integers(0, 5), max_size=8), share=st.integers(1, 4))
def test_frames_are_written_once_and_in_order_however_commits_cut_them(
    source: Source, pushes: list[int], share: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        writer = hold_writer(patch)
        stream = writer.open(source, kind=Notes)
        stream.share = share
        frames = [text(number) for number in range(sum(pushes))]
        remaining = iter(frames)
        for count in pushes:
            for _ in range(count):
                stream.push(next(remaining))
            writer.write()
        writer.write_all()
        writer.wait(stream)
        writer.loop.close()
    assert [frame for batch in stream.batches for frame in batch] == frames
    assert max(map(len, stream.batches), default=0) <= share
    assert writer.frames_received == writer.frames_committed == len(frames) and writer.backlog == 0
    reported = [report.frames for report in writer.reports]
    assert reported == sorted(reported) and (not frames or reported[-1] == len(frames))


def test_one_commit_takes_no_more_than_its_share_of_a_stream(writer: HeldWriter, source: Source) -> None:
    stream = writer.open(source, kind=Notes)
    for number in range(MAX_SHARE + 1):
        stream.push(text(number))
    assert writer.write_all() == 2
    assert [len(batch) for batch in stream.batches] == [MAX_SHARE, 1]


def test_a_batch_that_is_tried_again_takes_its_frames_once(writer: HeldWriter, source: Source) -> None:
    stream = writer.open(source, kind=Notes)
    stream.push(text(1))
    group_commit.commit([stream, _LateRefuser(lambda: stream.push(text(2)))])
    writer.write_all()
    assert stream.batches[-1] == [text(2)] and stream.batches[-2] == [text(1)]
    assert writer.frames_committed == 2


class _LateRefuser(Command):
    """Work that is refused after it has written, so that its whole batch is tried again."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__()
        self.then = then

    def apply(self, tx: Any) -> None:
        Source.objects.update(name="refused")
        raise NotFound("Not found.")

    def finish(self, error: Exception | None) -> None:
        assert isinstance(error, NotFound)
        self.then()


def test_a_single_piece_of_input_is_queued_as_a_pair_and_other_frames_as_they_are(
    writer: HeldWriter, source: Source
) -> None:
    stream = writer.open(source, kind=Notes)
    piece = f.InputDelta("c", "{")
    frames = [[piece], [piece, piece], [], SkippedFrame("foo"), ("c", "}")]
    for frame in frames:
        stream.push(frame)
    writer.write_all()
    assert stream.batches == [[("c", "{"), *frames[1:]]]


# ---------------------------------------------------------------- waiting


def test_a_stream_is_queued_once_and_again_for_frames_that_come_during_its_commit(
    writer: HeldWriter, source: Source
) -> None:
    stream = writer.open(source, kind=Notes)
    stream.push(text(1))
    stream.push(text(2))
    assert writer.write() == 1
    stream.push(text(3))
    assert (writer.write(), writer.write()) == (1, 0)
    assert stream.batches == [[text(1), text(2)], [text(3)]]


def test_waiting_ends_with_the_commit_of_the_frames_pushed_before_it(writer: HeldWriter, source: Source) -> None:
    stream = writer.open(source, kind=Notes)
    stream.share = 1
    stream.push(text(1))
    waiting = writer.loop.create_task(stream.wait_until_committed())
    writer.loop.run_until_complete(asyncio.sleep(0))
    stream.push(text(2))  # belongs to the next wait
    assert not waiting.done()
    writer.write()
    writer.loop.run_until_complete(asyncio.wait_for(waiting, PATIENCE))
    assert stream._is_behind(2)


def test_a_lease_is_renewed_with_the_frames_before_it_and_waited_for(writer: HeldWriter, source: Source) -> None:
    stream = writer.open(source, kind=Notes)
    stream.prepare_lease(1.0)
    assert not writer.write()  # it waits for frames
    stream.renew_lease(2.0)
    assert stream._is_behind(0)
    assert writer.write() == 1
    writer.wait(stream)
    assert not stream._leases and not writer.write()


def test_a_backlog_or_a_held_stream_with_many_frames_is_full(
    writer: HeldWriter, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_queue, "MAX_ON_HOLD", 2)
    stream = writer.open(source, kind=Notes)
    for number in range(3):
        stream.push(text(number))
    assert not stream.is_full  # the writer takes them soon
    stream._is_on_hold = True
    assert stream.is_full
    stream._is_on_hold = False
    monkeypatch.setattr(group_commit, "BACKLOG", 2)
    assert stream.is_full
    writer.write_all()
    assert not stream.is_full
    writer.loop.run_until_complete(asyncio.wait_for(stream.wait_for_room(), PATIENCE))


# ---------------------------------------------------------------- failures


def test_a_failed_stream_reports_it_once_and_takes_nothing_more(writer: HeldWriter, source: Source) -> None:
    stream = writer.open(source, kind=Notes)
    stream.failure = ValueError("cannot be written")
    stream.push(text(1))
    stream.renew_lease(5.0)
    writer.write_all()
    stream.failure = None
    stream.push(text(2))
    stream.renew_lease(5.0)
    assert (writer.write_all(), stream.batches, writer.failures) == (0, [], [stream.error])
    assert (writer.frames_received, writer.frames_committed, writer.reports) == (1, 1, [])
    with pytest.raises(ValueError, match="cannot be written"):
        writer.wait(stream)


def test_a_sender_that_waits_for_a_lease_gets_an_error_of_the_body(writer: HeldWriter, source: Source) -> None:
    stream = writer.open(source, kind=Notes)
    stream.renew_lease(5.0)
    waiting = writer.loop.create_task(stream.wait_until_committed())
    writer.loop.run_until_complete(asyncio.sleep(0))
    stream.error = KeyReuse("The body differs.")  # found while it is read
    writer.write_all()
    with pytest.raises(KeyReuse):
        writer.loop.run_until_complete(asyncio.wait_for(waiting, PATIENCE))


def test_a_notification_for_a_closed_event_loop_is_dropped(writer: HeldWriter, source: Source) -> None:
    stream = writer.open(source, kind=Notes)
    stream.push(text(1))
    stream.mark_dequeued()
    writer.loop.close()
    group_commit.commit([stream])
    assert stream.batches == [[text(1)]] and writer.reports == []


# ---------------------------------------------------------------- on hold


class Guard:
    """A plugin that answers once it is allowed to."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def before(self, call: dict[str, Any]) -> None:
        assert self.release.wait(PATIENCE)


@pytest.fixture
def guard(policy: Any) -> Iterator[Guard]:
    policy({"default": "allow"})
    plugin = Guard()
    hooks.register(plugin, "guard")
    yield plugin
    plugin.release.set()
    hooks.clear()


def test_a_stream_on_hold_waits_for_its_plugins_and_then_continues_where_it_stopped(
    writer: HeldWriter, source: Source, guard: Guard
) -> None:
    stream, other = writer.open(source, mode="gate"), writer.open(source, "other")
    for frame in (text(1), [f.InputReady("c", "bash", {}, True)], text(2)):
        stream.push(frame)
    writer.write()
    stream.push(text(3))
    stream.renew_lease(9.0)
    other.push(text(9))
    assert writer.write() == 1  # the other one
    group_commit.commit([stream])  # was queued in the moment before it was put on hold
    assert read_texts("r") == ["1"] and read_texts("other") == ["9"]
    guard.release.set()
    await_queued(writer)
    writer.write_all()
    writer.wait(stream)
    assert read_texts("r") == ["1", "2", "3"] and not stream._leases
    assert [decision["decision"] for report in writer.reports for decision in report.decisions] == ["allow"]


class _Work(Command):
    """Work that calls a function."""

    def __init__(self, function: Callable[[], None]) -> None:
        super().__init__()
        self.function = function

    def apply(self, tx: Any) -> None:
        self.function()


def _fail_the_database() -> None:
    raise OperationalError("disk I/O error")


def test_a_stream_that_failed_on_hold_fails_no_work_of_later_commits(
    writer: HeldWriter, source: Source, guard: Guard
) -> None:
    stream = writer.open(source, mode="gate")
    stream.push([f.InputReady("c", "bash", {}, True)])
    writer.enqueue(_Work(lambda: stream.push(text(1))))  # so the stream is in the queue while it is on hold
    writer.write()
    writer.enqueue(_Work(_fail_the_database))
    assert writer.write() == 2
    assert isinstance(stream.error, OperationalError)
    outages.reset()  # the database works again
    guard.release.set()
    await_queued(writer)
    other = _Work(lambda: None)
    writer.enqueue(other)
    assert writer.write() == 2
    assert other.error is None and not outages.is_failing(outages.WRITING)
    assert (writer.failures, writer.backlog, writer.write_all()) == ([stream.error], 0, 0)
    assert read_texts("r") == []


def await_queued(writer: HeldWriter) -> None:
    """Wait until a stream whose plugins have answered is in the queue."""
    until(lambda: writer._queue)


def read_texts(run: str) -> list[str]:
    facts = [event.decoded_fact for event in Event.objects.filter(run__name=run).order_by("seq")]
    return [fact.text for fact in facts if isinstance(fact, f.TextDelta)]
