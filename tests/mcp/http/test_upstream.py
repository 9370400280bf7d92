"""Requests to the MCP server behind the gateway: their headers, their responses in pieces, and the list of tools."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.support.mcp_http_server import HttpAnswer, McpHttpServer, stream
from tests.support.server import until
from tests.support.silent_server import Hole
from tests.support.tables import loop_over
from toolcards.mcp.http import upstream
from toolcards.mcp.http.upstream import FAILURES, BrokenResponse, Response, Upstream
from toolcards.mcp.tool_list import ToolList


def list_page(*names: str, cursor: str = "") -> dict[str, Any]:
    result = {"tools": [{"name": name} for name in names]} | ({"nextCursor": cursor} if cursor else {})
    return {"jsonrpc": "2.0", "id": "c7", "result": result}


def test_a_request_goes_to_the_servers_path_with_the_clients_headers() -> None:
    with McpHttpServer(HttpAnswer({"id": 1}, headers={"Mcp-Session-Id": "s1", "X-More": "1"})) as server:
        client_headers = {
            "Accept": "application/json", "X-Client": "1", "authorization": "Bearer of the client", "Host": "evil",
            "Connection": "close, X",
            "Transfer-Encoding": "chunked", "Content-Length": "999", "Origin": "https://evil.example",
            "accept-encoding": "gzip",
        }  # fmt: skip
        with closing(
            Upstream(server.url, {"Authorization": "Bearer up"}).request("POST", b"{}", client_headers)
        ) as response:
            assert b"".join(response) == b'{"id": 1}' and response.status == 200 and not response.has_events
            assert response.get_header("mcp-session-id") == "s1" and response.get_header("nothing") == ""
            names = {name.lower() for name, _ in response.headers}
            assert {"content-type", "x-more"} <= names and not names & {"transfer-encoding", "connection"}
    (request,) = server.requests
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert (request.method, request.path, request.message) == ("POST", "/mcp?v=1", {})
    assert headers["authorization"] == "Bearer up" and headers["x-client"] == "1" and headers["content-length"] == "2"
    assert headers["accept-encoding"] == "identity" and headers["host"].startswith("127.0.0.1:")
    assert not {"origin", "connection", "transfer-encoding"} & set(headers)


def test_an_address_without_a_path_is_the_root() -> None:
    with McpHttpServer(HttpAnswer()) as server:
        Upstream(server.url.partition("/mcp")[0], {}).request("GET", None, {}).close()
    assert [(request.method, request.path) for request in server.requests] == [("GET", "/")]


@loop_over(("answer", "messages"), [
    (HttpAnswer({"id": 1}), [{"id": 1}]), (HttpAnswer(b'{"id"'), []), (HttpAnswer(b"text", kind="text/plain"), []),
    (stream({"id": 1}, {"id": 2}), [{"id": 1}, {"id": 2}]),
    (HttpAnswer([b'data: {"i', b'd":1}\n', b"\n"], kind="text/event-stream; x"), [{"id": 1}]),
    (HttpAnswer([b'{"i', b'd":1}'], kind="application/json; charset=utf-8"), [{"id": 1}]), (HttpAnswer(), []),
])  # fmt: skip
def test_messages_are_read_from_any_kind_of_body(answer: HttpAnswer, messages: list[Any]) -> None:
    with McpHttpServer(answer) as server, closing(Upstream(server.url, {}).request("POST", b"{}", {})) as response:
        assert list(response.read_messages()) == messages


def test_a_server_that_is_away_or_breaks_off_is_a_failure() -> None:
    with pytest.raises(FAILURES):
        Upstream("http://127.0.0.1:9/mcp", {}).request("POST", b"{}", {})
    with (
        McpHttpServer(HttpAnswer(b'{"id": 1', breaks_off=True)) as server,
        closing(Upstream(server.url, {}).request("POST", b"{}", {})) as response,
        pytest.raises(FAILURES),
    ):
        b"".join(response)


# ---------------------------------------------------------------- tools
def test_the_tools_are_listed_page_by_page_with_the_headers_of_the_call() -> None:
    headers = {"Mcp-Session-Id": "s1", "Mcp-Param-Path": "secret", "Mcp-Method": "tools/call", "mcp-name": "read"}
    tools = ToolList()
    with McpHttpServer(HttpAnswer(list_page("a", cursor="2")), stream({"method": "ping"}, list_page("b"))) as server:
        Upstream(server.url, {}).list_tools(tools, headers, {"progressToken": "t", "client": "x"}, "c7")
    assert not tools.is_stale and tools.find("a") and tools.find("b")
    first, second = server.requests
    assert first.message["params"] == {"_meta": {"client": "x"}}
    assert second.message["params"] == {"_meta": {"client": "x"}, "cursor": "2"}
    for request in (first, second):
        client_headers = {name.lower(): value for name, value in request.headers.items()}
        assert client_headers["mcp-session-id"] == "s1" and client_headers["mcp-method"] == "tools/list"
        assert not {"mcp-param-path", "mcp-name"} & set(client_headers)


@loop_over("answer", [
    HttpAnswer(list_page("b"), status=500), HttpAnswer({"id": "another", "result": {"tools": []}}),
    HttpAnswer(b"no json"),
    HttpAnswer({"jsonrpc": "2.0", "id": "c7", "error": {"code": -32601, "message": "no"}}), HttpAnswer(),
    HttpAnswer(b"{", breaks_off=True),
])  # fmt: skip
def test_a_server_that_cannot_list_its_tools_keeps_the_known_ones(answer: HttpAnswer) -> None:
    tools = ToolList()
    tools.add_page({}, list_page("a")["result"])
    tools.is_stale = True
    with McpHttpServer(answer) as server:
        Upstream(server.url, {}).list_tools(tools, {}, {}, "c7")
    assert tools.find("a") and tools.is_stale and len(server.requests) == 1


def test_a_list_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "LIST_PAGES", 3)
    tools = ToolList()
    with McpHttpServer(HttpAnswer(list_page("a", cursor="again"))) as server:
        Upstream(server.url, {}).list_tools(tools, {}, {}, "c7")
    assert len(server.requests) == 3 and tools.is_stale


@contextmanager
def open_response(head: bytes) -> Iterator[Response]:
    """Ask a server that answers with these headers and `{}`, and closes."""

    def answer_once() -> None:
        connection = listener.accept()[0]
        with connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + head + b"\r\n\r\n{}")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer_once, daemon=True).start()
        own_upstream = Upstream(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", {})
        with closing(own_upstream.request("GET", None, {})) as response:
            yield response


def test_a_body_that_is_shorter_than_its_length_is_a_failure() -> None:
    with open_response(b"Content-Length: 9") as response, pytest.raises(BrokenResponse, match="7 bytes"):
        list(response)


@pytest.mark.parametrize("length", [b"\xb2", b"-3", b"two", b"9" * 5_000])
def test_a_length_that_is_no_number_is_ignored(length: bytes) -> None:
    with open_response(b"Content-Length: " + length) as response:
        assert list(response) == [b"{}"]


@loop_over(("pieces", "may_resume"), [
    ([b"id: 1\ndata: {}\n\n"], True), ([b"data: {}\r\ni", b"d:1\r\n\r\n"], True), ([b"data: {}\rid:1\r\r"], True),
    ([b'data: {"id": 1}\n\n'], False), ([b'data: "\\nid: 1"\n\n'], False), ([b"void: 1\n\n"], False),
])  # fmt: skip
def test_a_stream_with_ids_of_events_can_be_resumed(pieces: list[bytes], may_resume: bool) -> None:
    answer = HttpAnswer(pieces, kind="text/event-stream")
    with McpHttpServer(answer) as server, closing(Upstream(server.url, {}).request("POST", b"{}", {})) as response:
        assert b"".join(response) == b"".join(pieces) and response.may_resume == may_resume


def test_a_server_that_hangs_is_not_waited_for_to_list_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call waits for the list before people are asked."""
    monkeypatch.setattr(upstream, "LIST_SECONDS", 0.05)
    with Hole() as hole:
        own_upstream = Upstream(f"{hole.url}/mcp", {})
        lister = threading.Thread(target=own_upstream.list_tools, args=(ToolList(), {}, {}, "c7"), daemon=True)
        lister.start()
        until(lambda: not lister.is_alive())
    assert hole.swallowed == 1
