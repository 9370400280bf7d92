"""What a server finds out about the peer of a request: each of its lines learns that the peer is identified."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards.transports.api.admission import LINE, admit


class CountedLine:
    """A line that counts the reports it gets."""

    def __init__(self) -> None:
        self.reports: list[bool] = []

    def admit(self, *, streams: bool) -> None:
        self.reports.append(streams)


@pytest.mark.parametrize("streams", [False, True])
def test_every_limit_of_the_request_is_lifted_once_the_peer_is_identified(streams: bool) -> None:
    lines = CountedLine(), CountedLine()
    admit({"type": "http", LINE: lines}, streams=streams)
    assert [line.reports for line in lines] == [[streams], [streams]]


def test_a_body_streams_only_if_its_view_says_so() -> None:
    line = CountedLine()
    admit({LINE: (line,)})
    assert line.reports == [False]


@pytest.mark.parametrize("scope", [None, {}, {"type": "http"}, {LINE: ()}])
def test_a_server_that_keeps_no_lines_is_left_alone(scope: Any) -> None:
    admit(scope)
