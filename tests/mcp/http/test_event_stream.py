"""Server-sent events and JSON bodies, as messages."""

from __future__ import annotations

import itertools
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolcards.mcp.http.event_stream import EventReader, format_event

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
