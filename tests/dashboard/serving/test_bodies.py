"""Before the key is known nothing of a body is read, and nothing of it is held."""

from __future__ import annotations

import contextlib
import json
import os
import socket as sockets
import threading
from pathlib import Path

import pytest

from tests.support.raw_connection import DECIDE, HEAD, INGEST, LOGIN, WITH_KEY, Wire, lives, post
from tests.support.server import PATIENCE, Server

# ---------------------------------------------------------------- keys before bodies


@pytest.mark.parametrize("path", [
    DECIDE, INGEST + b"r", b"/api/v1/hooks/claude-code", b"/api/v1/calls/c/result", b"/api/v1/ag-ui/x",
    b"/api/v1/permits/p/claim",
])  # fmt: skip
@pytest.mark.parametrize("head", [HEAD, HEAD + b"Authorization: Bearer wrong\r\n"])
@pytest.mark.parametrize("body", [b"Content-Length: 8000000", b"Transfer-Encoding: chunked"])
def test_a_key_is_checked_before_the_first_byte_of_the_body(
    server: Server, path: bytes, head: bytes, body: bytes
) -> None:
    with Wire(server, post(path, head, body, b"Content-Type: application/x-ndjson")) as wire:
        status, decision = wire.answer()  # though nothing of the body was sent
    assert (status, decision["error"]["code"]) == (401, "unauthorized")


def test_a_connection_ends_with_the_answer_to_a_body_that_was_not_read(server: Server) -> None:
    with Wire(server, post(DECIDE, HEAD, b"Content-Length: 8000000")) as wire:
        response = wire.rest()
    assert response.count(b"HTTP/1.1 401 ") == 1 and b"connection: close" in response.lower()


def test_a_sender_that_asks_first_is_not_told_to_go_on(server: Server) -> None:
    asks = (b"Content-Length: 8000000", b"Expect: 100-continue")
    with Wire(server, post(DECIDE, HEAD, *asks)) as wire:
        response = wire.rest()
    assert response.startswith(b"HTTP/1.1 401 ") and b"100 Continue" not in response
    body = json.dumps({"run": "r", "call_id": "c", "tool": "t", "args": {}}).encode()
    expected_lines = (b"Content-Length: %d" % len(body), b"Expect: 100-continue", b"Connection: close")
    with Wire(server, post(DECIDE, WITH_KEY, *expected_lines)) as wire:
        assert wire.socket.recv(100).startswith(b"HTTP/1.1 100 Continue\r\n")
        wire.send(body)
        assert wire.answer()[0] == 200


@pytest.mark.parametrize(("path", "head", "code"), [
    (b"/api/v1/policy/draft", HEAD, "signed_out"), (b"/api/v1/killswitch", WITH_KEY, "signed_out"),
    (b"/api/v1/policy/simulate", HEAD + b"Cookie: toolcards_session=made-up\r\n", "signed_out"),
])  # fmt: skip
def test_people_s_programs_are_asked_for_their_session_first(
    server: Server, path: bytes, head: bytes, code: str
) -> None:
    with Wire(server, post(path, head, b"Content-Length: 8000000", b"Content-Type: application/json")) as wire:
        status, decision = wire.answer()
    assert (status, decision["error"]["code"]) == (401, code)


@pytest.mark.parametrize("path", [LOGIN, b"/", b"/approvals/votes", b"/login/link/x/", b"/policy/import/", b"/admin/"])
def test_an_unauthenticated_form_is_limited_in_size(server: Server, path: bytes) -> None:
    with Wire(server, post(path, HEAD, b"Content-Length: 70000")) as wire:
        status, page = wire.answer()
    assert status == 413 and "Too much data" in page
    with Wire(server, post(path, HEAD, b"Transfer-Encoding: chunked")) as wire:
        for _ in range(20):
            wire.send(b"2000\r\n" + b"x" * 8192 + b"\r\n")
        status, page = wire.answer()
    assert status == 413 and "Too much data" in page


def test_a_personal_token_opens_the_larger_bodies(server: Server) -> None:
    assert server.manage("person", "create", "tom", "--role", "admin").returncode == 0
    token = server.manage("token", "create", "tom", "--scopes", "policy").stdout.split()[-1]
    document = {"rules": [], "x": "y" * 100_000}
    status, answer, _ = server.request("POST", "/api/v1/policy/validate", document, key=token)
    assert (status, answer["error"]["code"]) == (422, "invalid_policy")
    assert server.request("POST", "/api/v1/policy/validate", document, key="tcp_wrong")[0] == 401


def test_a_form_of_a_person_may_be_larger_and_a_policy_even_more(server: Server) -> None:
    from tests.support.voter import Voter

    voter = Voter(server)
    reason = "x" * 300_000
    assert voter.post("/settings/killswitch/", page="/settings/killswitch/", reason=reason)[0] in (200, 422)
    assert voter.post("/settings/killswitch/", page="/settings/killswitch/", reason=reason * 5)[0] == 413
    assert voter.post("/policy/import/", page="/policy/draft/text/", text=reason * 5)[0] != 413


@pytest.mark.parametrize("path", [b"/api/v1/nothing", b"/static/nothing", b"/healthz"])
def test_an_unread_body_ends_the_connection(server: Server, path: bytes) -> None:
    with Wire(server, post(path, HEAD, b"Transfer-Encoding: chunked")) as wire:
        stop = threading.Event()

        def send_for_ever() -> None:
            while not stop.is_set():
                wire.send(b"4000\r\n" + b"x" * 16384 + b"\r\n")

        sender = threading.Thread(target=send_for_ever)
        sender.start()
        try:
            assert wire.rest().startswith(b"HTTP/1.1 4")
        finally:
            stop.set()
            with contextlib.suppress(OSError):
                wire.socket.shutdown(sockets.SHUT_RDWR)
            sender.join(PATIENCE)


def test_a_body_that_is_known_to_be_too_long_is_refused_at_once(server: Server) -> None:
    with Wire(server, post(DECIDE, WITH_KEY, b"Content-Length: 9000000")) as wire:
        status, decision = wire.answer()
    assert (status, decision["error"]["code"]) == (413, "too_large")


# ---------------------------------------------------------------- memory


def resident(server: Server, measure: str = "VmRSS") -> int:
    """Return the server's resident memory in MiB, now or (`VmHWM`) at its highest."""
    assert server.process is not None
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(text.split(f"{measure}:")[1].split()[0]) >> 10


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
@pytest.mark.parametrize(("path", "head"), [
    (DECIDE, b"Content-Length: 8388608"), (INGEST + b"r", b"Content-Length: 8388608"),
    (LOGIN, b"Content-Length: 8388608"), (LOGIN, b"Transfer-Encoding: chunked"),
    (DECIDE, b"Transfer-Encoding: chunked"),
])  # fmt: skip
def test_sixty_strangers_with_long_bodies_make_it_hold_nothing_of_them(
    tmp_path: Path, path: bytes, head: bytes
) -> None:
    with Server(tmp_path) as server:
        assert lives(server) and server.request("GET", "/login/", key=None)[0] == 200
        before = resident(server)
        wires = [Wire(server, post(path, HEAD, head, b"Content-Type: application/x-ndjson")) for _ in range(60)]
        chunk = b"x" * (1 << 18) if b"Length" in head else b"40000\r\n" + b"x" * (1 << 18) + b"\r\n"

        def send(wire: Wire) -> None:
            for _ in range(31):  # never the whole of it
                wire.send(chunk)

        threads = [threading.Thread(target=send, args=[wire]) for wire in wires]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        growth = resident(server, "VmHWM") - before
        for wire in wires:
            wire.socket.close()
        assert lives(server)
    assert growth < 40, f"{growth} MiB"


def test_no_unauthenticated_body_is_written_to_disk(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    data = tmp_path / "data"
    data.mkdir()
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(spool)
    try:
        with Server(data) as server, Wire(server, post(LOGIN, HEAD, b"Content-Length: 50000000")) as wire:
            for _ in range(40):
                wire.send(b"x" * (1 << 18))
            assert server.process is not None
            folder = Path(f"/proc/{server.process.pid}/fd")
            files = [str(one.readlink()) for one in folder.iterdir() if one.exists()] if folder.exists() else []
            assert not [name for name in files if str(spool) in name]
            assert wire.answer()[0] == 413
    finally:
        os.environ.pop("TMPDIR") if before is None else os.environ.update(TMPDIR=before)
