"""Connections of clients to the gateway: bodies that are refused, and responses that break off."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest

from tests.support.server import PATIENCE
from toolcards.mcp.http.client_handler import LONGEST_BODY, ClientHandler
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
