"""Responses of the MCP server without the result of their call: what the client gets, and what is reported."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fake_gate import Gate
from tests.support.mcp_http_server import HttpAnswer, McpHttpServer, stream
from tests.support.server import PATIENCE, until
from toolcards.client import Toolcards
from toolcards.mcp.http import event_stream, proxy, upstream
from toolcards.mcp.http.event_stream import format_event
from toolcards.mcp.http.proxy import Gateway
from toolcards.mcp.http.sessions import GatewaySessions
from toolcards.mcp.http.upstream import Upstream

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {}}}
RESULT = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "hi"}]}}
NEWS = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
LISTED = HttpAnswer({"jsonrpc": "2.0", "id": "c7", "result": {"tools": [{"name": "read"}]}})
EVENT_ID = b"id: 7\r\ndata: \r\n\r\n"


@pytest.fixture(params=["at once", "as a stream"])
def gate(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A gate that allows; `as a stream`: only once the response to the client has begun."""
    with Gate() as running:
        if request.param == "as a stream":
            monkeypatch.setattr(proxy, "STREAM_AFTER", 0.0)
            monkeypatch.setattr(proxy, "PING", 0.01)
        yield running


class Gateways:
    """A gateway before a server with these answers."""

    def __init__(self, gate: Gate, *answers: HttpAnswer) -> None:
        self.server = McpHttpServer(LISTED, *answers)
        self.sessions = GatewaySessions(Toolcards(gate.url, "key", timeout=PATIENCE), "files", "desk")

    def __enter__(self) -> Gateways:
        self.server.__enter__()
        self._gateway = Gateway(("127.0.0.1", 0), Upstream(self.server.url, {}), self.sessions)
        threading.Thread(target=self._gateway.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._gateway.shutdown()
        self._gateway.server_close()
        self.sessions.end_all()
        self.server.__exit__()

    def send(self, method: str, message: Any = None) -> tuple[int, bytes, bool]:
        """Return the status, the body as far as it arrived, and whether it was complete."""
        connection = http.client.HTTPConnection("127.0.0.1", self._gateway.server_address[1], timeout=PATIENCE)
        try:
            connection.request(method, "/mcp", None if message is None else json.dumps(message), HEADERS)
            response = connection.getresponse()
            try:
                return response.status, response.read(), True
            except http.client.IncompleteRead as error:
                return response.status, error.partial, False
        finally:
            connection.close()

    def has_open_calls(self) -> bool:
        """Return whether a later call could not use the id."""
        return any(session.has_open_calls() for session in self.sessions._sessions.values())


def read_events(body: bytes) -> list[Any]:
    """Return the messages of an event stream that a client can read."""
    events = [event for event in body.replace(b"\r\n", b"\n").split(b"\n\n") if b"data: " in event]
    messages = []
    for event in events:
        try:
            messages.append(json.loads(b"".join(line[6:] for line in event.split(b"\n") if line.startswith(b"data: "))))
        except ValueError:
            continue
    return messages


def list_reports(gate: Gate) -> list[dict[str, Any]]:
    return [body for stage, body in gate.requests if stage == "result"]


STREAMS = [
    stream(NEWS), stream(RESULT | {"id": 7}), stream(RESULT | {"id": "1"}), stream(),
    stream(NEWS, breaks_off=True),
    HttpAnswer([b"event: message\r\ndata: {\"jsonrpc\": \"2.0\","], kind="text/event-stream", breaks_off=True),
    HttpAnswer([b"data: {\"jsonrpc\": \"2.0\"}\r\n"], kind="text/event-stream", breaks_off=True),
]  # fmt: skip
BODIES = [
    HttpAnswer(RESULT | {"id": 7}), HttpAnswer(b'{"jsonrpc": "2.0", "id": 1, "resu'), HttpAnswer(b""),
    HttpAnswer(b"<html>", kind="text/html"), HttpAnswer(b"", status=202), HttpAnswer(b"no", status=500),
    HttpAnswer(RESULT, breaks_off=True),
]  # fmt: skip


@pytest.mark.parametrize("answer", STREAMS)
def test_a_stream_without_a_result_ends_with_an_error_for_the_call(gate: Gate, answer: HttpAnswer) -> None:
    with Gateways(gate, answer) as gateways:
        status, body, is_complete = gateways.send("POST", CALL)
        error = read_events(body)[-1]
        assert (status, is_complete, error["id"]) == (200, True, 1) and "may have run" in error["error"]["message"]
        until(
            lambda: (
                [(each["outcome"], each["error"]["code"]) for each in list_reports(gate)] == [("error", "transport")]
            )
        )
        assert not gateways.has_open_calls()


@pytest.mark.parametrize("answer", BODIES)
def test_a_body_without_a_result_ends_the_call(gate: Gate, answer: HttpAnswer) -> None:
    with Gateways(gate, answer) as gateways:
        _, body, is_complete = gateways.send("POST", CALL)
        messages = read_events(body)
        assert not messages or (is_complete and messages[-1]["id"] == 1 and "error" in messages[-1])
        until(lambda: [report["outcome"] for report in list_reports(gate)] == ["error"])
        assert not gateways.has_open_calls()


def test_a_stream_that_the_client_can_resume_is_not_ended_and_its_late_result_counts(gate: Gate) -> None:
    answer = HttpAnswer([EVENT_ID], kind="text/event-stream", breaks_off=True)
    with Gateways(gate, answer, stream(RESULT)) as gateways:
        _, body, is_complete = gateways.send("POST", CALL)
        assert not is_complete and not any("error" in message for message in read_events(body))
        until(lambda: [report["outcome"] for report in list_reports(gate)] == ["unknown"])
        assert read_events(gateways.send("GET")[1]) == [RESULT]
        until(lambda: [report["outcome"] for report in list_reports(gate)] == ["unknown", "ok"])
        assert not gateways.has_open_calls()


def test_a_result_that_is_too_long_to_read_passes_and_is_unknown(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (upstream, event_stream):
        monkeypatch.setattr(module, "LONGEST", 1_000)
    result = RESULT | {"result": {"content": 2_000 * "x"}}
    event = format_event(result)
    with Gateways(gate, HttpAnswer([event[:1_500], event[1_500:]], kind="text/event-stream")) as gateways:
        assert read_events(gateways.send("POST", CALL)[1])[-1] == result
        until(lambda: [report["outcome"] for report in list_reports(gate)] == ["unknown"])
        assert not gateways.has_open_calls()
