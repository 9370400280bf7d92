"""Agents behind us that answer oddly: their clients get an answer that HTTP allows, and nothing is left behind."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from tests.support.raw_connection import WITH_KEY, Wire
from tests.support.server import PATIENCE, Server, until
from toolcards.transports.agents.ag_ui_upstream import Exchange

FINISHED = b'data: {"type":"RUN_FINISHED","threadId":"t","runId":"r"}\n\n'
HEAD = b"Content-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\n" + HEAD % len(FINISHED) + FINISHED


class RawAgent:
    """Answers every request with the pieces of bytes in `says`, and keeps what it heard; "hold" waits for `release`."""

    def __init__(self) -> None:
        self.says: list[Any] = []
        self.request_head = b""
        self.came, self.release, self.hang_up = threading.Event(), threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/agui"
        threading.Thread(target=self._serve, daemon=True).start()

    def reset(self, *says: Any) -> None:
        self.says, self.request_head = list(says), b""
        for event in (self.came, self.release, self.hang_up):
            event.clear()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                link = self._listener.accept()[0]
            except OSError:
                return
            with link:
                self._answer(link)

    def _answer(self, link: socket.socket) -> None:
        try:
            while b"\r\n\r\n" not in self.request_head:
                self.request_head += link.recv(1 << 16)
            self.came.set()
            for one in self.says:
                if one == "hold":
                    self.release.wait(PATIENCE)
                else:
                    link.sendall(one)
            link.shutdown(socket.SHUT_WR)
            while link.recv(1 << 16):
                pass
        except OSError:
            pass
        self.hang_up.set()


@pytest.fixture(scope="module")
def raw() -> Iterator[RawAgent]:
    agent = RawAgent()
    yield agent
    agent.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, raw: RawAgent) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server"), agui_upstreams=f"odd={raw.url}", grace=1) as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_left_behind(server: Server) -> Iterator[None]:
    """Fail a test after which the server counts connections or has written a traceback."""
    before = (server.data / "server.log").read_text().count("Traceback")
    yield
    until(lambda: open_connections(server) == 0)
    assert (server.data / "server.log").read_text().count("Traceback") == before


def open_connections(server: Server) -> int:
    text = server.request("GET", "/metrics")[1]
    match = re.search(r"(?m)^toolcards_connections\S* (\d+)", text)
    assert match, text
    return int(match[1])


def post(server: Server, **headers: str) -> tuple[int, Any]:
    body = {"threadId": "t", "runId": "r", "messages": []}
    return server.request("POST", "/api/v1/ag-ui/odd", body, **headers)[:2]


@pytest.mark.parametrize("status", ["000", "101", "101 Odd\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nX:", "199", "600"])
def test_a_status_that_no_answer_has_is_a_fault_of_the_agent(server: Server, raw: RawAgent, status: str) -> None:
    raw.reset(f"HTTP/1.1 {status} Odd\r\nContent-Length: 1\r\n\r\nx".encode())
    result, outcome = post(server)
    assert (result, outcome["error"]["code"]) == (502, "upstream")


def test_interim_answers_are_waited_out(server: Server, raw: RawAgent) -> None:
    raw.reset(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\n", WHOLE)
    assert post(server) == (200, FINISHED.decode())


def test_an_agent_that_only_promises_is_given_up(server: Server, raw: RawAgent) -> None:
    raw.reset(b"HTTP/1.1 102 Processing\r\n\r\n" * 30, "hold")
    assert post(server)[0] == 502
    raw.release.set()


@pytest.mark.parametrize("behind", [WHOLE, b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", b"garbage", b"\r\n" * 9])
@pytest.mark.parametrize("apart", [False, True])
def test_nothing_behind_the_answer_is_taken(server: Server, raw: RawAgent, behind: bytes, apart: bool) -> None:
    raw.reset(*([WHOLE, behind] if apart else [WHOLE + behind]))
    assert post(server) == (200, FINISHED.decode())


def test_trailers_change_no_header(server: Server, raw: RawAgent) -> None:
    chunk = b"%x\r\n%s\r\n0\r\nContent-Type: text/html\r\n\r\n" % (len(FINISHED), FINISHED)
    raw.reset(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
    status, body, headers = server.request("POST", "/api/v1/ag-ui/odd", {"threadId": "t", "runId": "r", "messages": []})
    assert (status, body) == (200, FINISHED.decode())
    assert {name.lower(): value for name, value in headers.items()}["content-type"] == "text/event-stream"


def test_headers_for_one_hop_end_here(server: Server, raw: RawAgent) -> None:
    raw.reset(WHOLE)
    post(
        server, Connection="X-Mine, keep-alive", X_Mine="1", Keep_Alive="timeout=9", Proxy_Connection="keep-alive",
        TE="trailers", Trailer="X-Sum", Proxy_Authorization="Basic eA==", X_Yours="2",
        HTTP2_Settings="AAMAAABk", Upgrade="h2c", Content_Language="de", Content_Type="application/json; charset=utf-7",
    )  # fmt: skip
    names = set(re.findall(rb"(?m)^([\w-]+):", raw.request_head.lower()))
    hop = {b"x-mine", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"proxy-authorization"}
    hop |= {b"http2-settings", b"upgrade", b"content-language"}
    assert b"content-type: application/json\r\n" in raw.request_head.lower()
    assert b"x-yours" in names and not names & hop
    assert raw.request_head.lower().count(b"connection: close") == 1


@pytest.mark.parametrize("says", [["hold"], [WHOLE[:20], "hold"], [WHOLE[:-5], "hold"]])
def test_a_client_that_leaves_leaves_nothing_behind(server: Server, raw: RawAgent, says: list[Any]) -> None:
    raw.reset(*says)
    body = b'{"threadId":"left","runId":"r","messages":[]}'
    head = b"POST /api/v1/ag-ui/odd HTTP/1.1\r\n" + WITH_KEY + b"Content-Length: %d\r\n\r\n" % len(body)
    with Wire(server, head + body):
        assert raw.came.wait(PATIENCE)
        assert open_connections(server) == 1
    until(lambda: open_connections(server) == 0)
    raw.release.set()
    assert raw.hang_up.wait(PATIENCE)


async def test_a_client_that_leaves_while_a_piece_arrives_ends_the_reading() -> None:
    """Else the agent is read to its end, and the run stays open."""
    reader = asyncio.StreamReader()
    reader.feed_data(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    exchange = Exchange(reader, cast(asyncio.StreamWriter, None))
    await exchange.begin()

    async def read() -> list[bytes]:
        return [piece async for piece in exchange.pieces()]

    reading = asyncio.create_task(read())
    while reader._waiter is None:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    reader.feed_data(b"1\r\nx\r\n")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(reading), PATIENCE)
