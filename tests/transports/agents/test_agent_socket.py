"""Agent sockets: acks after commits, decisions once, and clear words when something is wrong."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.utils import timezone

from tests.support.agents import wait_for_senders
from tests.support.server import PATIENCE
from toolcards import gate
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import Command
from toolcards.models import AgentKey, Approval, Event, Run, ToolCall
from toolcards.transports.agents.agent_socket import AgentSocket
from toolcards.transports.background import connections

pytestmark = pytest.mark.django_db(transaction=True)
ASK = {"default": "ask"}


def ready(call: str = "c", n: int = 0, **value: Any) -> dict[str, Any]:
    frame = {"type": "tool.input.available", "call_id": call, "tool": "bash", "input": value or {"command": "ls"}}
    return {"n": n, **frame} if n else frame


async def test_an_ack_comes_after_the_commit_and_counts_every_frame(agent: Any) -> None:
    async with agent(run="r", mode="observe") as socket:
        await socket.say({"type": "run.started"}, "{broken", {"type": "of.tomorrow"}, [ready(), ready("d")])
        ack = await socket.acked(5)
        assert ack["seq"] == await in_thread(Event.objects.filter(run__name="r").count)()
        assert (await socket.hear("error"))["code"] == "not_json"


async def test_a_lease_that_is_renewed_is_not_acked_like_a_frame(agent: Any) -> None:
    async with agent(run="r", mode="observe") as socket:
        await socket.say(ready())
        await socket.acked(1)
        for connection in connections.connections:
            connection.renew(time.monotonic() + 1_000)
        await asyncio.to_thread(group_commit.WRITER.drain)
        await socket.say(ready("d"))
        assert (await socket.hear("ack"))["frames"] == 2


async def test_a_run_without_a_name_receives_one(agent: Any) -> None:
    async with agent() as socket:
        await socket.say({"type": "run.started"})
        hello = await socket.hear("hello")
        await socket.acked(1)
    assert await Run.objects.filter(name=hello["run"]).aexists()


async def test_a_run_is_named_by_its_first_frame_where_the_protocol_does(agent: Any) -> None:
    async with agent(protocol="ag-ui") as socket:
        await socket.say({"type": "RUN_STARTED", "threadId": "thread-7", "runId": "x"})
        await socket.acked(1)
    assert await Run.objects.filter(name="thread-7").aexists()


async def test_a_frame_sent_again_is_applied_once(agent: Any) -> None:
    frames = [{"n": 1, "type": "tool.input.started", "call_id": "c", "tool": "bash"}]
    frames += [{"n": n, "type": "tool.input.delta", "call_id": "c", "delta": str(n)} for n in (2, 3)]
    async with agent(run="r", mode="observe") as socket:
        await socket.say(*frames)
        await socket.acked(3)
    async with agent(run="r", mode="observe") as socket:
        await socket.say(*frames, {"n": 4, "type": "tool.input.delta", "call_id": "c", "delta": "4"})
        await socket.acked(4)
    assert str((await in_thread(lambda: ToolCall.objects.get().as_card())()).text) == "234"


async def test_a_chunk_of_the_ai_sdks_sockets_sent_again_is_applied_once(agent: Any) -> None:
    """As that transport's own client does: a sequence number of a request that was seen is dropped."""

    def chunk(request: str, sequence: int, **piece: Any) -> dict[str, Any]:
        return {"type": "chunk", "requestId": request, "sequence": sequence, "chunk": piece}

    pieces = [("tool-input-start", {"toolName": "bash"}), *[("tool-input-delta", {"inputTextDelta": n}) for n in "123"]]
    frames = [chunk("r1", n, type=kind, toolCallId="c", **piece) for n, (kind, piece) in enumerate(pieces)]
    async with agent(protocol="ai-sdk", run="r", mode="observe") as socket:
        await socket.say(*frames)
        await socket.acked(4)
    more = chunk("r1", 4, type="tool-input-delta", toolCallId="c", inputTextDelta="4")
    another = chunk("r2", 0, type="tool-input-start", toolCallId="d", toolName="bash")
    async with agent(protocol="ai-sdk", run="r", mode="observe") as socket:
        await socket.say(*frames[1:], more, another)
        await socket.acked(5)
    cards = await in_thread(lambda: {call.call_id: call.as_card() for call in ToolCall.objects.all()})()
    assert (str(cards["c"].text), list(cards)) == ("1234", ["c", "d"])


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"protocol": "morse"}, 4400),
        ({"mode": "watch"}, 4400),
        ({"run": "a\nb"}, 4400),
        ({"run": b"\xff"}, 4400),
        ({"run": "x" * 201}, 4400),
        ({"key": "tck_wrong"}, 4401),
        ({"key": ""}, 4401),
    ],
)
async def test_a_refused_socket_is_closed_with_its_code(agent: Any, query: dict[str, str], code: int) -> None:
    async with agent(**query) as socket:
        assert await socket.await_close_code() == code


async def test_a_key_without_the_scope_is_refused_with_its_code(agent: Any) -> None:
    _, secret = await in_thread(AgentKey.objects.issue)("reader", ("read",))
    async with agent(key=secret) as socket:
        assert await socket.await_close_code() == 4403


async def test_a_key_that_may_not_ask_only_observes(agent: Any) -> None:
    _, secret = await in_thread(AgentKey.objects.issue)("sender", ("ingest",))
    async with agent(key=secret, run="r") as socket:
        await socket.say(ready())
        await socket.acked(1)
    assert (await Run.objects.aget()).mode == "observe"
    async with agent(key=secret, run="r", mode="gate") as socket:
        assert await socket.await_close_code() == 4403


async def test_web_pages_of_others_do_not_connect(agent: Any) -> None:
    async with agent(headers=((b"origin", b"https://evil.example"),)) as socket:
        assert await socket.await_close_code() == 4403


async def test_a_message_beyond_the_limit_closes_the_socket(agent: Any, limits: Any) -> None:
    limits(max_frame=1000)
    async with agent(run="r", mode="observe") as socket:
        await socket.say(ready("before"))
        await socket.acked(1)
        await socket.say(ready(command="é" * 600))
        assert await socket.await_close_code() == 4413
    assert await ToolCall.objects.acount() == 1


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("nonsense", "not_json"),
        ("[1, 2", "not_json"),
        ("[{}] trailing", "not_json"),
        ("7", "not_object"),
        ('{"type": "tool.input.started"}', "missing_field"),
        ('{"type": "tool.input.started", "call_id": 1, "tool": "x"}', "bad_field"),
        ('{"type": "text.delta", "text": "a", "text": "b"}', "duplicate_key"),
        ('{"type": "tool.output.available", "call_id": "c", "output": NaN}', "not_json"),
        ('{"type": "tool.output.available", "call_id": "c", "output": ' + "[" * 200 + "]" * 200 + "}", "too_deep"),
        ('{"type": "tool.output.available", "call_id": "c", "output": ' + "[" * 90_000 + "}", "too_deep"),
        ("[" * 90_000, "too_deep"),
    ],
)
async def test_a_broken_frame_is_named_and_the_socket_stays_open(agent: Any, frame: str, code: str) -> None:
    async with agent(run="r", mode="observe") as socket:
        await socket.say(frame)
        assert (await socket.hear("error"))["code"] == code
        await socket.say(ready())
        await socket.acked(2)
    assert await ToolCall.objects.acount() == 1


async def test_binary_messages_are_refused_and_the_socket_stays_open(agent: Any) -> None:
    async with agent(run="r", mode="observe") as socket:
        await socket.wire.send_to(bytes_data=b"\x00")
        assert (await socket.hear("error"))["code"] == "binary"
        await socket.say(ready())
        await socket.acked(1)


async def test_arguments_beyond_the_limit_are_refused_however_they_come(agent: Any, limits: Any) -> None:
    limits(max_args=100)
    async with agent(run="r", mode="observe") as socket:
        await socket.say({"type": "tool.input.started", "call_id": "c", "tool": "bash"})
        await socket.say(*({"type": "tool.input.delta", "call_id": "c", "delta": "x" * 60} for _ in range(3)))
        await socket.say(ready(command="x" * 200))
        await socket.acked(5)
        assert [(await socket.hear("error"))["code"] for _ in range(3)] == ["too_large"] * 3
    assert len((await in_thread(lambda: ToolCall.objects.get().as_card())()).text) == 60


async def test_a_rule_answers_at_once(agent: Any, policy: Any) -> None:
    await in_thread(policy)({"default": "deny"})
    async with agent(run="r") as socket:
        await socket.say(ready())
        decision = await socket.hear("decision")
    assert (decision["decision"], decision["call_id"], decision["run"]) == ("deny", "c", "r")


async def test_a_persons_answer_comes_once_over_the_socket(
    agent: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)(ASK)
    async with agent(run="r") as socket, agent(run="r") as other:
        await socket.say(ready())
        assert (await socket.hear("decision"))["decision"] == "ask"
        await socket.acked(1)
        await wait_for_senders(2)
        await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
        async with asyncio.timeout(PATIENCE):
            while not (socket.has_news or other.has_news):
                await asyncio.sleep(0.02)
        value, untold = (socket, other) if socket.has_news else (other, socket)  # the one that was first
        decision = await value.hear("decision")
        assert (decision["decision"], decision["by"]["kind"]) == ("allow", "human")
        assert await untold.silent(0.7) and await value.silent(0.1)
    assert (await Approval.objects.aget()).state == "claimed"


async def test_an_answer_given_while_the_agent_was_away_comes_when_it_is_back(
    agent: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)(ASK)
    async with agent(run="r") as socket:
        await socket.say(ready())
        await socket.hear("decision")
    await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "deny")))()
    async with agent(run="r") as socket:
        decision = await socket.hear("decision")
        assert (decision["decision"], decision["reason"]["code"]) == ("deny", "approval_denied")
    async with agent(run="r") as socket:
        await wait_for_senders()
        assert await socket.silent(0.7)


async def test_a_pending_decision_is_sent_once_to_an_agent_that_asks_again(
    agent: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)(ASK)
    async with agent(run="r") as socket:
        await socket.say(ready())
        await socket.hear("decision")
    await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
    async with agent(run="r") as socket:
        await socket.say(ready())
        assert (await socket.hear("decision"))["decision"] == "allow"
        await socket.acked(1)
        assert await socket.silent(0.7)
    assert (await Approval.objects.aget()).state == "claimed"


@pytest.mark.parametrize("answer", ["approve", "deny"])
async def test_an_unsent_decision_is_sent_by_the_next_connection(
    agent: Any, policy: Any, an_approver: Any, ballot: Any, answer: str
) -> None:
    await in_thread(policy)(ASK)
    async with agent(run="r") as socket:
        await socket.say(ready())
        await socket.hear("decision")
    await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), answer)))()
    approval = (await Approval.objects.aget()).id
    assert await gate.aclaim_delivery(approval)
    await gate.arelease_delivery(approval)
    async with agent(run="r") as socket:
        assert (await socket.hear("decision"))["decision"] == ("allow" if answer == "approve" else "deny")


class HeldCommit(Command):
    """A commit that lasts until `may_end`."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def apply(self, tx: Any) -> None:
        self.has_begun.set()
        self.may_end.wait(PATIENCE)


async def test_a_connection_that_closes_during_its_first_commit_takes_no_answer(
    agent: Any, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)(ASK)
    async with agent(run="r") as socket:
        await socket.say(ready())
        await socket.hear("decision")
    await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
    held_commit = HeldCommit()
    group_commit.WRITER.enqueue(held_commit)
    assert await asyncio.to_thread(held_commit.has_begun.wait, PATIENCE)
    async with agent(run="r"):
        async with asyncio.timeout(PATIENCE):
            while not any(connection.stream for connection in connections.connections):
                await asyncio.sleep(0.01)
    held_commit.may_end.set()
    await asyncio.to_thread(group_commit.WRITER.drain)
    async with agent(run="r") as socket:
        assert (await socket.hear("decision"))["decision"] == "allow"


async def test_an_answer_to_the_agents_own_question_goes_out_in_its_own_words(
    agent: Any, an_approver: Any, ballot: Any
) -> None:
    async with agent(run="r", mode="observe") as socket:
        await socket.say(ready(), {"type": "approval.requested", "call_id": "c", "approval_id": "mine"})
        await socket.acked(2)
        await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
        decision = await socket.hear("decision")
    reply = {"type": "approval.responded", "call_id": "c", "approval_id": "mine", "approved": True}
    assert decision["reply"] == reply


async def lease_when(true: Callable[[float], bool]) -> float:
    """Return the seconds that the run has left without its agent, once that is true of them."""
    async with asyncio.timeout(PATIENCE):
        while True:
            until = (await Run.objects.aget()).alive_until
            if until is not None and true(until - time.time()):
                return until - time.time()
            await asyncio.sleep(0.02)


async def test_an_agent_that_returns_within_the_grace_period_continues(agent: Any, limits: Any) -> None:
    limits(grace=1000)
    for text in ("a", "b"):
        async with agent(run="r", mode="observe") as socket:
            await socket.say({"type": "text.delta", "text": text})
            await socket.acked(1)
            await lease_when(lambda seconds: seconds > 1000)  # longer than the grace, and renewed while it is connected
        await lease_when(lambda seconds: seconds <= 1000)
    assert (await Run.objects.aget()).status == "running"


async def test_who_stays_away_is_truncated_after_the_grace(agent: Any, limits: Any) -> None:
    limits(grace=0.3)
    async with agent(run="r", mode="observe") as socket, agent(run="r", mode="observe") as other:
        await socket.say(ready())
        await socket.acked(1)
        await other.wire.disconnect(timeout=PATIENCE)
        await asyncio.sleep(0.8)  # one of the two is still there
        assert (await Run.objects.aget()).status == "running"
    async with asyncio.timeout(PATIENCE):
        while (await Run.objects.aget()).status != "truncated":
            await asyncio.sleep(0.05)
    call = await ToolCall.objects.aget()
    assert json.loads(call.card)["cause"] == "truncated"


async def test_a_revoked_key_closes_its_open_socket(agent: Any, limits: Any) -> None:
    limits(grace=0.4)
    async with agent(run="r") as socket:
        await socket.say({"type": "run.started"})
        await socket.acked(1)
        await in_thread(lambda: AgentKey.objects.all().delete())()
        assert await socket.await_close_code() == 4401


async def test_a_revoked_key_gets_no_answer_and_another_key_of_the_source_does(
    agent: Any, key: AgentKey, policy: Any, an_approver: Any, ballot: Any
) -> None:
    await in_thread(policy)({"default": "ask"})
    another = (await in_thread(AgentKey.objects.issue)(key.source.name))[1]
    async with agent(run="r") as socket:
        await socket.say(ready())
        assert (await socket.hear("decision"))["decision"] == "ask"
        await in_thread(lambda: AgentKey.objects.filter(pk=key.pk).update(revoked_at=timezone.now()))()
        await in_thread(lambda: gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve")))()
        messages = []
        while (output := await socket.wire.receive_output(PATIENCE))["type"] != "websocket.close":
            messages.append(json.loads(output["text"]).get("decision"))
        assert output["code"] == 4401 and "allow" not in messages
    assert (await Approval.objects.aget()).state == "approved"
    async with agent(run="r", key=another) as socket:
        await socket.say(ready("other"))
        assert {(await socket.hear("decision"))["call_id"] for _ in range(2)} == {"c", "other"}
    assert (await Approval.objects.aget(call__call_id="c")).state == "claimed"


# ---------------------------------------------------------------- floods


class Flood:
    """A connection whose messages have all arrived; counts the turns of others while they are read."""

    def __init__(self, secret: str, *messages: dict[str, Any]) -> None:
        self.turns = self.waiting = 0
        self.messages: list[dict[str, Any]] = []
        self._messages = iter([{"type": "websocket.connect"}, *messages, {"type": "websocket.disconnect"}])
        headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {secret}".encode())]
        self._scope = {
            "type": "websocket", "path": "/ws/agent/", "headers": headers,
            "query_string": b"protocol=native&run=r&mode=observe",
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        self._socket = AgentSocket()

    async def run(self) -> None:
        others = asyncio.ensure_future(self._count())
        await asyncio.wait_for(self._socket(self._scope, self._receive, self.send), PATIENCE)
        others.cancel()

    async def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    async def _receive(self) -> dict[str, Any]:
        message = next(self._messages)
        if message["type"] == "websocket.disconnect":
            self.turns_at_end = self.turns
            count = -1
            while count < len(self.messages):  # until all answers are out
                count = len(self.messages)
                await asyncio.sleep(0.01)
        return message

    async def _count(self) -> None:
        while True:
            if hasattr(self._socket, "_intake"):
                self.turns += 1
                self.waiting = max(self.waiting, len(self._socket._outbox))
            await asyncio.sleep(0)


TEXT = '{"type":"text.delta","text":"x"}'


@pytest.mark.slow
@pytest.mark.parametrize("text", [TEXT, f"[{TEXT}]", f" {TEXT}"])
@pytest.mark.parametrize("bundle", [1, 500])
async def test_a_flood_of_messages_leaves_turns_to_others(secret: str, text: str, bundle: int) -> None:
    texts = [text] * 3_000
    messages = [{"type": "websocket.receive", "text": text} for text in texts]
    if bundle > 1:
        starts = range(0, len(texts), bundle)
        messages = [{"type": "websocket.receive", "texts": texts[start : start + bundle]} for start in starts]
    flood = Flood(secret, *messages)
    await flood.run()
    assert flood.turns_at_end >= 6
    await asyncio.to_thread(gate.drain, PATIENCE)
    assert await Event.objects.filter(run__name="r").acount() == 3_001


@pytest.mark.slow
async def test_errors_wait_for_a_client_that_does_not_read(secret: str) -> None:
    array = "[" + ",".join(["{}"] * 20_000) + "]"
    flood = Flood(secret, {"type": "websocket.receive", "text": array})
    flood.send = sleepy(flood.send)  # type: ignore[method-assign]
    await flood.run()
    assert sum(b"missing_field" in message.get("text", "").encode() for message in flood.messages) == 20_000
    assert flood.waiting < 2_000


def sleepy(send: Callable[..., Any]) -> Callable[..., Any]:
    async def send_late(message: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        await send(message)

    return send_late
