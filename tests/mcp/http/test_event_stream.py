"""Server-sent events and JSON bodies, as messages."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolcards.mcp.http.event_stream import EventReader, StreamSplitter, format_event, is_message

MESSAGES = st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=3), max_size=5)


def split(data: bytes, places: list[int]) -> list[bytes]:
    """Return the data in pieces."""
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def read(content_type: str, pieces: list[bytes]) -> list[Any]:
    """Return the messages of a body."""
    reader = EventReader(content_type)
    return [message for piece in pieces for message in reader.feed(piece)] + list(reader.close())


@given(MESSAGES, st.lists(st.integers(min_value=0)), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_are_read_however_they_are_cut(messages: list[Any], places: list[int], line_end: bytes) -> None:
    data = b"".join(b": ping\n\n" + format_event(message) for message in messages).replace(b"\n", line_end)
    # The last line end of a stream with bare carriage returns may be half of another one, so one more line follows.
    data += b":" + line_end
    assert read("text/event-stream; charset=utf-8", split(data, places)) == messages


@given(st.dictionaries(st.text(), st.integers()), st.lists(st.integers(min_value=0)))
def test_a_json_body_is_one_message(message: Any, places: list[int]) -> None:
    assert read("application/json", split(json.dumps(message).encode(), places)) == [message]


def test_other_bodies_and_broken_ones_hold_no_message() -> None:
    assert read("text/html", [b"{}"]) == read("application/json", [b"{"]) == []
    assert read("text/event-stream", [b"data: {\n\n", b"data: 1\n\n"]) == [1]


@given(MESSAGES, st.lists(st.integers(min_value=0)), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_a_stream_is_split_into_whole_events_however_it_is_cut(
    messages: list[Any], places: list[int], line_end: bytes
) -> None:
    data = b"".join(b": ping\n\n" + format_event(message) for message in messages).replace(b"\n", line_end)
    splitter = StreamSplitter()
    events = [event for piece in split(data, places) for event in splitter.feed(piece)] + list(splitter.close())
    assert b"".join(event for event, _ in events) == data
    assert [message for _, message in events if message is not None] == messages
    whole_events = [event.strip(b"\r\n") for event, message in events if message is not None]
    assert all(event.startswith(b"event: message") for event in whole_events)


def test_a_long_line_in_many_pieces_takes_time_by_its_length() -> None:
    """It took time by the square of its length: a minute for 12 MB."""
    data, began = format_event({"text": "x" * (3 << 20)}), time.thread_time()
    pieces = [data[start : start + 1024] for start in range(0, len(data), 1024)]
    reader, splitter = EventReader("text/event-stream"), StreamSplitter()
    assert sum(len(list(reader.feed(piece))) for piece in pieces) == 1
    assert sum(len(list(splitter.feed(piece))) for piece in pieces) == 1
    assert time.thread_time() - began < 10


def test_only_objects_and_lists_are_messages() -> None:
    assert is_message(b"{}") and is_message(b"[]")
    assert not any(map(is_message, (b"1", b'"x"', b"{", b"", b"\xff")))
