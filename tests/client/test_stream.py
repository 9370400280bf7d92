"""A run's frames survive lost connections: unacknowledged ones come again with their number, none after its ack."""

import asyncio
import contextlib
import json

import pytest
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from tests.support.server import PATIENCE
from toolcards.client import Denied, Toolcards, stream
from toolcards.client.common.canonical_json import call_digest, digest


class Script:
    """A server that does what the test says, one function per connection, and writes down the frames it got."""

    def __init__(self, *connections):
        self.connections, self.messages = list(connections), []

    async def __call__(self, socket):
        behave = self.connections.pop(0) if len(self.connections) > 1 else self.connections[0]
        with contextlib.suppress(ConnectionClosed):
            await behave(self, socket)

    async def frames(self, socket, expected):
        messages = []
        while len(messages) < expected:
            message = json.loads(await socket.recv())
            messages += message if isinstance(message, list) else [message]
        self.messages += messages
        return messages


async def ack_all(script, socket):
    count = 0
    while True:
        for frame in await script.frames(socket, 1):
            count += 1
            await socket.send(json.dumps({"type": "ack", "seq": count, "frames": count}))
            if frame["type"] == "tool.input.available":
                await decide(socket, frame["call_id"], "allow", frame["input"])


async def decide(socket, call_id, decision, input_value, **more):
    binding = {
        "run": "r1", "call_id": call_id, "attempt": 1, "tool": {"name": "bash", "source": ""},
        "args_sha256": digest(input_value), "call_sha256": call_digest(input_value, name="bash"),
    }  # fmt: skip
    await socket.send(json.dumps({"type": "decision", "decision": decision, **binding, **more}))


@contextlib.asynccontextmanager
async def playing(script, **options):
    async with serve(script, "127.0.0.1", 0) as server:
        cards = Toolcards(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "key")
        async with asyncio.timeout(PATIENCE), cards.run("r1", **options) as run:
            yield run


async def test_frames_are_numbered_from_one_and_the_run_ends():
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


async def test_what_was_not_acknowledged_comes_again_with_its_number():
    async def one_ack_then_gone(script, socket):
        await script.frames(socket, 3)
        await socket.send('{"type":"ack","seq":1,"frames":1}')
        await socket.close()

    script = Script(one_ack_then_gone, ack_all)
    async with playing(script) as run:
        run.text("a")
        run.text("b")
        await run.flushed()
    assert [f["n"] for f in script.messages] == [1, 2, 3, 2, 3, 4]


async def test_a_lost_decision_is_asked_for_again():
    async def committed_but_untold(script, socket):
        await script.frames(socket, 3)
        await socket.send('{"type":"ack","seq":3,"frames":3}')
        await socket.close()

    script = Script(committed_but_untold, ack_all)
    async with playing(script) as run:
        assert await run.call("bash", "c1").allowed({"command": "ls"}) == {"command": "ls"}
    again = [f for f in script.messages if f["type"] == "tool.input.available"]
    assert [f["n"] for f in again] == [3, 4]


async def test_a_question_is_no_answer():
    async def asks_then_denies(script, socket):
        await script.frames(socket, 3)
        await decide(socket, "c1", "ask", {"command": "rm -r /"}, approval={"id": "apr_1"})
        await asyncio.sleep(0.05)
        declined = {"code": "approval_denied", "text": "A person declined."}
        await decide(socket, "c1", "deny", {"command": "rm -r /"}, reason=declined)
        await ack_all(script, socket)

    async with playing(Script(asks_then_denies), linger=0.1) as run:
        with pytest.raises(Denied, match="A person declined"):
            await run.call("bash", "c1").allowed({"command": "rm -r /"})


async def test_edited_arguments_are_the_ones_to_run():
    async def edits(script, socket):
        await script.frames(socket, 3)
        await decide(socket, "c1", "allow", {"command": "ls -l"}, args={"command": "ls -l"})
        await ack_all(script, socket)

    async with playing(Script(edits), linger=0.1) as run:
        assert await run.call("bash", "c1").allowed({"command": "rm"}) == {"command": "ls -l"}


@pytest.mark.parametrize("value", [{"decision": "sure"}, {"decision": None}, {}])
async def test_an_unknown_decision_denies(value):
    async def odd(script, socket):
        await script.frames(socket, 3)
        await socket.send(json.dumps({"type": "decision", "run": "r1", "call_id": "c1", **value}))
        await ack_all(script, socket)

    async with playing(Script(odd), linger=0.1) as run:
        with pytest.raises(Denied):
            await run.call("bash", "c1").allowed({})


async def test_a_refused_key_denies_what_waits_and_what_comes():
    async def refuse_key(script, socket):
        await socket.close(4401, "no such key")

    async with playing(Script(refuse_key)) as run:
        for call in ("c1", "c2"):
            with pytest.raises(Denied, match="no such key"):
                await run.call("bash", call).allowed({})


async def test_an_answer_that_never_comes_is_a_deny():
    async def silent(script, socket):
        await socket.wait_closed()

    async with playing(Script(silent), linger=0.1) as run:
        with pytest.raises(Denied, match="in time"):
            await run.call("bash", "c1").allowed({}, seconds=0.1)


async def test_an_exception_ends_the_run_as_an_error():
    script = Script(ack_all)
    with pytest.raises(KeyError):
        async with playing(script):
            raise KeyError("oops")
    assert (script.messages[-1]["type"], script.messages[-1]["outcome"]) == ("run.finished", "error")


async def test_many_frames_share_messages():
    script = Script(ack_all)
    async with playing(script) as run:
        for number in range(1000):
            run.text(str(number))
        await run.flushed()
    assert [f["n"] for f in script.messages] == list(range(1, 1003))
    assert stream.BATCH > 1
