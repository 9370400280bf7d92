"""SIGTERM while everything is open: each client gets its answer, and acknowledged data survives."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from tests.support.raw_connection import INGEST, WITH_KEY, Wire, post
from tests.support.server import KEY, PATIENCE, Server, until

HOLD_SECONDS = 50.0  # seconds that the polls and streams below would stay open
CHUNKED = (b"Transfer-Encoding: chunked", b"Content-Type: application/x-ndjson", b"Idempotency-Key: the-body")
LINE = '{"type":"text.delta","text":"[%d]"}\n'


@dataclass
class StoppedServer:
    """What the clients of a stopped server received, and the server, which runs again."""

    server: Server
    name: str
    seconds: float = 0.0
    answers: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def stopped_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoppedServer]:
    folder = tmp_path_factory.mktemp(request.param)
    with Server(folder, server=request.param, default_effect="ask") as server, ThreadPoolExecutor(8) as pool:
        value = StoppedServer(server, request.param)
        futures = {name: pool.submit(hold, server) for name, hold in HOLDERS.items()}
        until(lambda: all(ready.is_set() or futures[name].done() for name, ready in READY.items()))
        until(lambda: _waiting(server) >= {"poll", "decide", "events", "hook"} or futures["hook"].done())
        began = time.monotonic()
        server.stop()
        value.seconds = time.monotonic() - began
        value.answers = {name: _outcome(future) for name, future in futures.items()}
        for ready in READY.values():
            ready.clear()
        server.start()
        yield value


def _outcome(future: Future[Any]) -> Any:
    try:
        return future.result(PATIENCE)
    except Exception as error:
        return error


def _ask(server: Server, call_id: str) -> str:
    question = {"run": "polls", "call_id": call_id, "tool": "bash", "args": {"command": f"git push # {call_id}"}}
    return str(server.request("POST", "/api/v1/calls/decide", question)[1]["approval"]["id"])


def _waiting(server: Server) -> set[str]:
    return {one["call_id"] for one in server.get("/api/v1/approvals?state=waiting&limit=200")["approvals"]}


def _poll(server: Server) -> str:
    path = f"/api/v1/approvals/{_ask(server, 'poll')}?wait={HOLD_SECONDS:.0f}".encode()
    with Wire(server, post(path, WITH_KEY, method=b"GET")) as wire:
        assert server.request("GET", "/healthz")[0] == 200  # so the poll was taken in before
        READY["poll"].set()
        return wire.rest().decode().lower()


def _decide(server: Server) -> tuple[int, str]:
    question = {"run": "held", "call_id": "decide", "tool": "bash", "args": {"command": "ls"}, "wait_ms": 50_000}
    READY["decide"].set()
    status, decision, _ = server.request("POST", "/api/v1/calls/decide", question)
    return status, decision["decision"]


def _hook(server: Server) -> tuple[int, str]:
    hook = {
        "session_id": "hooks", "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "hook", "cwd": "/",
        "tool_input": {"command": "git push"},
    }  # fmt: skip
    READY["hook"].set()
    status, body, _ = server.request("POST", f"/api/v1/hooks/claude-code?limit={HOLD_SECONDS:.0f}", hook)
    return status, body["hookSpecificOutput"]["permissionDecision"]


def _events(server: Server) -> tuple[int, str]:
    _ask(server, "events")
    connection = http.client.HTTPConnection(urlsplit(server.base).netloc, timeout=2 * PATIENCE)
    with closing(connection):
        headers = {"Authorization": f"Bearer {KEY}", "Accept": "text/event-stream"}
        connection.request("GET", "/api/v1/runs/polls/events", headers=headers)
        answer, value = connection.getresponse(), b""
        while b'"call_id":"events"' not in value:
            value += answer.read1()
        READY["events"].set()
        return answer.status, (value + answer.read()).decode()  # to a proper end, or IncompleteRead


def _body(server: Server) -> tuple[int, Any]:
    with Wire(server, post(INGEST + b"bodies", WITH_KEY, *CHUNKED)) as wire:
        for number in range(20):
            line = (LINE % number).encode()
            wire.send(b"%x\r\n%s\r\n" % (len(line), line))
        READY["body"].set()
        return wire.answer()


def _acked(socket: ClientConnection, frames: int) -> dict[str, Any]:
    while True:
        message = json.loads(socket.recv(timeout=PATIENCE))
        if message["type"] == "ack" and message["frames"] >= frames:
            return dict(message)


def _socket(server: Server) -> tuple[int, int]:
    """Send frames until the server goes; return how many of them it acknowledged, and its close code."""
    acked = 0
    with server.socket(protocol="native", run="sockets", mode="observe") as socket:
        socket.send(LINE % 0)
        try:
            for number in range(1, 1_000_000):
                acked = _acked(socket, number)["frames"]
                READY["socket"].set()
                socket.send(LINE % number)
        except ConnectionClosed as closed:
            return acked, closed.rcvd.code if closed.rcvd else 1006
    raise AssertionError("it was never closed")


HOLDERS: dict[str, Callable[[Server], Any]] = {
    "poll": _poll, "decide": _decide, "hook": _hook, "events": _events, "body": _body, "socket": _socket,
}  # fmt: skip
READY = {name: threading.Event() for name in HOLDERS}


def test_the_server_stops_within_its_time(stopped_server: StoppedServer) -> None:
    assert stopped_server.seconds < PATIENCE / 2, "it waited for what it should have ended"
    log = (stopped_server.server.data / "server.log").read_text()
    assert "Traceback" not in log and "Cancel" not in log


def test_held_polls_answer_with_the_state_as_it_is(stopped_server: StoppedServer) -> None:
    head, _, body = stopped_server.answers["poll"].partition("\r\n\r\n")
    assert head.startswith("http/1.1 200 ") and '"decision": "ask"' in body
    assert "connection: close" in head and "keep-alive:" not in head
    assert stopped_server.answers["decide"] == (200, "ask")


def test_a_held_hook_is_denied(stopped_server: StoppedServer) -> None:
    assert stopped_server.answers["hook"] == (200, "deny")


def test_an_event_stream_ends_as_a_whole_response(stopped_server: StoppedServer) -> None:
    status, text = stopped_server.answers["events"]
    assert status == 200 and '"call_id":"events"' in text


def test_the_read_part_of_a_body_is_committed_and_its_sender_is_asked_to_retry(stopped_server: StoppedServer) -> None:
    if stopped_server.name == "daphne":
        pytest.skip("Daphne hands over bodies that are whole")
    status, value = stopped_server.answers["body"]
    assert (status, value["error"]["code"]) == (503, "restarting")
    events = stopped_server.server.get("/api/v1/runs/bodies/events?limit=200")["events"]
    text = "".join(event.get("text", "") for event in events)
    assert [f"[{number}]" in text for number in range(20)] == [True] * 20


def test_a_socket_acknowledges_what_it_took_in_and_is_asked_to_reconnect(stopped_server: StoppedServer) -> None:
    acked, code = stopped_server.answers["socket"]
    assert code == 1012
    events = stopped_server.server.get("/api/v1/runs/sockets/events?limit=200")["events"]
    text = "".join(event.get("text", "") for event in events)
    assert all(text.count(f"[{number}]") == 1 for number in range(min(acked, 150)))


def test_questions_are_open_after_the_restart(stopped_server: StoppedServer) -> None:
    assert _waiting(stopped_server.server) == {"poll", "decide", "events"}  # the hook's was taken back
