"""A body that is sent again under its key continues exactly where the receipt says, frame by frame and fact by fact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.held_writer import HeldWriter, hold_writer
from tests.support.server import until
from toolcards import hooks
from toolcards.core.calls import facts as f
from toolcards.core.runs.run_context import SkippedFrame
from toolcards.gate.agents import ingest
from toolcards.gate.agents.idempotency import HeldKey, KeyTakenOver, ReserveKey, UpdateKey
from toolcards.gate.agents.keyed_stream import KeyedStream
from toolcards.gate.refusals import KeyReuse
from toolcards.gate.writer import group_commit, transaction
from toolcards.models import Event, Receipt, Source

pytestmark = pytest.mark.django_db
REQUEST = {"run": "r"}


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldWriter]:
    held_writer = hold_writer(monkeypatch)
    yield held_writer
    held_writer.loop.close()
    hooks.clear()


class Body:
    """One request with a body under a key: its frames are named by one character each."""

    def __init__(self, writer: HeldWriter, source: Source, name: str = "k", run: str = "r", **options: Any) -> None:
        self.key: HeldKey = group_commit.execute(ReserveKey(source, name, REQUEST | {"run": run}))
        self.writer = writer
        self.stream: KeyedStream = writer.open(
            source, run, kind=lambda *args, **more: KeyedStream(self.key, *args, **more), **options
        )

    def push(self, frames: str) -> None:
        for name in frames:
            self.key.mark(name)
            self.stream.push(FRAMES.get(name, [f.TextDelta(text=name)]))

    def send(self, frames: str) -> None:
        """Push the frames, with a commit after each."""
        for name in frames:
            self.push(name)
            self.writer.write_all()

    def release(self) -> None:
        group_commit.execute(UpdateKey(lambda tx: self.key.release(forget=False)))


CALL = f.InputReady("c", "bash", {"command": "ls"}, True)
FRAMES: dict[str, Any] = {
    "C": [f.TextDelta(text="<"), CALL, *(f.TextDelta(text=char) for char in ">|!")],  # decided in the middle
    "S": SkippedFrame("foo"), "E": [],
}  # fmt: skip


def read_texts(run: str = "r") -> str:
    facts = [event.decoded_fact for event in Event.objects.filter(run__name=run).order_by("seq")]
    return "".join(fact.text for fact in facts if isinstance(fact, f.TextDelta))


def read_progress() -> tuple[int, int | None]:
    row = Receipt.objects.get()
    return row.frames, row.facts_left


# ---------------------------------------------------------------- continuing


_names = iter(range(10**9))


@draw(40, suppress_health_check=list(HealthCheck))
@given(
    body=st.text("abcCSE", min_size=1, max_size=8).filter(set("abcC").intersection),  # without a fact, there is no run
    cuts=st.lists(st.integers(0, 8), max_size=3),
    share=st.sampled_from([0, 1, 2]), together=st.booleans(),
)  # fmt: skip
def test_a_body_that_breaks_off_anywhere_is_written_once(
    source: Source, body: str, cuts: list[int], share: int, together: bool
) -> None:
    name = f"k{next(_names)}"
    with pytest.MonkeyPatch.context() as patch:
        if share:
            patch.setattr(transaction, "LONG", -1.0)
            patch.setattr(transaction, "SHARE", share)
            patch.setattr(ingest, "SHARE", share)
        writer = hold_writer(patch)
        for cut in [*cuts, len(body)]:
            request = Body(writer, source, name, name)
            assert len(request.key.parts) <= len(body) or not together
            (request.push if together else request.send)(body[:cut])
            if together:
                writer.write()  # one commit; the others are lost with the connection
                writer._queue.clear()
            request.release()
        last = Body(writer, source, name, name)
        last.push(body)
        writer.write_all()
        last.stream.check_complete()
        writer.loop.close()
    expected = "".join("<>|!" if frame == "C" else frame for frame in body if frame not in "SE")
    assert read_texts(name) == expected
    assert Receipt.objects.get(key=name).frames == len(body)
    assert last.stream.earlier_report.frames + last.stream._committed_frames == len(body)


class Guard:
    """A plugin without an opinion: a gate stream waits for it all the same."""

    def before(self, call: dict[str, Any]) -> None:
        return None


def test_a_frame_that_stopped_at_a_call_for_plugins_continues_with_its_next_fact(
    writer: HeldWriter, source: Source, policy: Any
) -> None:
    policy({"default": "allow"})
    hooks.register(Guard(), "guard")
    first = Body(writer, source, mode="gate")
    first.push("aC")
    writer.write()  # "<" and the call, which a plugin sees now
    assert (read_texts(), read_progress()) == ("a<", (1, 3))
    until(lambda: writer._queue)
    writer._queue.clear()  # the process dies here
    first.release()
    second = Body(writer, source, mode="gate")
    assert second.stream.earlier_report.frames == 1 and second.stream.touched_calls == {1}
    second.push("aC")
    writer.write()  # the plugin sees the call again
    assert (read_texts(), read_progress()) == ("a<", (1, 3))
    while writer.write_all() or second.stream._is_on_hold:
        until(lambda: writer._queue or not second.stream._is_on_hold)
    assert (read_texts(), read_progress()) == ("a<>|!", (2, None))
    decisions = [decision for report in writer.reports for decision in report.decisions]
    assert [(decision["call_id"], decision["decision"]) for decision in decisions] == [("c", "allow")]
    kinds = [event.decoded_fact.type for event in Event.objects.all()]
    assert (kinds.count("input-ready"), kinds.count("decided")) == (1, 1)


def test_the_report_of_earlier_requests_has_their_decisions_and_approvals(
    writer: HeldWriter, source: Source, policy: Any
) -> None:
    policy({"default": "allow"})
    first = Body(writer, source, mode="gate", channel="watch")
    first.send("aC")
    request = [f.ApprovalRequested("c", source_id="question", votable=True)]
    first.key.mark("?")
    first.stream.push(request)
    writer.write_all()
    first.release()
    report = Body(writer, source, mode="gate", channel="watch").stream.earlier_report
    assert (report.seq, report.frames, report.refused_frames) == (0, 3, 0)
    assert [decision["decision"] for decision in report.decisions] == ["allow"]
    assert [part["source_id"] for part in report.approvals] == ["question"]


# ---------------------------------------------------------------- other bodies


@pytest.mark.parametrize("body", ["xbc", "axc", "abx", "ba"])
def test_a_body_with_another_beginning_writes_nothing(writer: HeldWriter, source: Source, body: str) -> None:
    first = Body(writer, source)
    first.send("abc")
    first.release()
    second = Body(writer, source)
    second.push(f"{body}d"[:4])
    assert writer.write_all() == 0
    with pytest.raises(KeyReuse):
        second.stream.check_complete()
    assert (read_texts(), read_progress()) == ("abc", (3, None))


@pytest.mark.parametrize("body", ["", "a", "ab"])
def test_a_body_that_is_shorter_than_what_was_written_is_another_one(
    writer: HeldWriter, source: Source, body: str
) -> None:
    first = Body(writer, source)
    first.send("abc")
    first.release()
    second = Body(writer, source)
    second.push(body)
    with pytest.raises(KeyReuse, match="shorter"):
        second.stream.check_complete()


def test_a_body_that_differs_behind_what_was_written_is_the_same_so_far(writer: HeldWriter, source: Source) -> None:
    first = Body(writer, source)
    first.send("ab")
    first.push("c")  # read, and never written
    writer._queue.clear()
    first.release()
    second = Body(writer, source)
    second.send("abx")
    second.stream.check_complete()
    assert (read_texts(), read_progress()) == ("abx", (3, None))


def test_a_request_whose_key_was_taken_over_writes_no_more(writer: HeldWriter, source: Source) -> None:
    first = Body(writer, source)
    first.send("a")
    Receipt.objects.update(holder="another request")
    first.push("b")
    writer.write_all()
    assert isinstance(first.stream.error, KeyTakenOver)
    assert (read_texts(), read_progress()) == ("a", (1, None))
    with pytest.raises(KeyTakenOver):
        writer.wait(first.stream)


def test_the_marks_of_written_frames_are_forgotten(writer: HeldWriter, source: Source) -> None:
    body = Body(writer, source)
    body.push("abc")
    assert len(body.key.marks) == 3
    writer.write_all()
    assert (len(body.key.marks), Receipt.objects.get().digest) == (0, body.key._digest.get())
