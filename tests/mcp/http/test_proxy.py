"""`toolcards mcp --upstream` before an HTTP server that records what it gets, with a gate on loopback."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.support.fake_gate import Gate, plain
from tests.support.server import until
from toolcards.client import Toolcards
from toolcards.mcp.http.proxy import Gateway
from toolcards.mcp.http.sessions import GatewaySessions
from toolcards.mcp.http.upstream import Upstream

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {"path": "a"}}}


class Recorder(BaseHTTPRequestHandler):
    """An MCP server that answers every request with its method, and keeps the calls it gets."""

    protocol_version = "HTTP/1.1"
    received: list[Any]

    def log_message(self, *args: Any) -> None:
        """Write nothing."""

    def do_POST(self) -> None:
        """Answer one message."""
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if message.get("method") == "tools/call":
            self.received.append((message["params"], dict(self.headers)))
        status = 500 if message.get("method") == "broken" else 200
        self.answer(status, {"jsonrpc": "2.0", "id": message.get("id"), "result": {"content": []}})

    def answer(self, status: int, message: Any) -> None:
        """Send JSON."""
        body = json.dumps(message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Mcp-Session-Id", "session-1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Proxy:
    """The gateway between a test and a recorder."""

    def __init__(self, gate: Gate) -> None:
        self.received: list[Any] = []
        handler = type("Handler", (Recorder,), {"received": self.received})
        self.upstream = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        address = f"http://127.0.0.1:{self.upstream.server_address[1]}/mcp"
        self.sessions = GatewaySessions(Toolcards(gate.url, "tck_x"), "files", "")
        self.gateway = Gateway(("127.0.0.1", 0), Upstream(address, {"Authorization": "Bearer up"}), self.sessions)
        for server in (self.upstream, self.gateway):
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def post(self, message: Any, path: str = "/mcp", **headers: str) -> tuple[int, Any, str]:
        """Return the status, the body and its type."""
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.server_address[1], timeout=60)
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        connection.request("POST", path, body, accept | {k.replace("_", "-"): v for k, v in headers.items()})
        response = connection.getresponse()
        data, kind = response.read(), response.getheader("Content-Type", "")
        connection.close()
        return response.status, json.loads(data) if "json" in kind and data else data, kind

    def close(self) -> None:
        """Stop both servers."""
        for server in (self.gateway, self.upstream):
            server.shutdown()
            server.server_close()
        self.sessions.end_all()


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate(effects={"read": "allow", "remove": "deny", "mail": "ask"}) as running:
        yield running


@pytest.fixture
def proxy(gate: Gate) -> Iterator[Proxy]:
    new_proxy = Proxy(gate)
    yield new_proxy
    new_proxy.close()


def call(tool: str, **args: Any) -> dict[str, Any]:
    """Return a `tools/call` request."""
    return CALL | {"params": {"name": tool, "arguments": args}}


def test_an_allowed_call_passes_with_the_headers_of_the_command_line(gate: Gate, proxy: Proxy) -> None:
    status, answer, _ = proxy.post(call("read", path="a"), authorization="Bearer of the client", x_more="1")
    assert (status, answer["result"]) == (200, {"content": []})
    ((params, headers),) = proxy.received
    assert params == {"name": "read", "arguments": {"path": "a"}}
    assert headers["Authorization"] == "Bearer up" and headers["x-more"] == "1"
    assert until(lambda: [body["outcome"] for stage, body in gate.requests if stage == "result"]) == ["ok"]


def test_a_denied_call_does_not_pass(proxy: Proxy) -> None:
    status, answer, _ = proxy.post(call("remove"))
    assert status == 200 and answer["result"]["isError"] and proxy.received == []


@pytest.mark.slow
def test_a_call_that_waits_is_answered_as_an_event_stream(gate: Gate, proxy: Proxy) -> None:
    is_open = threading.Event()
    gate.tamper = lambda stage, honest: (
        plain({**honest, "decision": "ask"}) if stage == "poll" and not is_open.is_set() else None
    )
    threading.Timer(2.5, is_open.set).start()
    status, body, kind = proxy.post(call("mail", to="me"))
    assert (status, kind) == (200, "text/event-stream")
    assert json.loads(body.rpartition(b"data: ")[2])["result"] == {"content": []} and len(proxy.received) == 1


@pytest.mark.parametrize("in_batch", [False, True])
def test_a_canceled_call_is_withdrawn_and_never_runs(gate: Gate, proxy: Proxy, in_batch: bool) -> None:
    gate.tamper = lambda stage, honest: plain({**honest, "decision": "ask"}) if stage == "poll" else None
    caller = threading.Thread(target=proxy.post, args=(call("mail", to="me"),))
    caller.start()
    until(lambda: "poll" in gate.stages())
    cancellation = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert proxy.post([cancellation] if in_batch else cancellation)[0] == 202
    until(lambda: "withdraw" in gate.stages())
    caller.join()
    assert proxy.received == []


@pytest.mark.parametrize("header", [{"host": "evil.example"}, {"origin": "https://evil.example"}])
def test_a_page_of_another_origin_reaches_nothing(proxy: Proxy, header: dict[str, str]) -> None:
    status, _, _ = proxy.post(call("read"), **header)
    assert status == 403 and proxy.received == []


HOSTILE = {
    "a batch": [call("read")],
    "a nested batch": [[call("read")]],
    "no id": {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "read", "arguments": {}}},
    "two methods": b'{"id":1,"method":"tools/call","method":"ping","params":{"name":"remove"}}',
    "two names": b'{"id":1,"method":"tools/call","params":{"name":"read","name":"remove"}}',
    "no json": b"tools/call",
}


@pytest.mark.parametrize("message", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_message_that_can_be_read_in_two_ways_is_refused(proxy: Proxy, message: Any) -> None:
    status, answer, _ = proxy.post(message)
    assert status == 400 and answer["error"]["message"] and proxy.received == []


def test_other_paths_are_not_passed_on(proxy: Proxy) -> None:
    assert proxy.post(call("read"), path="/other")[0] == 404 and proxy.received == []


def test_changed_arguments_do_not_pass_next_to_headers_that_carry_the_old_ones(gate: Gate, proxy: Proxy) -> None:
    gate.edited = {"to": "you"}
    _, answer, _ = proxy.post(call("mail", to="me"), mcp_param_to="me")
    assert answer["result"]["isError"] and proxy.received == []


def test_an_upstream_server_that_is_away_is_an_error_and_the_call_is_reported(gate: Gate, proxy: Proxy) -> None:
    proxy.upstream.shutdown()
    proxy.upstream.server_close()
    status, answer, _ = proxy.post(call("read"))
    assert status == 502 and "cannot be reached" in answer["error"]["message"]
    assert until(lambda: [body["outcome"] for stage, body in gate.requests if stage == "result"]) == ["error"]


def test_each_session_of_the_server_is_a_run(gate: Gate, proxy: Proxy) -> None:
    proxy.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"clientInfo": {"name": "desk"}}})
    proxy.post(call("read"), mcp_session_id="session-1")
    proxy.post(call("read"), mcp_session_id="session-2")
    bodies = [body for stage, body in gate.requests if stage == "decide"]
    assert len({body["run"] for body in bodies}) == 2 and bodies[0]["agent_path"] == ["desk"]
