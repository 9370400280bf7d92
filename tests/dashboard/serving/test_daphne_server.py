"""What Daphne can do about peers that it does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.raw_connection import DECIDE, HEAD, LOGIN, WITH_KEY, Wire, lives, post
from tests.support.server import Server


@pytest.fixture(scope="module")
def daphne(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("daphne"), server="daphne", head_seconds=1) as running:
        yield running


@pytest.mark.parametrize(("path", "head", "body", "status"), [
    (DECIDE, HEAD, b"Content-Length: 8000000", 401), (DECIDE, HEAD, b"Transfer-Encoding: chunked", 401),
    (LOGIN, HEAD, b"Content-Length: 8000000", 413), (LOGIN, HEAD, b"Transfer-Encoding: chunked", 413),
    (DECIDE, WITH_KEY, b"Content-Length: 9000000", 413), (DECIDE, WITH_KEY, b"Transfer-Encoding: chunked", 413),
])  # fmt: skip
def test_daphne_refuses_a_body_by_what_its_head_says(
    daphne: Server, path: bytes, head: bytes, body: bytes, status: int
) -> None:
    with Wire(daphne, post(path, head, body)) as wire:
        if b"chunked" in body:
            for _ in range(9 if head == WITH_KEY else 1):
                wire.send(b"100000\r\n" + b"x" * (1 << 20) + b"\r\n")
        assert wire.answer()[0] == status
    assert lives(daphne)


def test_daphne_takes_long_bodies_for_ingest(daphne: Server) -> None:
    line = json.dumps({"type": "text.delta", "text": "x" * 100_000}) + "\n"
    status, body, _ = daphne.request(
        "POST", "/api/v1/ingest?protocol=native&run=long", line * 100, Content_Type="application/x-ndjson"
    )
    assert (status, body["accepted"]) == (200, 100)


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\n" + HEAD])
def test_daphne_cuts_off_a_first_head_that_does_not_come_whole(daphne: Server, data: bytes) -> None:
    with Wire(daphne, data) as wire:
        assert not wire.rest()


def test_daphne_says_how_long_it_keeps_a_connection(daphne: Server) -> None:
    assert daphne.request("GET", "/api/v1/runs")[2]["Keep-Alive"] == "timeout=75"
    assert "Keep-Alive" not in daphne.request("GET", "/api/v1/runs", Connection="close")[2]
