"""Before the key is known nothing of a body is read, and nothing of it is held."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket as sockets
import threading
from pathlib import Path
from typing import Any

import pytest

from dashboard.serving import bodies as module
from dashboard.serving.bodies import PeerCounter, RequestTracker
from dashboard.serving.limits import RETRY_AFTER, Peer
from tests.support.raw_connection import DECIDE, HEAD, INGEST, LOGIN, WITH_KEY, Wire, lives, post
from tests.support.server import PATIENCE, Server
from toolcards.transports import shutdown
from toolcards.transports.api.admission import LINE

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


Message = dict[str, Any]


def build_scope(path: str = "/api/v1/x", kind: str = "http", client: str | None = "10.0.0.1", **more: Any) -> Message:
    address = (client, 5) if client is not None else None
    return {"type": kind, "path": path, "method": "POST", "headers": [], "client": address, "query_string": b""} | more


async def receive() -> Message:
    return {"type": "http.disconnect"}


class Answer(list[Message]):
    """The messages of an answer."""

    async def __call__(self, message: Message) -> None:
        self.append(message)

    @property
    def status(self) -> int:
        return int(self[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode().lower(): value.decode() for name, value in self[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self[1:])


class Application:
    """An application whose requests stay open until they are let go; it begins its answer at once or never."""

    def __init__(self, *, begins: bool = False) -> None:
        self.begins, self.scopes, self.leave = begins, list[Message](), asyncio.Event()

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if self.begins:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await self.leave.wait()


async def open_request(server: Any, scope: Message) -> tuple[asyncio.Task[None], Answer]:
    answer = Answer()
    task = asyncio.create_task(server(scope, receive, answer))
    await asyncio.sleep(0)  # it begins
    return task, answer


async def test_an_address_has_so_many_unknown_requests_and_others_are_not_affected() -> None:
    application = Application()
    counter = PeerCounter(application, 2)
    tasks = [(await open_request(counter, build_scope()))[0] for _ in range(2)]
    extra, answer = await open_request(counter, build_scope())
    await extra
    assert answer.status == 429 and answer.headers["retry-after"] == str(RETRY_AFTER)
    assert json.loads(answer.body)["error"]["code"] == "slow_down"
    other, _ = await open_request(counter, build_scope(client="10.0.0.2"))
    assert len(application.scopes) == 3
    application.leave.set()
    await asyncio.gather(*tasks, other)
    again, _ = await open_request(counter, build_scope())
    await again
    assert len(application.scopes) == 4 and len(counter.unknown_peers) == 0


async def test_a_request_that_fails_is_not_counted_any_more() -> None:
    async def fail(scope: Message, receive: Any, send: Any) -> None:
        raise ZeroDivisionError

    counter = PeerCounter(fail, 1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            await counter(build_scope(), receive, Answer())
    assert len(counter.unknown_peers) == 0


async def test_a_known_peer_makes_room_and_a_peer_without_an_address_is_one() -> None:
    application = Application()
    counter = PeerCounter(application, 1)
    first, _ = await open_request(counter, build_scope(client=None))
    (peer,) = application.scopes[0][LINE]
    extra, answer = await open_request(counter, build_scope(client=None))
    await extra
    assert answer.status == 429
    peer.admit()
    admitted, _ = await open_request(counter, build_scope(client=None))
    assert len(application.scopes) == 2
    application.leave.set()
    await asyncio.gather(first, admitted)


async def test_a_peer_that_the_server_counts_is_not_counted_twice() -> None:
    application = Application()
    application.leave.set()
    counter = PeerCounter(application, 0)
    direct_peer, proxy_peer = Peer(is_counted=True), Peer()
    await counter(build_scope(**{LINE: (direct_peer,)}), receive, Answer())
    await counter(build_scope(kind="lifespan"), receive, Answer())
    assert [scope.get(LINE) for scope in application.scopes] == [(direct_peer,), None]
    answer = Answer()
    await counter(build_scope(**{LINE: (proxy_peer,)}), receive, answer)
    assert answer.status == 429 and len(application.scopes) == 2
    roomy = PeerCounter(application, 1)
    await roomy(build_scope(**{LINE: (proxy_peer,)}), receive, Answer())
    assert application.scopes[2][LINE][0] is proxy_peer and len(application.scopes[2][LINE]) == 2


async def test_a_page_is_refused_as_a_page_and_a_socket_before_it_opens() -> None:
    counter = PeerCounter(Application(), 0)
    answer = Answer()
    await counter(build_scope("/runs/"), receive, answer)
    assert answer.status == 429 and answer.headers["content-type"].startswith("text/html")
    assert "content-security-policy" in answer.headers and answer.headers["retry-after"] == str(RETRY_AFTER)
    answer = Answer()
    await counter(build_scope("/ws/me/", "websocket"), receive, answer)
    assert answer == [{"type": "websocket.close", "code": 4429}]


async def test_requests_that_a_shutdown_interrupts_are_answered_once() -> None:
    talkative, silent = Application(begins=True), Application()
    for application in (talkative, silent):
        task, answer = await open_request(RequestTracker(application), build_scope())
        shutdown.begin()
        task.cancel()
        await task
        if application is talkative:
            assert [message["type"] for message in answer] == ["http.response.start"]
        else:
            assert answer.status == 503 and json.loads(answer.body)["error"]["code"] == "restarting"


async def test_a_socket_that_a_shutdown_interrupts_ends_without_an_answer() -> None:
    task, answer = await open_request(RequestTracker(Application()), build_scope("/ws/me/", "websocket"))
    shutdown.begin()
    task.cancel()
    await task
    assert answer == []


async def test_a_request_that_is_canceled_without_a_shutdown_stays_canceled() -> None:
    task, answer = await open_request(RequestTracker(Application()), build_scope())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert answer == []


async def test_settling_waits_for_open_requests_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application()
    tracker = RequestTracker(application)
    await tracker.settle()  # none is open
    lifespan, _ = await open_request(tracker, build_scope(kind="lifespan"))
    await asyncio.wait_for(tracker.settle(), 1.0)  # that one ends with the server
    task, _ = await open_request(tracker, build_scope())
    monkeypatch.setattr(module, "SETTLE", 0.01)
    await tracker.settle()
    assert not task.done()
    monkeypatch.setattr(module, "SETTLE", 60.0)
    wait = asyncio.create_task(tracker.settle())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not wait.done()
    application.leave.set()
    await asyncio.wait_for(wait, 10.0)
    assert task.done() and not tracker._running
    await lifespan
