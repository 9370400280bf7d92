"""What the agent programs of these tests share: tools, scripts of models, and a loop that plays the scenarios.

A program reads one JSON line {"scenario", "run", "mode"} and answers with one line: what ran, what the model saw.
It runs where the agent libraries are installed, so nothing of the tests is imported here.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

from toolcards.client import Toolcards, hooks

RAN: list[list[Any]] = []  # the tools that really ran, with their arguments
BEGAN = threading.Event()  # a tool that takes its time has begun
OFFLINE = float(os.environ.get("OFFLINE", "60"))  # seconds without a server; 15 for everybody else
Call = tuple[str, str, Any]  # id, tool, arguments (text where they are no JSON)

# Turns of the model: calls, then a last word.
SCRIPTS: dict[str, list[list[Call]]] = {
    "success": [[("call_a", "get_weather", {"city": "Paris"})]],
    "error": [[("call_b", "fail", {"message": "disk on fire"})]],
    "empty": [[("call_c", "fail", {"message": ""})]],
    "unknown": [[("call_d", "no_such_tool", {"x": 1})]],
    "invalid": [[("call_e", "get_weather", {"town": 42})]],
    "broken": [[("call_f", "get_weather", "{city: Paris")]],
    "cut": [[("call_f", "get_weather", '{"city": "Par')]],
    "deny": [[("call_g", "delete_file", {"path": "/forbidden/a"})]],
    "ask": [[("call_h", "delete_file", {"path": "/ask/a"})]],
    "deferred": [[("call_da", "later", {"path": "/ask/a"}), ("call_db", "later", {"path": "/b"})]],
    "deferred-brought": [[("call_da", "later", {"path": "/ask/a"}), ("call_db", "later", {"path": "/b"})]],
    "shapes": [[("call_pa", "picky", {"path": "/a"}), ("call_sa", "shot", {"path": "/a"})]],
    "commands": [[("call_ca", "hand_over", {"status": "success"}), ("call_cb", "hand_over", {"status": "error"})]],
    "own": [[("call_i", "drop_table", {"name": "ask_users"})]],
    "team": [[("call_w", "team", {"input": "SCENARIO:own"})]],
    "own-deny": [[("call_j", "drop_table", {"name": "forbidden_users"})]],
    "question": [[("call_x", "ask_user", {"question": "Which city?", "options": ["Paris", "Rome"]})]],
    "question-abort": [[("call_aa", "ask_user", {"question": "Which city?"})]],
    "questions": [[("call_y", "ask_user", {"question": "Name?"}), ("call_z", "drop_table", {"name": "ask_b"})]],
    "parallel": [
        [
            ("call_k", "slow", {"ms": 120}),
            ("call_l", "fail", {"message": "boom"}),
            ("call_m", "delete_file", {"path": "/forbidden/b"}),
            ("call_n", "slow", {"ms": 10}),
        ]
    ],
    "abort": [[("call_o", "slow", {"ms": 60_000})]],
    "deadline": [[("call_s", "slow", {"ms": 60_000})]],
    "own-deadline": [[("call_t", "hurried", {"ms": 60_000})]],
    "cancel": [[("call_r", "slow", {"ms": 60_000})]],
    "abort-asking": [[("call_p", "delete_file", {"path": "/ask/b"})]],
    "same-id": [[("call_u", "get_weather", {"city": "Rome"}), ("call_u", "delete_file", {"path": "/forbidden/c"})]],
    "nested": [[("call_v", "delegate", {"task": "tidy"})]],
    "inner": [[("call_v", "delete_file", {"path": "/forbidden/d"}), ("call_w", "get_weather", {"city": "Bern"})]],
    "twice": [[("call_q", "get_weather", {"city": "Rome"})], [("call_q", "get_weather", {"city": "Oslo"})]],
}


async def get_weather(city: str) -> dict[str, Any]:
    """Tell the weather."""
    RAN.append(["get_weather", city])
    return {"city": city, "temp": 21}


async def fail(message: str) -> str:
    """Fail."""
    RAN.append(["fail", message])
    raise ConnectionRefusedError(message)


async def slow(ms: int) -> dict[str, Any]:
    """Take some time."""
    BEGAN.set()
    await asyncio.sleep(ms / 1000)
    RAN.append(["slow", ms])
    return {"slept": ms}


async def hurried(ms: int) -> str:
    """Take too much time by its own measure."""
    await asyncio.wait_for(asyncio.sleep(ms / 1000), 0.01)
    return "never"


async def delete_file(path: str) -> dict[str, Any]:
    """Delete a file."""
    RAN.append(["delete_file", path])
    return {"deleted": path}


async def drop_table(name: str) -> dict[str, Any]:
    """Drop a table; the app itself wants a person to approve this."""
    RAN.append(["drop_table", name])
    return {"dropped": name}


async def ask_user(question: str, options: list[str] | None = None) -> str:
    """Ask the user; the answer comes from the pause, so this never runs."""
    RAN.append(["ask_user", question])
    return "no answer"


INNER: list[Any] = []  # what plays `inner` as a sub-agent of the same run; each program puts its own here


async def delegate(task: str) -> str:
    """Let a sub-agent do it."""
    RAN.append(["delegate", task])
    await INNER[-1]()
    return "done"


class Ears:
    """A plugin that writes down what it hears: the call, the event and, where it is over, how it came out."""

    def __init__(self) -> None:
        self.events: list[list[str]] = []

    def before(self, call: dict[str, Any]) -> None:
        """Hear of it."""
        self.events.append([call["call_id"], call["event"].rpartition(".")[2], call.get("outcome", "")])

    after = error = settled = before


async def within(payload: dict[str, Any], going: Any) -> Any:
    """Wait for the agent; in the scenario of that name no longer than until its tool has begun."""
    if payload["scenario"] != "deadline":
        return await going
    work = asyncio.ensure_future(going)
    while not BEGAN.is_set() and not work.done():
        await asyncio.sleep(0.05)
    return await asyncio.wait_for(work, 0.01)


def pieces(args: Any) -> list[str]:
    """Return the arguments as the model streams them."""
    text = args if isinstance(args, str) else json.dumps(args)
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def serve(play: Any) -> None:
    """Play what each line of standard input asks for."""
    cards, ears = Toolcards(os.environ["TOOLCARDS_URL"], os.environ["TOOLCARDS_AGENT_KEY"]), Ears()
    hooks.register(ears)
    for line in sys.stdin:
        payload = json.loads(line)
        RAN.clear()
        BEGAN.clear()
        ears.events = []
        fields: dict[str, Any] = {"saw": {}, "error": ""}
        try:
            asyncio.run(_played(play, cards, payload, fields))
        except BaseException as error:
            fields["error"] = f"{type(error).__name__}: {error}"
        hooks.drain()
        print(json.dumps(fields | {"ran": RAN, "heard": ears.events}, default=repr), flush=True)


async def _played(play: Any, cards: Toolcards, payload: dict[str, Any], fields: dict[str, Any]) -> None:
    """Play a scenario. One that aborts is cancelled from outside, in its tool or at our request, as a person would."""
    playing = asyncio.ensure_future(play(cards, payload, fields))
    if payload["scenario"] == "abort":
        while not BEGAN.is_set() and not playing.done():
            await asyncio.sleep(0.05)
        playing.cancel()
    elif payload["scenario"] in {"abort-asking", "question-abort"}:
        await asyncio.to_thread(sys.stdin.readline)
        playing.cancel()
    await playing
