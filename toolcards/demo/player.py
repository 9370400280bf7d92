"""Recorded runs, and the player that sends them over the real agent WebSocket, in their own time."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import urlopen

from toolcards.client import ConnectionClosed, Decision, Run, Toolcards
from toolcards.client.transport import websocket

RUNS = Path(__file__).parent / "runs"
TYPING, WORKING = 90, 1_200  # milliseconds before a delta, and before a result
STAGGER = 2.0  # seconds between the agents' first runs
PAUSE = 4.0  # seconds between two runs of an agent
ACK_PATIENCE = 60.0
START_PATIENCE = 4.0  # for a server that is about to start

# Frame types of other protocols that come after a pause.
SLOW = {
    "tool-output-available", "tool-output-error", "tool-output-denied", "abort", "TOOL_CALL_RESULT", "RUN_FINISHED",
    "RUN_ERROR", "finish",
}  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """One recorded run. `ends` names the state of every call at the end; `*` depends on the viewer."""

    file: str
    agent: str
    run: str
    status: str
    ends: dict[str, str]
    protocol: str = "native"
    title: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_gated(self) -> bool:
        """Whether one of its calls waits for a decision."""
        return any("decision" in line for line in self.lines())

    def lines(self) -> list[dict[str, Any]]:
        """Return frames with the milliseconds before them, and waits for decisions."""
        text = (RUNS / self.file).read_text(encoding="utf-8")
        if self.file.endswith(".jsonl"):
            return [json.loads(line) for line in text.splitlines()[1:]]
        frames = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: {")]
        return [{"ms": WORKING if json.loads(f)["type"] in SLOW else TYPING, "text": f} for f in frames]


def _read_native(file: str) -> Recording:
    with (RUNS / file).open(encoding="utf-8") as lines:
        head = json.loads(next(lines))
    expect = head.pop("expect")
    return Recording(file, status=expect["status"], ends=expect["calls"], **head)


def _make_sse(file: str, protocol: str, agent: str, run: str, status: str, **ends: str) -> Recording:
    return Recording(file, agent, run, status, ends, protocol=protocol)


# One list per agent: an agent plays its runs one after another, the agents play at the same time.
AGENTS: list[list[Recording]] = [
    [_read_native("fix-checkout.jsonl")],
    [_read_native("refactor-billing.jsonl")],
    [_read_native("triage-tests.jsonl")],
    [
        _make_sse("ai-sdk-parallel.sse", "ai-sdk", "shop-assistant", "Where is my order?", "finished",
             call_h1="output-available", call_h2="output-error", call_h3="output-available"),
        _make_sse("ai-sdk-repaired.sse", "ai-sdk", "shop-assistant", "Find a rain jacket", "finished",
             call_d2="output-available"),
        _make_sse("ai-sdk-denied.sse", "ai-sdk", "shop-assistant", "Refund an order", "finished",
             call_g2="output-denied"),
        _make_sse("ai-sdk-aborted.sse", "ai-sdk", "shop-assistant", "Export the orders of a year", "aborted",
             call_i3="output-error"),
    ],
    [
        _make_sse("ag-ui-steps.sse", "ag-ui", "travel-desk", "Plan a trip to Paris", "finished",
             call_j1="output-available", call_j2="output-available"),
        _make_sse("ag-ui-empty-error.sse", "ag-ui", "travel-desk", "Book a hotel", "error", call_c1="output-error"),
    ],
]  # fmt: skip


class PlayRefused(Exception):
    """The server refused the recording; the message gives the reason."""


@dataclass
class Player:
    """Plays all agents at once. `say` gets progress lines; `speed` 2 is twice as fast as recorded."""

    url: str
    key: str
    say: Callable[[str], None]
    speed: float = 1.0
    rounds: int = 1
    suffix: str = field(default_factory=lambda: secrets.token_hex(2))
    began: float = field(default_factory=time.monotonic)

    async def play(self) -> None:
        """Play every agent's runs, `rounds` times.

        Raises PlayRefused without a server, or for a refused key.
        """
        await asyncio.to_thread(self._wait_for_server)
        try:
            async with asyncio.TaskGroup() as group:
                for number, recordings in enumerate(AGENTS):
                    group.create_task(self._play_agent(recordings, number * STAGGER))
        except BaseExceptionGroup as group_error:
            # Not `except*`: before Python 3.11.4 an exception raised inside it becomes a group.
            refusals = group_error.subgroup(PlayRefused)
            raise _find_first(refusals or group_error) from group_error

    def _wait_for_server(self) -> None:
        deadline, problem = time.monotonic() + START_PATIENCE, ""
        while time.monotonic() < deadline:
            try:
                with urlopen(f"{self.url}/healthz", timeout=START_PATIENCE):  # noqa: S310 - the address we play into
                    return
            except HTTPError:
                return  # it answers; whether it accepts us is checked later
            except (OSError, ValueError) as error:
                problem = str(getattr(error, "reason", error))
                time.sleep(0.25)
        raise PlayRefused(f"cannot reach a server at {self.url} ({problem})")

    def name(self, recording: Recording, number: int) -> str:
        """Return the run's name, new for each play."""
        joint = " · " if " " in recording.run else "-"
        return f"{recording.run}{joint}{self.suffix}" + (f"-{number + 1}" if number else "")

    async def _play_agent(self, recordings: list[Recording], start: float) -> None:
        await self._pause(start)
        for number in range(self.rounds):
            for recording in recordings:
                play = self._play_native if recording.protocol == "native" else self._play_foreign
                self._report(recording, f"begins {self.name(recording, number)} ({recording.protocol})")
                await play(recording, self.name(recording, number))
                await self._pause(PAUSE)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.speed)

    def _report(self, recording: Recording, text: str) -> None:
        self.say(f"{time.monotonic() - self.began:6.1f} s  {recording.agent:16} {text}")

    # ------------------------------------------------------------ native: through the client

    async def _play_native(self, recording: Recording, name: str) -> None:
        cards = Toolcards(self.url, self.key)
        options = {"agent": recording.agent, "title": recording.title, "tools": recording.tools}
        async with cards.run(name, gate=False, linger=5, **options) as run:
            outcome = await self._play_lines(recording, run, cards)
            with suppress(TimeoutError):
                await asyncio.wait_for(run.flushed(), ACK_PATIENCE)
        if run.dead:
            raise PlayRefused(str(run.dead))
        self._report(recording, f"ends {name} ({outcome})")

    async def _play_lines(self, recording: Recording, run: Run, cards: Toolcards) -> str:
        latest, denied_calls, lines = "", set(), recording.lines()
        following = [line.get("decision") for line in lines[1:]] + [None]
        for line, awaited_call in zip(lines, following, strict=True):
            if "decision" in line or ("if" in line and line["if"] != latest):
                continue
            await self._pause(line["ms"] / 1000)
            frame = line["frame"]
            if frame.get("call_id") in denied_calls:
                continue  # a denied call did not happen
            if awaited_call:
                latest = (await self._wait_for_decision(recording, run, cards, frame)).effect
                denied_calls |= {awaited_call} if latest != "allow" else set()
            elif frame["type"] == "run.finished":
                run.finish(frame["outcome"], frame.get("reason", ""))
                return str(frame["outcome"])
            else:
                run.send(frame)
        return "success"

    async def _wait_for_decision(
        self, recording: Recording, run: Run, cards: Toolcards, frame: dict[str, Any]
    ) -> Decision:
        """Send the frame that completes a call, and wait for the final decision."""
        run.send(frame)
        await run.flushed()
        request = cards.aask(run.name, frame["call_id"], frame["tool"], frame["input"], tools=recording.tools)
        task = asyncio.ensure_future(request)
        is_decided, _ = await asyncio.wait({task}, timeout=1)
        if not is_decided:
            action = frame["input"].get("command", frame["tool"])
            self._report(recording, f"waits for your answer to “{action}”: {self.url}/runs/{quote(run.name, safe='')}/")
        decision = await task
        if run.dead:
            raise PlayRefused(str(run.dead))
        if not is_decided or not decision.allowed:
            self._report(recording, "continues: allowed" if decision.allowed else f"was denied: {decision.text}")
        return decision

    # ------------------------------------------------------------ other protocols: the recorded frames as they are

    async def _play_foreign(self, recording: Recording, name: str) -> None:
        query = urlencode({"protocol": recording.protocol, "run": name, "agent": recording.agent})
        lines = recording.lines()
        try:
            socket = await websocket.connect(
                f"{self.url}/ws/agent/?{query}", headers={"Authorization": f"Bearer {self.key}"}
            )
            try:
                for line in lines:
                    await self._pause(line["ms"] / 1000)
                    await socket.send(line["text"])
                await asyncio.wait_for(_wait_for_acks(socket, len(lines)), ACK_PATIENCE)
            finally:
                await socket.close()
        except (OSError, TimeoutError) as error:
            if isinstance(error, ConnectionClosed) and (error.code in {401, 403, 404} or error.code >= 4400):
                raise PlayRefused(str(error)) from error
            self._report(recording, f"lost the connection to the server: {str(error) or type(error).__name__}")
            return
        self._report(recording, f"ends {name} ({recording.status})")


def _find_first(group: BaseExceptionGroup[Any]) -> BaseException:
    """Return the first exception of a group that is not a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _wait_for_acks(socket: websocket.Socket, frames: int) -> None:
    """Wait until that many frames are committed."""
    while True:
        message = json.loads(await socket.recv())
        if message.get("type") == "ack" and message.get("frames", 0) >= frames:
            return


__all__ = ["PlayRefused", "Player"]
