"""Heads and bodies that are too slow, too long or no HTTP, and peers that are too many."""

from __future__ import annotations

import contextlib
import json
import select
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.raw_connection import DECIDE, HEAD, INGEST, KEY, LOGIN, UPGRADE, WITH_KEY, Wire, lives, post
from tests.support.server import MAX_UNKNOWN_PEERS, PATIENCE, Server, until

ENDS = (b"HTTP/1.1 408 ", b"HTTP/1.1 400 ")


# ---------------------------------------------------------------- time
BROKEN_OFF_HEADS = [
    b"", b"\r\n", b"G", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
    b"GET /ws/me/ HTTP/1.1\r\n" + HEAD + UPGRADE, b"PRI * HTTP/2.0\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01",
]  # fmt: skip


def test_a_head_that_does_not_come_whole_is_cut_off(server: Server) -> None:
    with contextlib.ExitStack() as wires:  # all at once: each takes the whole time
        open_wires = {data: wires.enter_context(Wire(server, data)) for data in BROKEN_OFF_HEADS}
        responses = {data: wire.rest() for data, wire in open_wires.items()}
    assert not [data for data, text in responses.items() if text and not text.startswith(ENDS)], responses


@pytest.mark.parametrize("piece", [b"X-A: b\r\n", b"X"])
def test_a_head_that_comes_in_drops_is_cut_off(server: Server, piece: bytes) -> None:
    with Wire(server, b"GET / HTTP/1.1\r\n" + HEAD) as wire:
        wire.socket.settimeout(0.05)
        response = b""
        for _ in range(int(PATIENCE / 0.05)):
            wire.send(piece)
            try:
                response = wire.socket.recv(1 << 16)
                break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            raise AssertionError("it was never cut off")
        assert not response or response.startswith(b"HTTP/1.1 408 ")


def test_a_body_that_stops_coming_is_cut_off(server: Server) -> None:
    heads = {LOGIN: HEAD, DECIDE: WITH_KEY, b"/api/v1/runs/r/end": WITH_KEY}
    with contextlib.ExitStack() as wires:
        requests = {path: post(path, head, b"Content-Length: 1000") + b"{" for path, head in heads.items()}
        open_wires = {path: wires.enter_context(Wire(server, data)) for path, data in requests.items()}
        responses = {path: wire.answer() for path, wire in open_wires.items()}
    assert {path: (status, body["error"]["code"]) for path, (status, body) in responses.items()} == dict.fromkeys(
        heads, (408, "too_slow")
    )


def test_an_unauthenticated_slow_body_is_cut_off(server: Server) -> None:
    with Wire(server, post(LOGIN, HEAD, b"Content-Length: 60000")) as wire:
        wire.socket.settimeout(0.05)
        for _ in range(int(PATIENCE / 0.05)):
            wire.send(b"x")
            try:
                message = wire.socket.recv(1 << 16)
                break
            except TimeoutError:
                continue
            except ConnectionError:
                message = b""
                break
        else:
            raise AssertionError("it was never cut off")
        assert not message or message.startswith(b"HTTP/1.1 408 ")


def test_a_known_agent_s_stream_may_rest_while_a_person_decides(server: Server) -> None:
    kind = (b"Transfer-Encoding: chunked", b"Content-Type: application/x-ndjson", b"Connection: close")
    first, last = (b'{"type":"run.started"}\n', b'{"type":"run.finished","outcome":"success"}\n')
    with Wire(server, post(INGEST + b"rests", WITH_KEY, *kind)) as agent:
        agent.send(b"%x\r\n%s\r\n" % (len(first), first))
        for _ in range(2):  # others are cut off meanwhile, so that much time has gone by
            with Wire(server, post(DECIDE, WITH_KEY, b"Content-Length: 1000")) as other:
                assert other.answer()[0] == 408
        agent.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(last), last))
        status, decision = agent.answer()
    assert (
        status == 200 and b'"accepted":2' in decision.encode()
        if isinstance(decision, str)
        else decision["accepted"] == 2
    )


def test_a_held_poll_may_rest_too(server: Server) -> None:
    decision = server.request("POST", "/api/v1/calls/decide", {"run": "held", "call_id": "c", "tool": "bash",
                                                           "args": {"command": "git push"}})[1]  # fmt: skip
    if decision["decision"] != "ask":
        pytest.skip("the starter policy does not ask about this")
    path = f"/api/v1/approvals/{decision['approval']['id']}?wait=3".encode()  # longer than strangers have
    with Wire(server, post(path, WITH_KEY, b"Connection: close", method=b"GET")) as wire:
        assert wire.answer()[0] == 200


def test_a_stream_of_a_known_agent_ends_after_its_own_limit(tmp_path: Path) -> None:
    with Server(tmp_path, stream_seconds=0.5, head_seconds=0.5) as server:
        kind = (b"Transfer-Encoding: chunked", b"Content-Type: application/x-ndjson")
        with Wire(server, post(INGEST + b"silent", WITH_KEY, *kind)) as agent:
            agent.send(b'17\r\n{"type":"run.started"}\n\r\n')
            assert agent.answer()[0] == 408


def test_an_unauthenticated_client_that_does_not_read_is_cut_off(server: Server) -> None:
    ask = post(b"/static/vendor/htmx/htmx.min.js", HEAD, method=b"GET")
    with Wire(server, small=True) as wire:
        watch = select.poll()
        watch.register(wire.socket, 0)  # nothing but errors and the end
        result = threading.Event()
        for _ in range(400):  # more than the system takes off the server's hands, and few at a time
            wire.send(ask)
            result.wait(0.005)
        until(lambda: watch.poll(0))


# ---------------------------------------------------------------- how many
def test_an_address_has_only_so_many_connections_that_are_not_known(server: Server) -> None:
    until(lambda: lives(server))
    wires = [Wire(server, b"GET / HTTP/1.1\r\n") for _ in range(MAX_UNKNOWN_PEERS + 20)]
    try:
        refusal = [wire for wire in wires[:20] if wire.rest().startswith(b"HTTP/1.1 429 ")]
        assert len(refusal) == 20
        with Wire(server, post(b"/healthz", HEAD, b"Connection: close", method=b"GET"), "127.0.0.2") as elsewhere:
            assert elsewhere.answer()[0] == 200
    finally:
        for wire in wires:
            wire.socket.close()
    until(lambda: lives(server))


@pytest.mark.parametrize("half", [b"", b"GET / HTTP/1.1\r\n", post(LOGIN, HEAD, b"Content-Length: 1000") + b"x"])
def test_half_sent_requests_lock_no_one_of_their_address_out(tmp_path: Path, half: bytes) -> None:
    patient = {"head_seconds": 600, "body_seconds": 600}
    with Server(tmp_path, max_unauthenticated=5, **patient) as server, contextlib.ExitStack() as wires:
        half_requests = [wires.enter_context(Wire(server, half)) for _ in range(30)]
        for _ in range(10):
            assert lives(server)
            half_requests.append(wires.enter_context(Wire(server, half)))
        assert all(wire.rest().startswith(b"HTTP/1.1 429 ") for wire in half_requests[:30])


def test_known_connections_are_not_counted(server: Server) -> None:
    ask = post(b"/api/v1/runs", WITH_KEY, method=b"GET")
    wires = []
    try:
        for _ in range(MAX_UNKNOWN_PEERS + 20):  # each is known once it is answered
            wires.append(Wire(server, ask))
            assert wires[-1].socket.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        with contextlib.ExitStack() as agents:
            for n in range(MAX_UNKNOWN_PEERS + 20):
                agent = agents.enter_context(server.socket(protocol="native", run=f"many-{n}"))
                agent.send('{"type":"run.started"}')
                assert "ack" in str(agent.recv(timeout=PATIENCE))
    finally:
        for wire in wires:
            wire.socket.close()
    assert lives(server)


def test_idle_connections_keep_no_one_of_their_address_out(server: Server) -> None:
    until(lambda: lives(server))
    ask = post(b"/healthz", HEAD, method=b"GET")
    with contextlib.ExitStack() as wires:
        idle = [wires.enter_context(Wire(server, ask)) for _ in range(MAX_UNKNOWN_PEERS)]
        assert all(wire.answer()[0] == 200 for wire in idle)
        newer = [wires.enter_context(Wire(server, ask)) for _ in range(20)]
        assert all(wire.answer()[0] == 200 for wire in newer)
        assert all(wire.rest() == b"" for wire in idle[:20])  # the oldest gave way, between two requests


def test_no_one_is_locked_out_for_long(server: Server) -> None:
    wires = [Wire(server, b"GET / HTTP/1.1\r\n") for _ in range(3 * MAX_UNKNOWN_PEERS)]
    until(lambda: _alive(server))  # while they are all still open on our side
    for wire in wires:
        wire.socket.close()


def _alive(server: Server) -> bool:
    try:
        return lives(server)
    except (OSError, ValueError):
        return False


def test_behind_a_proxy_each_address_is_counted_by_itself(tmp_path: Path) -> None:
    def asks(address: str) -> bytes:
        forwarded = f"X-Forwarded-For: {address}".encode()
        return post(LOGIN, HEAD, b"Content-Length: 1000", forwarded) + b"x"

    health = b"/healthz"
    with Server(tmp_path, proxy="127.0.0.1", max_unauthenticated=5, body_seconds=60) as server:
        with contextlib.ExitStack() as wires:
            for _ in range(5):
                wires.enter_context(Wire(server, asks("198.51.100.7")))

            def status(address: str) -> int:
                head = HEAD + f"X-Forwarded-For: {address}\r\n".encode()
                with Wire(server, post(health, head, b"Connection: close", method=b"GET")) as wire:
                    return wire.answer()[0]

            until(lambda: status("198.51.100.7") == 429)
            assert status("198.51.100.8") == 200
            with Wire(server, asks("198.51.100.7")) as wire:
                response = wire.rest()
            assert response.startswith(b"HTTP/1.1 429 ") and b"retry-after: 5" in response
            with Wire(
                server, post(b"/ws/me/", HEAD + b"X-Forwarded-For: 198.51.100.7\r\n" + UPGRADE, method=b"GET")
            ) as wire:
                assert wire.rest().startswith(b"HTTP/1.1 403 ")
        until(lambda: status("198.51.100.7") == 200)


# ---------------------------------------------------------------- malformed
@pytest.mark.parametrize("data", [
    post(DECIDE, WITH_KEY, b"Content-Length: 5", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    post(DECIDE, WITH_KEY, b"Content-Length: 5", b"Content-Length: 6") + b"{}",
    post(DECIDE, WITH_KEY, b"Content-Length: -5"), post(DECIDE, WITH_KEY, b"Content-Length: 5x") + b"{}",
    post(DECIDE, WITH_KEY, b"Content-Length: 99999999999999999999999"), post(DECIDE, WITH_KEY, b"X y: z"),
    post(DECIDE, WITH_KEY, b"Transfer-Encoding: chunked") + b"zz\r\n", b"\0" * 100,
    b"GET /\xc3\xa4 HTTP/1.1\r\n" + HEAD + b"\r\n", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\0b\r\n\r\n",
    b"BREW / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
])  # fmt: skip
def test_what_is_no_http_is_refused_and_closed(server: Server, data: bytes) -> None:
    with Wire(server, data) as wire:
        status, decision = wire.answer()
    assert status in (400, 408, 413, 505), decision
    assert lives(server)


@pytest.mark.parametrize("data", [
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
    b"GET /?" + b"a=b&" * 50_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n",
    b"GET / HTTP/1.1\r\n" + HEAD + b"Cookie: toolcards_session=" + b"x" * 100_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HEAD + b"".join(b"X-%d: y\r\n" % n for n in range(500)) + b"\r\n",
    b"GET / HTTP/1.1\r\n" + HEAD + b"X: " + b"y" * 5_000_000,
    b"GET / HTTP/1.1\r\n" + HEAD + b"x" * 5_000_000,
    b"G" * 5_000_000,
    post(DECIDE, WITH_KEY, b"Authorization: Bearer " + b"x" * 20_000),
])  # fmt: skip
def test_a_head_that_is_too_long_is_refused(server: Server, data: bytes) -> None:
    with Wire(server, data) as wire:
        status, decision = wire.answer()
    assert status in (400, 431) and decision["error"]["code"] in ("head_too_large", "bad_request")


def test_a_body_of_trailers_alone_is_cut_off_and_none_is_read(server: Server) -> None:
    with Wire(server, post(LOGIN, HEAD, b"Transfer-Encoding: chunked") + b"0\r\nX: ") as wire:
        for _ in range(40):
            wire.send(b"y" * (1 << 18))
        assert wire.answer()[0] in (0, 400)
    hidden = b"0\r\nAuthorization: Bearer " + KEY.encode() + b"\r\n\r\n"
    for path in (DECIDE, b"/api/v1/runs"):
        with Wire(server, post(path, HEAD, b"Transfer-Encoding: chunked", b"Connection: close") + hidden) as wire:
            assert wire.answer()[0] in (401, 405)


def test_pipelined_requests_are_answered_in_order_and_only_so_many_wait(server: Server) -> None:
    health = post(b"/healthz", HEAD, method=b"GET")
    last = post(b"/api/v1/runs", HEAD, b"Connection: close", method=b"GET")
    with Wire(server, health * 5 + last) as wire:
        response = wire.rest()
    assert response.count(b"HTTP/1.1 200 ") == 5 and response.count(b"HTTP/1.1 401 ") == 1
    with Wire(server, health * 5_000) as wire:
        response = wire.rest()
    assert response.count(b"HTTP/1.1 200 ") < 5_000 and lives(server)


def test_a_broken_request_behind_pipelined_ones_ends_the_connection_without_an_error(server: Server) -> None:
    page = post(b"/login/", HEAD, method=b"GET")
    with Wire(server, page * 2 + b"no request\r\n\r\n") as wire:
        wire.rest()
    assert lives(server)
    assert "Traceback" not in (server.data / "server.log").read_text()


# ---------------------------------------------------------------- sockets
STRANGERS = [
    (b"/ws/agent/?protocol=native", HEAD), (b"/ws/agent/?protocol=native", HEAD + b"Authorization: Bearer wrong\r\n"),
    (b"/ws/me/", HEAD), (b"/ws/runs/x/", HEAD), (b"/ws/nothing/", HEAD),
]  # fmt: skip


def test_an_unauthenticated_socket_is_closed_though_it_never_answers(server: Server) -> None:
    open_wires, responses = [], []
    with contextlib.ExitStack() as wires:
        for path, head in STRANGERS:
            origin = b"" if b"agent" in path else b"Origin: " + server.base.encode() + b"\r\n"
            head = head.replace(b"127.0.0.1", urlsplit(server.base).netloc.encode())
            open_wires.append(wires.enter_context(Wire(server, post(path, head + origin + UPGRADE, method=b"GET"))))
        for (path, _), wire in zip(STRANGERS, open_wires, strict=True):
            code, text = (4404 if b"nothing" in path else 4401).to_bytes(2, "big"), b""
            while code not in text:
                text += wire.socket.recv(1 << 16) or pytest.fail(f"{path!r} ended with {text!r}")
            wire.send(b"\x81\xff" + (1 << 20).to_bytes(8, "big") + b"\0\0\0\0" + b"x" * (1 << 19))  # half a message
            responses.append(text)
        for wire in open_wires:
            wire.rest()
    assert all(text.startswith(b"HTTP/1.1 101 ") for text in responses), responses


def test_a_known_agent_s_first_message_may_be_long(server: Server) -> None:
    with server.socket(protocol="native", run="long-first") as agent:
        agent.send(json.dumps({"type": "text.delta", "text": "x" * 900_000}))
        assert json.loads(agent.recv(timeout=PATIENCE))["type"] == "ack"
