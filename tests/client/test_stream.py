"""A run over its socket: its frames, its end, and the decisions that its calls wait for."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from tests.support.scripted_socket import Script, ack_all, decide, serve_script
from tests.support.server import PATIENCE
from toolcards.client import Denied, Run, Toolcards, stream


@contextlib.asynccontextmanager
async def playing(script: Script, **options: Any) -> AsyncIterator[Run]:
    async with (
        serve_script(script) as url,
        asyncio.timeout(PATIENCE),
        Toolcards(url, "key").run("r1", **options) as run,
    ):
        yield run


async def test_frames_are_numbered_from_one_and_the_run_ends() -> None:
    script = Script(ack_all)
    async with playing(script, agent="scribe", title="Notes") as run:
        run.text("hello")
    assert [(f["n"], f["type"]) for f in script.messages] == [
        (1, "run.started"),
        (2, "text.delta"),
        (3, "run.finished"),
    ]
    assert script.messages[0] == {"n": 1, "type": "run.started", "agent": "scribe", "title": "Notes"}
    assert script.messages[-1]["outcome"] == "success"


async def test_a_question_is_no_answer() -> None:
    async def asks_then_denies(script: Script, socket: ServerConnection) -> None:
        await script.frames(socket, 3)
        await decide(socket, "c1", "ask", {"command": "rm -r /"}, approval={"id": "apr_1"})
        await asyncio.sleep(0.05)
        declined = {"code": "approval_denied", "text": "A person declined."}
        await decide(socket, "c1", "deny", {"command": "rm -r /"}, reason=declined)
        await ack_all(script, socket)

    async with playing(Script(asks_then_denies), linger=0.1) as run:
        with pytest.raises(Denied, match="A person declined"):
            await run.call("bash", "c1").allowed({"command": "rm -r /"})


async def test_edited_arguments_are_the_ones_to_run() -> None:
    async def edits(script: Script, socket: ServerConnection) -> None:
        await script.frames(socket, 3)
        await decide(socket, "c1", "allow", {"command": "ls -l"}, args={"command": "ls -l"})
        await ack_all(script, socket)

    async with playing(Script(edits), linger=0.1) as run:
        assert await run.call("bash", "c1").allowed({"command": "rm"}) == {"command": "ls -l"}


@pytest.mark.parametrize("value", [{"decision": "sure"}, {"decision": None}, {}])
async def test_an_unknown_decision_denies(value: dict[str, Any]) -> None:
    async def odd(script: Script, socket: ServerConnection) -> None:
        await script.frames(socket, 3)
        await socket.send(json.dumps({"type": "decision", "run": "r1", "call_id": "c1", **value}))
        await ack_all(script, socket)

    async with playing(Script(odd), linger=0.1) as run:
        with pytest.raises(Denied):
            await run.call("bash", "c1").allowed({})


async def test_a_refused_key_denies_what_waits_and_what_comes() -> None:
    async def refuse_key(script: Script, socket: ServerConnection) -> None:
        await socket.close(4401, "no such key")

    async with playing(Script(refuse_key)) as run:
        for call in ("c1", "c2"):
            with pytest.raises(Denied, match="no such key"):
                await run.call("bash", call).allowed({})


async def test_an_answer_that_never_comes_is_a_deny() -> None:
    async def silent(script: Script, socket: ServerConnection) -> None:
        await socket.wait_closed()

    async with playing(Script(silent), linger=0.1) as run:
        with pytest.raises(Denied, match="in time"):
            await run.call("bash", "c1").allowed({}, seconds=0.1)


async def test_an_exception_ends_the_run_as_an_error() -> None:
    script = Script(ack_all)
    with pytest.raises(KeyError):
        async with playing(script):
            raise KeyError("oops")
    assert (script.messages[-1]["type"], script.messages[-1]["outcome"]) == ("run.finished", "error")


async def test_many_frames_share_messages() -> None:
    script = Script(ack_all)
    async with playing(script) as run:
        for number in range(1000):
            run.text(str(number))
        await run.flushed()
    assert [f["n"] for f in script.messages] == list(range(1, 1003))
    assert stream.BATCH > 1
