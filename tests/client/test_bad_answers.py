"""No client of ours runs anything on an answer of the table, nor without one; on an honest answer each does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.bad_answers import BRIEF, BadAnswer, make_tamper, rows
from tests.support.fake_gate import Answer, Gate
from tests.support.server import PATIENCE, until
from tests.support.silent_server import Hole
from tests.support.tables import loop_over
from toolcards.client import Denied, Toolcards, gate_client, gated
from toolcards.client.decisions import approval_wait
from toolcards.client.plain import Tools

pytestmark = pytest.mark.slow
ARGS = {"command": "ls"}
Client = Callable[[Toolcards], list[Any]]


def ask(cards: Toolcards) -> list[Any]:
    decision = cards.ask("r1", "c1", "bash", ARGS, seconds=PATIENCE)
    return [decision.args] if decision.allowed else []


def aask(cards: Toolcards) -> list[Any]:
    result = asyncio.run(cards.aask("r1", "c1", "bash", ARGS, seconds=PATIENCE))
    return [result.args] if result.allowed else []


def function(cards: Toolcards) -> list[Any]:
    ran: list[Any] = []

    def bash(command: str) -> None:
        ran.append({"command": command})

    try:
        gated(cards, run="r1", seconds=PATIENCE)(bash)("ls")
    except Denied:
        return ran
    return ran


CLIENTS: dict[str, Client] = {"ask": ask, "aask": aask, "gated": function}


def ran(client: Client, row: BadAnswer | None, stage: str, **more: Any) -> list[Any]:
    effects = {"bash": "ask" if stage == "poll" else "allow"}
    with Gate(effects, tamper=make_tamper(row, stage)) as gate:
        result = client(Toolcards(gate.url, "key", timeout=PATIENCE, **more))
        assert stage in gate.stages()  # else nothing bad was said
        return result


def ran_in_a_hurry(client: Client, row: BadAnswer, stage: str) -> list[Any]:
    """Give little time to the requests at this stage, and to none before: those get honest answers."""
    tamper, stage_before = make_tamper(row, stage), "end" if stage == "decide" else "decide"
    with Gate({"bash": "ask" if stage == "poll" else "allow"}) as gate:
        cards = Toolcards(gate.url, "key", timeout=PATIENCE)

        def hurry(now: str, honest: Any) -> Answer | None:
            if now == stage_before:
                cards.timeout = 0.4
            return tamper(now, honest)

        gate.tamper = hurry
        assert cards.end("r0")  # the next request finds an open connection
        result = client(cards)
        until(lambda: stage in gate.stages())  # else nothing bad was said
        return result


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that gets no usable answer is tried again, for two minutes: here for the time of a few tries."""
    monkeypatch.setattr(approval_wait, "ASKED_PATIENCE", 0.05)
    monkeypatch.setattr(gate_client, "PAUSE", 0.01)
    monkeypatch.setattr(approval_wait, "POLL", 0.2)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("stage", ["decide", "poll"])
@pytest.mark.parametrize("keep_alive", [True, False])
def test_a_correct_gate_is_trusted(client: str, stage: str, keep_alive: bool) -> None:
    assert ran(CLIENTS[client], None, stage, keep_alive=keep_alive) == [ARGS]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("row", "stage"), rows("decide", "poll", "claim", table=BRIEF), ids=str)
def test_a_correct_gate_with_fewer_fields_is_trusted(client: str, row: BadAnswer, stage: str) -> None:
    assert ran(CLIENTS[client], row, stage) == [ARGS]


@pytest.mark.parametrize(
    ("client", "keep_alive"),
    [
        ("ask", True),
        *(pytest.param(*each, marks=pytest.mark.clients) for each in [("ask", False), ("aask", True), ("gated", True)]),
    ],
    ids=str,
)
@loop_over(("row", "stage"), rows("decide", "poll", "claim"), ids=str)
def test_nothing_runs_on_a_bad_answer(client: str, row: BadAnswer, stage: str, keep_alive: bool) -> None:
    assert ran(CLIENTS[client], row, stage, keep_alive=keep_alive) == []


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("row", "stage"), rows("decide", "poll", "claim", sooner=True), ids=str)
def test_nothing_runs_and_waiting_ends_on_an_answer_that_does_not_end(client: str, row: BadAnswer, stage: str) -> None:
    assert ran_in_a_hurry(CLIENTS[client], row, stage) == []


# ---------------------------------------------------------------- over a socket


def over_socket(url: str, patience: float, connecting: float = 0) -> list[Any]:
    with Toolcards(url, "key").run("r1", offline=patience / 2, linger=0.2) as run:
        assert not connecting or run.flush(connecting)
        result = run.call("bash", "c1").decision_now(ARGS, seconds=patience)
        return [ARGS] if result.allowed else []


def over_socket_awaited(url: str, patience: float, connecting: float = 0) -> list[Any]:
    async def work() -> list[Any]:
        async with Toolcards(url, "key").run("r1", offline=patience / 2, linger=0.2) as run:
            if connecting:
                await asyncio.wait_for(run.flushed(), connecting)
            result = await run.call("bash", "c1").decision(ARGS, seconds=patience)
            return [ARGS] if result.allowed else []

    return asyncio.run(work())


def by_tools(url: str, patience: float, connecting: float = 0) -> list[Any]:
    ran: list[Any] = []
    with Toolcards(url, "key").run("r1", offline=patience / 2, linger=0.2) as run:
        assert not connecting or run.flush(connecting)
        Tools({"bash": lambda command: ran.append({"command": command})}, seconds=patience).call("bash", ARGS, "c1")
    return ran


SOCKETS: dict[str, Callable[..., list[Any]]] = {"call": over_socket, "tools": by_tools, "awaited": over_socket_awaited}
SOON = 0.6


@pytest.mark.parametrize("client", SOCKETS)
@pytest.mark.parametrize("effect", ["allow", "ask"])
def test_a_correct_gate_is_trusted_over_a_socket(client: str, effect: str) -> None:
    with Gate({"bash": effect}) as gate:
        assert SOCKETS[client](gate.url, PATIENCE) == [ARGS]


@pytest.mark.parametrize(("client", "effect"), [
    ("call", "allow"), ("call", "ask"), ("tools", "allow"), ("awaited", "ask"),
])  # fmt: skip
def test_nothing_runs_on_a_bad_message(client: str, effect: str) -> None:
    """At once, or after an honest message that a person is asked. The rows wait side by side."""

    def outcome(row: BadAnswer) -> tuple[str, list[Any], bool]:
        def tamper(stage: str, honest: Any) -> Answer | None:
            return row.make(honest) if stage == "message" and honest["decision"] == "allow" else None

        with Gate({"bash": effect}, tamper=tamper) as gate:
            result = SOCKETS[client](gate.url, SOON, connecting=PATIENCE)
            return row.name, result, "tool.input.available" in gate.stages()

    table = [row for row, _ in rows("message")]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(outcome, table)) == [(row.name, [], True) for row in table]


@pytest.mark.parametrize("client", SOCKETS)
def test_without_a_server_nothing_runs_over_a_socket(client: str) -> None:
    assert SOCKETS[client]("http://127.0.0.1:9", SOON) == []
    with Hole() as hole:
        assert SOCKETS[client](hole.url, SOON) == [] and until(lambda: hole.swallowed)


# ---------------------------------------------------------------- no server


@pytest.mark.parametrize("client", CLIENTS)
def test_without_a_server_nothing_runs(client: str) -> None:
    assert CLIENTS[client](Toolcards("http://127.0.0.1:9", "key", timeout=1)) == []
    with Hole() as hole:
        assert CLIENTS[client](Toolcards(hole.url, "key", timeout=0.3)) == [] and until(lambda: hole.swallowed)
