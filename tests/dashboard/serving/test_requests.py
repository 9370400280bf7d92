"""Requests of the process: unknown peers are counted, and a shutdown answers and awaits what is open."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from dashboard.serving import requests as module
from dashboard.serving.peers import RETRY_AFTER, Peer
from dashboard.serving.requests import PeerCounter, RequestTracker
from toolcards.transports import shutdown
from toolcards.transports.api.admission import LINE

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
