"""Bytes come in any pieces; the frames are always the same."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effort import draw
from tests.support.tables import loop_over
from tests.support.trace_player import TRACES
from toolcards.adapters import BadFrame
from toolcards.adapters.sse import EventSplitter, LineSplitter

LINES = st.sampled_from(
    ["data: {}", "data:x", "data", "data:  two blanks", ": comment", "event: e", "id: 7", "retry: 5", "", "",
     "data: [DONE]",     'data: {"t":"Zoë 🦊"}', "data: a\u2028b", "datum: no", "\ufeffdata: not the first"]
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
CASES = [
    ("one event", "data: a\n\n", ["a"]),
    ("several", "data: a\n\ndata: b\n\n", ["a", "b"]),
    ("carriage returns and line feeds", "data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
    ("carriage returns alone", "data: a\r\rdata: b\r\r", ["a", "b"]),
    ("several data lines are one frame", 'data: {"a":\ndata: 1}\n\n', ['{"a":\n1}']),
    ("comments are no frames", ": stream-open\n\n: keep-alive\n\ndata: a\n\n", ["a"]),
    ("other fields are ignored", "event: message\nid: 3\nretry: 9\ndata: a\n\n", ["a"]),
    ("a byte order mark is ignored", "\ufeffdata: a\n\n", ["a"]),
    ("no blank after the colon", "data:a\n\n", ["a"]),
    ("one blank only belongs to the wire", "data:  a\n\n", [" a"]),
    ("the last event needs no blank line", "data: a\n\ndata: b", ["a", "b"]),
    ("the end mark is dropped", "data: a\n\ndata: [DONE]\n\n", ["a"]),
    ("the end mark without its blank line", "data: [DONE]", []),
    ("empty data is no frame", "data:\n\ndata\n\n", []),
    ("nothing", "", []),
]


def split(splitter: EventSplitter | LineSplitter, pieces: list[bytes]) -> list[str]:
    return [frame for piece in pieces for frame in splitter.feed(piece)] + splitter.end()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@loop_over(("text", "frames"), [pytest.param(*rest, id=name) for name, *rest in CASES])
def test_events_give_their_data(text: str, frames: list[str]) -> None:
    data = text.encode()
    assert split(EventSplitter(), [data]) == frames
    assert split(EventSplitter(), [bytes([byte]) for byte in data]) == frames


@draw(300)
@given(st.lists(st.tuples(LINES, ENDS), max_size=12), st.lists(st.integers(0, 400), max_size=8))
def test_cut_anywhere_the_frames_are_the_same(lines: list[tuple[str, str]], places: list[int]) -> None:
    data = "".join(line + end for line, end in lines).encode()
    assert split(EventSplitter(), cut(data, places)) == split(EventSplitter(), [data])
    assert split(LineSplitter(), cut(data, places)) == split(LineSplitter(), [data])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 12_000), max_size=30))
def test_a_recorded_body_cut_anywhere_gives_the_same_frames(places: list[int]) -> None:
    data = (TRACES / "ai-sdk-7" / "l-nasty-strings.turn1.sse").read_bytes()
    assert split(EventSplitter(), cut(data, places)) == split(EventSplitter(), [data])


def test_lines_give_one_frame_each() -> None:
    assert split(LineSplitter(), [b'{"a":1}\n\n{"b', b'":2}\r\n  \n{"c":3}']) == ['{"a":1}', '{"b":2}', '{"c":3}']


@pytest.mark.parametrize("splitter", [EventSplitter, LineSplitter])
def test_a_frame_beyond_the_limit_is_refused_before_it_is_whole(splitter: type[EventSplitter | LineSplitter]) -> None:
    reading = splitter(100)
    with pytest.raises(BadFrame) as error:
        for _ in range(20):
            reading.feed(b"data: " + b"x" * 10 if splitter is EventSplitter else b"x" * 10)
    assert error.value.code == "too_large"


def test_many_data_lines_count_as_one_frame() -> None:
    reading = EventSplitter(100)
    with pytest.raises(BadFrame):
        for _ in range(20):
            reading.feed(b"data: 0123456789\n")


def test_a_frame_at_the_limit_passes() -> None:
    assert split(EventSplitter(100), [b"data: " + b"x" * 100 + b"\n\n"]) == ["x" * 100]


def test_bytes_that_are_no_utf_8_lose_nothing_else() -> None:
    assert split(EventSplitter(), [b"data: a\xff\n\ndata: b\n\n"]) == ["a\ufffd", "b"]


X = "x" * 200


@loop_over(("long", "skipped_count"), [
    (f"data: {X}\n\n", 1), (f"data: {X[:60]}\ndata: {X[:60]}\n\n", 1), (f"data: b\ndata: {X}\ndata: c\n\n", 1),
    (f"data: {X}\n\ndata:{X}\n\n", 2), (f": {X}\n", 0), (f"event: {X}\n", 0), (f"database: {X}\n", 0),
    ("data: " + "\u2603" * 200 + "\r\n\r\n", 1),
])  # fmt: skip
def test_an_event_that_is_too_long_is_left_out_and_the_next_one_is_read(long: str, skipped_count: int) -> None:
    data = f"data: a\n\n{long}data: z\n\n".encode()
    for pieces in ([data], [bytes([byte]) for byte in data], cut(data, [40, 90, 120, 150])):
        splitter = EventSplitter(100, skips=True)
        assert split(splitter, pieces) == ["a", "z"] and splitter.skipped_count == skipped_count
    if skipped_count:
        with pytest.raises(BadFrame):
            split(EventSplitter(100), [data])


def test_an_event_that_is_too_long_at_the_end_is_counted() -> None:
    splitter = EventSplitter(100, skips=True)
    assert split(splitter, [b"data: a\n\ndata: " + b"x" * 1_000]) == ["a"] and splitter.skipped_count == 1
