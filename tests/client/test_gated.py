"""Gated functions: they wait for a person, run with what was allowed, and report their errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support import gating
from tests.support.fake_gate import Gate
from tests.support.server import PATIENCE, Server, until
from tests.support.tables import loop_over
from toolcards.client import Denied, Toolcards, gated


def states(server: Server, run: str) -> dict[str, str]:
    return {name: call["state"] for name, call in gating.calls(server, run).items()}


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_functions_error_is_classified(ruled: Server, cards: Toolcards, run: str) -> None:
    @gated(cards, run=run, tool="fetch")
    def fetch(url: str) -> str:
        raise ConnectionRefusedError("nobody there")

    with pytest.raises(ConnectionRefusedError):
        fetch("http://example.invalid")
    (card,) = gating.calls(ruled, run).values()
    assert (card["error"]["code"], card["error"]["retryable"]) == ("connect_failed", True)


# ---------------------------------------------------------------- edits
def move(source: str = "/tmp/a", target: str = "/tmp/b", *more: str, force: bool = False) -> Any:
    """Return all that it got."""
    return source, target, more, force


def erase(path: str, /, count: int = 1, **options: Any) -> Any:
    """Return all that it got."""
    return path, count, options


@loop_over(("function", "args", "edited", "expected"), [
    (move, ("/x",), {"source": "/y", "target": "/z", "more": ["/w"], "force": True}, ("/y", "/z", ("/w",), True)),
    (move, ("/x",), {"target": "/z"}, ("/tmp/a", "/z", (), False)),  # an argument that is gone has its default
    (move, ("/x",), {"more": ["/w"]}, ("/tmp/a", "/tmp/b", ("/w",), False)),
    (move, ("/x", "/y", "/w"), {"source": "/x", "target": "/y"}, ("/x", "/y", (), False)),
    (move, ("/x",), {}, ("/tmp/a", "/tmp/b", (), False)),
    (erase, ("/x",), {"path": "/y", "depth": 3}, ("/y", 1, {"depth": 3})),
])  # fmt: skip
def test_each_argument_of_an_edit_has_its_own_parameter(function: Any, args: Any, edited: Any, expected: Any) -> None:
    with Gate({"bash": "ask"}, edited=edited) as gate:
        guarded = gated(Toolcards(gate.url, "key", timeout=PATIENCE), run="r1", tool="bash")(function)
        assert guarded(*args) == expected


@loop_over(("function", "edited", "message"), [
    (move, {"source": "/x", "target": "/y", "more": "/etc"}, "more"),  # the characters of a text are no arguments
    (move, {"more": {"/w": 1}}, "more"),
    (move, {"nonsense": 1}, "nonsense"),
    (erase, {"count": 2}, "path"),  # and not a path of 2
    (erase, ["/x"], "the whole input"),
])  # fmt: skip
def test_an_edit_that_the_function_cannot_take_does_not_run(function: Any, edited: Any, message: str) -> None:
    with Gate({"bash": "ask"}, edited=edited) as gate:
        guarded = gated(Toolcards(gate.url, "key", timeout=PATIENCE), run="r1", tool="bash")(function)
        with pytest.raises(TypeError, match=message):
            guarded("/x")
        assert gate.requests[-1][0] == "result" and gate.requests[-1][1]["outcome"] == "error"
