"""Agent loops of one's own, with plain functions as tools."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import gating
from tests.support.server import Server
from toolcards.client import Toolcards
from toolcards.client.plain import Tools

pytestmark = pytest.mark.slow


def states(server: Server, run: str) -> dict[str, str]:
    return {name: call["state"] for name, call in gating.calls(server, run).items()}


def bash(command: str) -> str:
    if command == "exit 1":
        raise OSError("")
    return f"ran {command}"


async def abash(command: str) -> str:
    return bash(command)


@pytest.mark.parametrize("function", [bash, abash])
async def test_a_loop_of_ones_own(ruled: Server, cards: Toolcards, run: str, function: Any) -> None:
    tools = Tools({"bash": function})
    expected = {
        "c1": ("bash", '{"command": "exit 0"}', "output-available", "ran exit 0"),
        "c2": ("bash", {"command": "exit 1"}, "output-error", "OSError: "),
        "c3": ("bash", {"command": "echo forbidden"}, "output-denied", "Not run: "),
        "c4": ("nothing", {}, "output-error", "there is no tool"),
        "c5": ("bash", '{"command', "output-error", "does not match"),
        "c6": ("bash", {"cmd": 1}, "output-error", "does not match"),
    }
    async with cards.run(run):
        answers = {name: await tools.acall(tool, args, name) for name, (tool, args, *_) in expected.items()}
    assert {name: answer.state for name, answer in answers.items()} == {n: w[2] for n, w in expected.items()}
    assert all(w[3] in answers[name].text for name, w in expected.items()), answers
    assert states(ruled, run) == {name: w[2] for name, w in expected.items()}


def test_a_plain_loop_of_ones_own(ruled: Server, cards: Toolcards, run: str) -> None:
    tools = Tools([bash])
    assert "No Toolcards run is open" in tools.call("bash", {"command": "exit 0"}, "c0").text
    with cards.run(run):
        assert tools.call("bash", {"command": "exit 0"}, "c1").ok
        assert tools.call("bash", {"command": "echo forbidden"}, "c2").state == "output-denied"
    assert states(ruled, run) == {"c1": "output-available", "c2": "output-denied"}
