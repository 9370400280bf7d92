"""The connection of a run: frames and questions outlive it, refusals end it, and no call waits for ever."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from tests.support.fake_gate import GUID
from tests.support.scripted_socket import Script, ack_all, decide, serve_script
from tests.support.server import PATIENCE
from tests.support.tables import loop_over
from toolcards.client import Run, Toolcards
from toolcards.client.decisions.question import CallRequest
from toolcards.client.transport import connection
from toolcards.client.transport.connection import Connection
from toolcards.client.transport.outbox import Outbox
from toolcards.client.transport.pending import Pending, PendingQuestions


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "FIRST_PAUSE", 0.005)
    monkeypatch.setattr(connection, "LONGEST_PAUSE", 0.02)


class Link:
    """A connection with its outbox and questions; `messages` are those that it passes on."""

    def __init__(self, url: str, on_message: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.outbox, self.pending, self.messages = Outbox(), PendingQuestions(), list[dict[str, Any]]()
        self.connection = Connection(
            f"{url}/ws/agent/?run=r1", "key", self.outbox, self.pending, on_message or self.messages.append
        )

    def add(self, *kinds: str, **more: Any) -> None:
        for kind in kinds:
            self.outbox.add({"type": kind, **more})
        self.connection.news.set()

    def ask(self, call_id: str, command: str = "ls") -> Pending:
        """Send a question, as a run does."""
        frame = {"type": "tool.input.available", "call_id": call_id, "tool": "bash", "input": {"command": command}}
        pending = self.pending.add(CallRequest.about("r1", call_id, "bash", frame["input"]), frame)
        self.outbox.add(frame)
        self.connection.news.set()
        return pending

    async def flush(self) -> None:
        while len(self.outbox):
            self.connection.empty.clear()
            await self.connection.empty.wait()


@contextlib.asynccontextmanager
async def linked(url: str, on_message: Callable[[dict[str, Any]], None] | None = None) -> AsyncIterator[Link]:
    link = Link(url, on_message)
    task = asyncio.create_task(link.connection.keep_connected())
    try:
        async with asyncio.timeout(PATIENCE):
            yield link
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def playing(script: Script, **options: Any) -> AsyncIterator[Run]:
    async with (
        serve_script(script) as url,
        asyncio.timeout(PATIENCE),
        Toolcards(url, "key").run("r1", **options) as run,
    ):
        yield run


# ---------------------------------------------------------------- lost connections
async def test_what_was_not_acknowledged_comes_again_with_its_number() -> None:
    async def one_ack_then_gone(script: Script, socket: ServerConnection) -> None:
        await script.frames(socket, 3)
        await socket.send('{"type":"ack","seq":1,"frames":1}')
        await socket.close()

    script = Script(one_ack_then_gone, ack_all)
    async with playing(script) as run:
        run.text("a")
        run.text("b")
        await run.flushed()
    assert [f["n"] for f in script.messages] == [1, 2, 3, 2, 3, 4]


async def test_a_lost_decision_is_asked_for_again() -> None:
    async def committed_but_untold(script: Script, socket: ServerConnection) -> None:
        await script.frames(socket, 3)
        await socket.send('{"type":"ack","seq":3,"frames":3}')
        await socket.close()

    script = Script(committed_but_untold, ack_all)
    async with playing(script) as run:
        assert await run.call("bash", "c1").allowed({"command": "ls"}) == {"command": "ls"}
    again = [f for f in script.messages if f["type"] == "tool.input.available"]
    assert [f["n"] for f in again] == [3, 4]


@loop_over("code", [1000, 1001, 1011, 1012, 4408])
def test_an_end_that_may_pass_is_followed_by_another_connection(code: int) -> None:
    async def end_thrice() -> None:
        async def end(script: Script, socket: ServerConnection) -> None:
            await script.frames(socket, 1)
            await socket.close(code)

        async with serve_script(script := Script(end, end, end, ack_all)) as url, linked(url) as link:
            link.add("a")
            await link.flush()
            assert (link.connection.count, link.connection.dead, link.connection.down_since) == (4, None, None)
        assert [frame["n"] for frame in script.messages] == [1, 1, 1, 1]

    asyncio.run(end_thrice())


async def test_a_server_that_is_not_there_is_tried_until_it_is() -> None:
    async with linked("http://127.0.0.1:9") as link:
        link.add("a")
        while link.connection.down_since is None:
            await asyncio.sleep(0)
        assert "9" in link.connection.trouble and link.connection.dead is None and link.connection.count == 0


async def test_a_server_that_stops_responding_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps the connection open, and answers no ping."""
    monkeypatch.setattr(connection, "PATIENCE", 0.02)
    is_over = asyncio.Event()

    async def open_and_freeze(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = next(line for line in head.splitlines() if line.startswith("Sec-WebSocket-Key")).partition(": ")[2]
        accept = base64.b64encode(hashlib.sha1(f"{key}{GUID}".encode()).digest()).decode()
        upgrade = f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}"
        writer.write(f"HTTP/1.1 101 Switching Protocols\r\n{upgrade}\r\n\r\n".encode())
        await is_over.wait()
        writer.close()

    async with await asyncio.start_server(open_and_freeze, "127.0.0.1", 0) as server:
        async with linked(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as link:
            while link.connection.count < 2:
                await asyncio.sleep(0.001)
            assert link.connection.trouble == "the server stopped responding"
        is_over.set()


async def test_a_pause_ends_with_its_run_also_if_a_call_asks_at_that_moment() -> None:
    """Else the end of the run waits for a connection that continues."""
    link = Link("http://127.0.0.1:9")
    pausing = asyncio.create_task(link.connection._pause(2 * PATIENCE))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    link.connection.hurry.set()
    pausing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pausing


# ---------------------------------------------------------------- refusals
@loop_over("code", [4000, 4400, 4401, 4403, 4404])
def test_a_refusal_of_the_run_ends_it_and_denies_what_waits(code: int) -> None:
    async def refuse() -> None:
        async def close(script: Script, socket: ServerConnection) -> None:
            await script.frames(socket, 1)
            await socket.close(code, "not you")

        async with serve_script(script := Script(close)) as url, linked(url) as link:
            pending = link.ask("c1")
            decision = await pending.answer
            assert (decision.effect, decision.text) == ("deny", "The gate refused this run: not you")
            dead = link.connection.dead
            assert dead is not None and dead.code == code and link.connection.empty.is_set()
        assert script.connection_count == 1

    asyncio.run(refuse())


@loop_over("status", [400, 401, 403, 404])
def test_a_refused_handshake_ends_the_run(status: int) -> None:
    async def refuse() -> None:
        def answer(socket: ServerConnection, request: Any) -> Any:
            return socket.respond(HTTPStatus(status), "no")

        async with serve_script(script := Script(ack_all), process_request=answer) as url, linked(url) as link:
            assert (await link.ask("c1").answer).effect == "deny"
            assert link.connection.dead is not None and link.connection.dead.code == status
        assert script.connection_count == 0

    asyncio.run(refuse())


async def test_a_frame_that_is_too_large_is_dropped_and_denied_and_the_others_arrive() -> None:
    async def refuse_size(script: Script, socket: ServerConnection) -> None:
        await script.frames(socket, 3)
        await socket.close(4413, "A frame has more than 100 bytes.")

    async with serve_script(script := Script(refuse_size, ack_all)) as url, linked(url) as link:
        small = link.ask("c1")
        large, other = link.ask("c2", "x" * 500), link.ask("c3")
        decision = await large.answer
        assert (decision.effect, decision.code) == ("deny", "invalid_args")
        assert "A frame has more than 100 bytes." in decision.text
        while len(link.messages) < 2:
            await asyncio.sleep(0.001)
        assert {message["call_id"] for message in link.messages} == {"c1", "c3"}
        assert not small.answer.done() and not other.answer.done() and link.connection.dead is None
    assert [frame["call_id"] for frame in script.messages if frame["n"] == 2] == ["c2"]  # and never again


async def test_a_size_refusal_of_nothing_ends_the_run() -> None:
    """Else it would connect for ever, without a pause."""

    async def refuse_size(script: Script, socket: ServerConnection) -> None:
        await socket.close(4413, "too large")

    async with serve_script(script := Script(refuse_size)) as url, linked(url) as link:
        link.add("a", "b")
        while link.connection.dead is None:
            await asyncio.sleep(0)
        assert len(link.outbox) == 0 and link.outbox.missed == 2
    assert script.connection_count == 3


async def test_calls_that_wait_are_denied_when_the_server_is_away_for_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ASKED_PATIENCE", 0.05)
    async with linked("http://127.0.0.1:9") as link:
        decision = await link.ask("c1").answer
        assert (decision.effect, decision.code) == ("deny", "gate_error") and "cannot be reached" in decision.text
        assert link.connection.dead is None  # the run continues


async def test_a_fault_of_the_client_itself_ends_the_run_and_lets_no_call_wait() -> None:
    def fail(message: dict[str, Any]) -> None:
        raise KeyError("a bug")

    async with serve_script(script := Script(ack_all)) as url, linked(url, fail) as link:
        decision = await link.ask("c1").answer
        assert decision.effect == "deny" and "KeyError" in decision.text
        assert link.connection.dead is not None and link.connection.dead.code == connection.FAULT
    assert script.connection_count == 1


# ---------------------------------------------------------------- messages
NONSENSE = [
    "", "null", "[]", '"ack"', "5", "{", '{"type":"ack"}', '{"type":"ack","frames":"9"}',
    '{"type":"ack","frames":true}',
    '{"type":"ack","frames":-1}', '{"type":"ack","type":"ack","frames":9}', '{"type":"ack","frames":NaN}',
    '{"type":"ack","frames":9,"x":"\\ud800"}', "[" * 5000,
]  # fmt: skip


async def test_nonsense_of_a_server_acknowledges_nothing_and_ends_nothing() -> None:
    async def talk(script: Script, socket: ServerConnection) -> None:
        await script.frames(socket, 1)
        for text in NONSENSE:
            await socket.send(text)
        await decide(socket, "c1", "deny", {})
        await ack_all(script, socket)

    async with serve_script(script := Script(talk)) as url, linked(url) as link:
        link.add("a")
        while not link.messages:
            await asyncio.sleep(0.001)
        assert len(link.outbox) == 1 and [message["call_id"] for message in link.messages] == ["c1"]
    assert script.connection_count == 1


async def test_messages_are_passed_on_and_acknowledgments_are_not() -> None:
    async def talk(script: Script, socket: ServerConnection) -> None:
        await script.frames(socket, 1)
        for message in ({"type": "ack", "frames": 1}, {"type": "error", "code": "x"}, {}, {"type": 5}):
            await socket.send(json.dumps(message))
        await socket.wait_closed()

    async with serve_script(Script(talk)) as url, linked(url) as link:
        link.add("a")
        await link.connection.empty.wait()
        while len(link.messages) < 3:
            await asyncio.sleep(0.001)
        assert link.messages == [{"type": "error", "code": "x"}, {}, {"type": 5}] and len(link.outbox) == 0


async def test_the_key_is_sent_in_a_header() -> None:
    keys: list[Any] = []

    async def note_key(script: Script, socket: ServerConnection) -> None:
        assert socket.request is not None
        keys.append((socket.request.headers["Authorization"], socket.request.path))
        await ack_all(script, socket)

    async with serve_script(Script(note_key)) as url, linked(url) as link:
        link.add("a")
        await link.flush()
    assert keys == [("Bearer key", "/ws/agent/?run=r1")]


async def test_a_call_that_waits_shortens_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that pauses after an outage is in a hurry once a call asks."""
    monkeypatch.setattr(connection, "FIRST_PAUSE", PATIENCE * 10)
    monkeypatch.setattr(connection, "LONGEST_PAUSE", PATIENCE * 10)
    monkeypatch.setattr(connection, "HURRIED_PAUSE", 0.01)

    async def end(script: Script, socket: ServerConnection) -> None:
        await socket.close(1011)

    async with serve_script(script := Script(end, end, ack_all)) as url, linked(url) as link:
        while link.connection.down_since is None:
            await asyncio.sleep(0.001)
        link.ask("c1")
        link.connection.hurry.set()
        await link.flush()
    assert script.connection_count == 3
