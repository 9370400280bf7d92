"""Connections of clients to the gateway: bodies that are refused, and responses that break off."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any

import pytest

from tests.support.fake_gate import Gate
from tests.support.mcp_http_server import HttpAnswer, McpHttpServer, stream
from tests.support.server import PATIENCE, until
from tests.support.tables import loop_over
from toolcards.client import Toolcards
from toolcards.mcp.http import event_stream, proxy, upstream
from toolcards.mcp.http.client_handler import LONGEST_BODY, ClientHandler
from toolcards.mcp.http.event_stream import format_event
from toolcards.mcp.http.proxy import Gateway
from toolcards.mcp.http.sessions import GatewaySessions
from toolcards.mcp.http.upstream import Upstream
from toolcards.mcp.messages import make_error

ERROR = make_error(1, -32603, "The connection was lost.")
EVENT = b"event: message\ndata: " + json.dumps(ERROR).encode() + b"\n\n"


class Echo(ClientHandler):
    """Answers the body, or breaks off as the path says."""

    def do_POST(self) -> None:
        """Answer a request."""
        body = self.read_body()
        if body is None:
            return
        if self.path == "/echo":
            self.answer(200, json.loads(body))
            return
        if self.path != "/nothing":
            content_type = "application/json" if self.path == "/json" else "text/event-stream; charset=utf-8"
            self.begin_chunks(200, [("content-type", content_type)])
            self.write_chunk(b"data: {")
            self.write_chunk(b"")
        self.close_connection = True
        self.break_off(ERROR)


@pytest.fixture
def connection() -> Iterator[http.client.HTTPConnection]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=PATIENCE)
    yield connection
    connection.close()
    server.shutdown()
    server.server_close()


def test_a_body_is_read_and_answered(connection: http.client.HTTPConnection) -> None:
    for number in (1, 2):  # on one connection
        connection.request("POST", "/echo", json.dumps({"id": number}))
        response = connection.getresponse()
        assert (response.status, json.load(response)) == (200, {"id": number})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 411),
        ({"Content-Length": "-1"}, 411),
        ({"Content-Length": "\u00b2"}, 411),  # a digit, but no number
        ({"Content-Length": "9" * 5_000}, 413),
        ({"Content-Length": str(LONGEST_BODY + 1)}, 413),
        ({"Content-Length": "2", "Transfer-Encoding": "chunked"}, 413),
    ],
)
def test_a_body_of_unknown_or_too_great_length_is_refused(
    connection: http.client.HTTPConnection, headers: dict[str, str], status: int
) -> None:
    connection.putrequest("POST", "/echo")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    assert (response.status, "error" in json.load(response)) == (status, True)


@pytest.mark.parametrize(
    ("path", "answer"), [("/nothing", (502, json.dumps(ERROR).encode())), ("/events", (200, b"data: {\n\n" + EVENT))]
)
def test_a_response_that_breaks_off_ends_with_the_error(
    connection: http.client.HTTPConnection, path: str, answer: tuple[int, bytes]
) -> None:
    connection.request("POST", path, b"{}")
    response = connection.getresponse()
    assert (response.status, response.read().replace(b'":', b'": ').replace(b',"', b', "')) == answer


def test_a_body_that_breaks_off_has_no_end(connection: http.client.HTTPConnection) -> None:
    connection.request("POST", "/json", b"{}")
    with pytest.raises(http.client.IncompleteRead):
        connection.getresponse().read()


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"remove","arguments":{}}}'
ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {}}
KIND = "Content-Type: application/json"


class Exchange:
    """A gateway before a server that records what it gets."""

    def __init__(self, server: McpHttpServer, gate: Gate) -> None:
        self._sessions = GatewaySessions(Toolcards(gate.url, "tck_x"), "files", "")
        self._gateway = Gateway(("127.0.0.1", 0), Upstream(server.url, {"Authorization": "Bearer up"}), self._sessions)
        self.port = self._gateway.server_address[1]
        threading.Thread(target=self._gateway.serve_forever, args=(0.01,), daemon=True).start()

    def send(self, *heads: str, body: bytes = PING, method: str = "POST", length: str = "") -> tuple[int, str, bytes]:
        """Return the status, the heads in lower case, and the body of the answer."""
        lines = [f"{method} /mcp HTTP/1.1", "Connection: close" if "Connection" not in str(heads) else ""]
        lines += [f"Host: 127.0.0.1:{self.port}"] if "Host:" not in str(heads) else []
        lines += [length or f"Content-Length: {len(body)}", *(head.format(port=self.port) for head in heads)]
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall("\r\n".join(line for line in lines if line).encode("latin-1") + b"\r\n\r\n" + body)
            connection.shutdown(socket.SHUT_WR)
            data = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        head, _, answer = data.partition(b"\r\n\r\n")
        return int(head.split()[1]), head.decode("latin-1").lower(), answer

    def close(self) -> None:
        """Stop the gateway."""
        self._gateway.shutdown()
        self._gateway.server_close()
        self._sessions.end_all()


@contextlib.contextmanager
def run_gateway(*answers: HttpAnswer) -> Iterator[tuple[Exchange, McpHttpServer]]:
    with McpHttpServer(*answers or [HttpAnswer(ANSWER)]) as server, Gate(effects={"remove": "deny"}) as gate:
        exchange = Exchange(server, gate)
        try:
            yield exchange, server
        finally:
            exchange.close()


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Exchange, McpHttpServer]]:
    with run_gateway() as both:
        yield both


@loop_over("kind", [
    "application/json", "application/json; charset=utf-7", "application/json;charset=UTF-16", "APPLICATION/JSON ; a=b",
    'application/json; charset="utf-7"',
])  # fmt: skip
def test_what_was_parsed_goes_out_as_exactly_json(running: tuple[Exchange, McpHttpServer], kind: str) -> None:
    exchange, server = running
    hop_heads = [
        "HTTP2-Settings: AAMAAABk", "Upgrade: h2c", "Connection: X-Hop, close", "X-Hop: 1", "TE: trailers",
        "Trailer: X-End", "Keep-Alive: timeout=5", "Proxy-Connection: close", "Proxy-Authorization: Basic eDp5",
        "Content-Language: de", "Content-Digest: sha-256=:x:", "Content_Type: text/plain", "X-Kept: 1",
        "X-HTTP-Method-Override: PUT", "Accept-Charset: utf-7", "Content-Encoding: identity", "Expect: 100-continue",
    ]  # fmt: skip
    status, _, _ = exchange.send(f"Content-Type: {kind}", *hop_heads)
    assert status in {100, 200}
    heads = {name.lower(): value for name, value in server.requests[-1].headers.items()}
    assert set(heads) == {"host", "accept-encoding", "content-length", "content-type", "x-kept", "authorization"}
    assert heads["content-type"] == "application/json" and server.requests[-1].message == json.loads(PING)


AMBIGUOUS = {
    "no type": ([], 415), "another type": (["Content-Type: text/plain"], 415),
    "a form": (["Content-Type: application/x-www-form-urlencoded"], 415),
    "a type that begins like it": (["Content-Type: application/json-seq"], 415),
    "two types": ([KIND, "Content-Type: text/plain"], 400),
    "an encoding": ([KIND, "Content-Encoding: gzip"], 415),
    "two sessions": ([KIND, "Mcp-Session-Id: a", "mcp-session-id: b"], 400),
    "two methods": ([KIND, "Mcp-Method: ping", "Mcp-Method: tools/call"], 400),
    "another method": ([KIND, "Mcp-Method: tools/call"], 400),
    "two hosts": ([KIND, "Host: 127.0.0.1", "Host: 127.0.0.1"], 400),
    "a folded head": ([KIND, "X-A: 1\r\n Content-Type: text/plain"], 400),
    "a head with a space": ([KIND, "Mcp-Session-Id : a"], 400),
    "a line without a colon": ([KIND, "nothing", "X-A: 1"], 400),
    "a page of another port": ([KIND, "Origin: http://127.0.0.1:1"], 403),
    "a page of another scheme": ([KIND, "Origin: https://127.0.0.1:{port}"], 403),
    "a page of another name": ([KIND, "Origin: http://localhost:{port}"], 403),
    "a page without an origin": ([KIND, "Origin: null"], 403),
    "a page by its fetch": ([KIND, "Sec-Fetch-Site: same-site"], 403),
}  # fmt: skip


@loop_over(("heads", "status"), AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_heads_that_can_be_read_differently_are_refused(
    running: tuple[Exchange, McpHttpServer], heads: list[str], status: int
) -> None:
    exchange, server = running
    before = len(server.requests)
    answer = exchange.send(*heads)
    assert answer[0] == status and json.loads(answer[2])["error"]["message"] and len(server.requests) == before


@loop_over(("method", "length"), [
    ("GET", "Content-Length: 40"), ("DELETE", "Content-Length: 40"), ("GET", "Transfer-Encoding: chunked"),
    ("POST", "Content-Length: 40\r\nContent-Length: 87"), ("POST", "Content-Length: 40\r\nContent-Length: 40"),
    ("POST", "Transfer-Encoding: chunked"),
])  # fmt: skip
def test_a_body_that_has_no_place_or_two_lengths_is_refused(
    running: tuple[Exchange, McpHttpServer], method: str, length: str
) -> None:
    exchange, server = running
    before = len(server.requests)
    status, _, answer = exchange.send(KIND, method=method, length=length)
    assert status in {400, 411, 413} and json.loads(answer)["error"]["message"] and len(server.requests) == before


def test_a_byte_order_mark_is_refused(running: tuple[Exchange, McpHttpServer]) -> None:
    exchange, server = running
    before = len(server.requests)
    status, _, answer = exchange.send(KIND, body=b"\xef\xbb\xbf" + PING)
    assert status == 400 and json.loads(answer)["error"]["message"] and len(server.requests) == before


def test_the_gateways_own_page_and_a_matching_method_pass(running: tuple[Exchange, McpHttpServer]) -> None:
    exchange, _ = running
    own_heads = ["Origin: http://127.0.0.1:{port}", "Sec-Fetch-Site: same-origin", "Mcp-Method: ping"]
    assert exchange.send(KIND, *own_heads)[0] == 200


@loop_over(("name", "is_refused"), [
    ("remove", False), ("=?base64?cmVtb3Zl?=", False), ("read", True), ("=?base64?cmVhZA==?=", True),
])  # fmt: skip
def test_the_name_of_the_tool_is_the_one_of_the_body(
    running: tuple[Exchange, McpHttpServer], name: str, is_refused: bool
) -> None:
    exchange, _ = running
    answer = exchange.send(KIND, f"Mcp-Name: {name}", "Mcp-Method: tools/call", body=CALL)
    assert answer[0] == (400 if is_refused else 200)


@loop_over("answer", [
    HttpAnswer(b"", status=101, headers={"Upgrade": "h2c"}), HttpAnswer(b"", status=103),
    HttpAnswer(b"", status=302, headers={"Location": "http://127.0.0.1:9/evil"}),
    HttpAnswer(b"", status=308, headers={"Location": "/mcp"}), HttpAnswer(b"", status=304), HttpAnswer(b"", status=600),
    HttpAnswer(ANSWER, headers={"Content-Encoding": "gzip"}),
    HttpAnswer(ANSWER, headers={"content-type": "text/event-stream"}),
])  # fmt: skip
def test_an_answer_that_cannot_pass_is_an_error(answer: HttpAnswer) -> None:
    with run_gateway(answer) as (exchange, server):
        status, heads, body = exchange.send(KIND)
        assert status == 502 and "location" not in heads and "upgrade" not in heads and len(server.requests) == 1
        assert "cannot be passed on" in json.loads(body)["error"]["message"]


@loop_over(("answer", "kind"), [
    (HttpAnswer(ANSWER, kind="application/json; charset=utf-7"), "application/json"),
    (stream(ANSWER), "text/event-stream"),
    (HttpAnswer(ANSWER, kind="Text/Event-Stream; charset=utf-16"), "text/event-stream"),
    (HttpAnswer(ANSWER, kind="x/y; text/event-stream"), "text/plain"),
    (HttpAnswer(ANSWER, kind="application/json-seq"), "text/plain"),
    (HttpAnswer(b"<script>", kind="text/html", status=404), "text/plain"),
])  # fmt: skip
def test_the_client_reads_an_answer_as_the_gateway_does(answer: HttpAnswer, kind: str) -> None:
    answer.headers |= {"Connection": "X-Hop", "X-Hop": "1", "X-Kept": "1", "Content-Language": "de"}
    with run_gateway(answer) as (exchange, _):
        status, heads, _ = exchange.send(KIND)
    assert status == answer.status and f"\r\ncontent-type: {kind}\r\n" in heads and "\r\nx-kept: 1" in heads
    assert heads.count("content-type") == 1 + heads.count("x-content-type-options")
    assert "x-hop" not in heads and "content-language" not in heads


def test_an_answer_without_a_body_has_no_chunks() -> None:
    with run_gateway(HttpAnswer(b"", status=204)) as (exchange, _):
        status, heads, body = exchange.send(KIND)
    assert (status, body) == (204, b"") and "transfer-encoding" not in heads


ENDINGS_CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {}}}
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
        status, body, is_complete = gateways.send("POST", ENDINGS_CALL)
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
        _, body, is_complete = gateways.send("POST", ENDINGS_CALL)
        messages = read_events(body)
        assert not messages or (is_complete and messages[-1]["id"] == 1 and "error" in messages[-1])
        until(lambda: [report["outcome"] for report in list_reports(gate)] == ["error"])
        assert not gateways.has_open_calls()


def test_a_stream_that_the_client_can_resume_is_not_ended_and_its_late_result_counts(gate: Gate) -> None:
    answer = HttpAnswer([EVENT_ID], kind="text/event-stream", breaks_off=True)
    with Gateways(gate, answer, stream(RESULT)) as gateways:
        _, body, is_complete = gateways.send("POST", ENDINGS_CALL)
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
        assert read_events(gateways.send("POST", ENDINGS_CALL)[1])[-1] == result
        until(lambda: [report["outcome"] for report in list_reports(gate)] == ["unknown"])
        assert not gateways.has_open_calls()
