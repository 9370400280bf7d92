"""Outgoing frames: each arrives once and in order, whatever connections do, and memory is bounded."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from toolcards.client.transport import outbox
from toolcards.client.transport.outbox import BATCH, LONGEST, MAX_FRAME, Outbox


def take(box: Outbox) -> list[dict[str, Any]]:
    """Return the frames of the next message."""
    text = box.take_message()
    value = json.loads(text) if text else []
    return value if isinstance(value, list) else [value]


def take_all(box: Outbox) -> list[dict[str, Any]]:
    frames: list[dict[str, Any]] = []
    while batch := take(box):
        frames += batch
    return frames


def fill(box: Outbox, count: int, **more: Any) -> None:
    for number in range(1, count + 1):
        box.add({"type": "text.delta", "text": str(number), **more})


def test_a_frame_has_its_number_first_and_is_alone_or_in_a_list() -> None:
    box = Outbox()
    box.add({"type": "a", "text": 'ß"'})
    assert box.take_message() == '{"n":1,"type":"a","text":"\\u00df\\""}'
    fill(box, 2)
    assert box.take_message().startswith('[{"n":2,"type"') and box.take_message() == "" and len(box) == 3


@loop_over("frame", [{"a": float("nan")}, {"a": object()}, {"a": {1, 2}}, {(1,): 2}])
def test_a_frame_that_is_no_json_is_refused_and_takes_no_number(frame: Any) -> None:
    box = Outbox()
    with pytest.raises((TypeError, ValueError)):
        box.add(frame)
    box.add({"type": "a"})
    assert [each["n"] for each in take_all(box)] == [1] and box.missed == 0


def test_a_message_has_at_most_so_many_frames_and_characters() -> None:
    box = Outbox()
    fill(box, BATCH + 1)
    assert [len(take(box)), len(take(box))] == [BATCH, 1]
    box = Outbox()
    for size in (LONGEST // 2, LONGEST // 2 - 100, 100, LONGEST * 2, 10):
        box.add({"text": "x" * size})
    messages = [box.take_message() for _ in range(4)]
    assert [len(json.loads(text)) if text.startswith("[") else 1 for text in messages] == [2, 1, 1, 1]
    assert len(messages[0]) <= LONGEST < len(messages[2])  # a long one goes alone


def test_what_was_not_acknowledged_comes_again_on_a_new_connection() -> None:
    box = Outbox()
    fill(box, 5)
    assert len(take_all(box)) == 5
    box.acknowledge(2)
    box.acknowledge(3)
    box.rewind()
    assert [frame["n"] for frame in take_all(box)] == [4, 5]
    box.acknowledge(1)  # counted from the start on each connection
    assert len(box) == 1


@loop_over("frames", [None, "2", 2.0, True, [2], -1, 0])
def test_an_acknowledgment_of_nothing_drops_nothing(frames: Any) -> None:
    box = Outbox()
    fill(box, 2)
    take_all(box)
    box.acknowledge(frames)
    assert len(box) == 2


def test_an_acknowledgment_never_reaches_frames_that_were_not_sent() -> None:
    box = Outbox()
    fill(box, 2)
    take_all(box)
    fill(box, 1)
    box.acknowledge(1000)
    assert [frame["n"] for frame in take_all(box)] == [3]
    box.acknowledge(1)  # less than before
    assert len(box) == 1


def test_the_largest_frame_is_dropped_and_the_others_keep_their_numbers() -> None:
    box = Outbox()
    assert box.drop_largest() is None
    for size in (10, 500, 30):
        box.add({"text": "x" * size})
    take_all(box)
    frame = box.drop_largest()
    assert frame is not None and (frame["n"], len(frame["text"]), box.missed) == (2, 500, 1)
    assert [frame["n"] for frame in take_all(box)] == [1, 3]


def test_a_frame_that_no_server_takes_is_not_kept() -> None:
    box = Outbox()
    room = MAX_FRAME - len('{"text":""}')
    box.add({"text": "x" * room})
    box.add({"text": "x" * (room + 1)})
    assert (len(box), box.missed) == (1, 1)
    assert len(box.take_message()) <= 1 << 20


@loop_over(("kind", "is_kept"), [
    ("text.delta", False), ("reasoning.delta", False), ("tool.input.delta", False), ("tool.output.partial", False),
    ("tool.output.available", True), ("run.finished", True), (None, True),
])  # fmt: skip
def test_beyond_its_capacity_it_keeps_what_counts(kind: Any, is_kept: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outbox, "CAPACITY", 1000)
        box = Outbox()
        box.add({"type": "run.started", "title": "x" * 1000})
        box.add({"type": kind})
        assert (len(box), box.missed) == ((2, 0) if is_kept else (1, 1))
        box.add({"type": "run.started", "title": "x" * 3000})
        box.add({"type": "tool.output.available"})  # beyond four times its capacity it drops all
        assert box.missed == (1 if is_kept else 2)


def test_room_comes_back_with_acknowledgments_and_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "CAPACITY", 1000)
    box = Outbox()
    for _ in range(50):
        box.add({"type": "text.delta", "text": "x" * 600})
        box.add({"type": "text.delta", "text": "x" * 700})
        take_all(box)
        box.acknowledge(1)
        box.drop_largest()
    assert (box.missed, len(box), box._size) == (50, 0, 0)


STEPS = st.lists(st.one_of(
    st.tuples(st.just("add"), st.integers(0, 90_000)), st.tuples(st.just("take"), st.just(0)),
    st.tuples(st.just("acknowledge"), st.integers(-1, 12)), st.tuples(st.just("connect"), st.just(0)),
), max_size=30)  # fmt: skip


@draw(100)
@given(STEPS)
def test_the_server_gets_each_frame_in_order_and_none_after_its_acknowledgment(steps: list[tuple[str, int]]) -> None:
    box, added, committed = Outbox(), 0, 0
    connection: list[int] = []  # numbers that came over the current connection
    acknowledged = 0  # of it
    for step, amount in steps:
        if step == "add":
            box.add({"text": "x" * amount})
            added += 1
        elif step == "take":
            connection += [frame["n"] for frame in take(box)]
        elif step == "acknowledge":
            acknowledged = max(acknowledged, min(amount, len(connection)))
            box.acknowledge(amount)
            committed = max([committed, *connection[:acknowledged]])
        else:
            box.rewind()
            connection, acknowledged = [], 0
        assert connection == list(range(connection[0], connection[0] + len(connection))) if connection else True
        assert len(box) == added - committed
    box.rewind()
    assert [frame["n"] for frame in take_all(box)] == list(range(committed + 1, added + 1))


def test_many_threads_add_frames_with_different_numbers() -> None:
    box = Outbox()
    adders = [threading.Thread(target=fill, args=(box, 200)) for _ in range(8)]
    for adder in adders:
        adder.start()
    for adder in adders:
        adder.join()
    assert [frame["n"] for frame in take_all(box)] == list(range(1, 1601))
