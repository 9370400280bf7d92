"""Gated functions: they wait for a person, take their question back, and report their errors."""

from __future__ import annotations

import asyncio

import pytest

from tests.support import gating
from tests.support.server import PATIENCE, Server, until
from toolcards.client import Denied, Toolcards, gated

pytestmark = pytest.mark.slow


def states(server: Server, run: str) -> dict[str, str]:
    return {name: call["state"] for name, call in gating.calls(server, run).items()}


async def test_an_async_function_waits_for_a_person(ruled: Server, cards: Toolcards, run: str) -> None:
    ran: list[str] = []

    @gated(cards, run=run, tool="bash", seconds=PATIENCE)
    async def execute(command: str) -> str:
        ran.append(command)
        return "done"

    task = asyncio.create_task(execute("echo ask"))
    await asyncio.to_thread(gating.vote, ruled, run, "edit", edited={"command": "echo other"})
    assert (await task, ran) == ("done", ["echo other"])
    with pytest.raises(Denied, match="Not allowed here"):
        await execute("echo forbidden")
    assert sorted(states(ruled, run).values()) == ["output-available", "output-denied"]


async def test_a_cancelled_function_takes_its_question_back(ruled: Server, cards: Toolcards, run: str) -> None:
    @gated(cards, run=run, tool="bash")
    async def execute(command: str) -> str:
        raise AssertionError("it ran")

    task = asyncio.create_task(execute("echo ask"))
    await asyncio.to_thread(gating.waiting, ruled, run)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(until, lambda: set(states(ruled, run).values()) == {"output-error"})


def test_a_functions_error_is_classified(ruled: Server, cards: Toolcards, run: str) -> None:
    @gated(cards, run=run, tool="fetch")
    def fetch(url: str) -> str:
        raise ConnectionRefusedError("nobody there")

    with pytest.raises(ConnectionRefusedError):
        fetch("http://example.invalid")
    (card,) = gating.calls(ruled, run).values()
    assert (card["error"]["code"], card["error"]["retryable"]) == ("connect_failed", True)
