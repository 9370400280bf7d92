"""Plays recorded runs over the real agent WebSocket, in their own time."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import urlopen

from toolcards.client import Closed, Decision, Run, Toolcards, websocket
from toolcards.client.question import Question
from toolcards.demo.recordings import AGENTS, Recording

STAGGER = 2.0  # seconds between the agents' first runs
PAUSE = 4.0  # seconds between two runs of an agent
ACK_PATIENCE = 60.0
START_PATIENCE = 4.0  # for a server that is about to start


class Refused(Exception):
    """The server will not have it; the message says why."""


@dataclass
class Player:
    """Plays all agents at once. `say` is told what happens; `speed` 2 is twice as fast as it was."""

    url: str
    key: str
    say: Callable[[str], None]
    speed: float = 1.0
    rounds: int = 1
    suffix: str = field(default_factory=lambda: secrets.token_hex(2))
    began: float = field(default_factory=time.monotonic)

    async def play(self) -> None:
        """Play every agent's runs, `rounds` times; raises Refused where no server answers, or not to this key."""
        await asyncio.to_thread(self._somebody_answers)
        try:
            async with asyncio.TaskGroup() as group:
                for number, recordings in enumerate(AGENTS):
                    group.create_task(self._agent(recordings, number * STAGGER))
        except BaseExceptionGroup as wrong:
            # Not `except*`: before Python 3.11.4 what is raised in there comes out as a group.
            refused = wrong.subgroup(Refused)
            raise _first(refused or wrong) from wrong

    def _somebody_answers(self) -> None:
        until, wrong = time.monotonic() + START_PATIENCE, ""
        while time.monotonic() < until:
            try:
                with urlopen(f"{self.url}/healthz", timeout=START_PATIENCE):  # noqa: S310 - the address we play into
                    return
            except HTTPError:
                return  # somebody does; whether we are wanted is seen later
            except (OSError, ValueError) as error:
                wrong = str(getattr(error, "reason", error))
                time.sleep(0.25)
        raise Refused(f"nobody answers at {self.url} ({wrong})")

    def name(self, recording: Recording, number: int) -> str:
        """Return the run's name, new for each play."""
        return f"{recording.run}-{self.suffix}" + (f"-{number + 1}" if number else "")

    async def _agent(self, recordings: list[Recording], start: float) -> None:
        await self._pause(start)
        for number in range(self.rounds):
            for recording in recordings:
                play = self._native if recording.protocol == "native" else self._foreign
                self._tell(recording, f"begins {self.name(recording, number)} ({recording.protocol})")
                await play(recording, self.name(recording, number))
                await self._pause(PAUSE)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.speed)

    def _tell(self, recording: Recording, what: str) -> None:
        self.say(f"{time.monotonic() - self.began:6.1f} s  {recording.agent:16} {what}")

    # ------------------------------------------------------------ native: through the client

    async def _native(self, recording: Recording, name: str) -> None:
        cards = Toolcards(self.url, self.key)
        gate = recording.mode == "gate"
        options = {"agent": recording.agent, "title": recording.title, "tools": recording.tools}
        async with cards.run(name, gate=gate, linger=5, **options) as run:
            ended = await self._lines(recording, run)
            with suppress(TimeoutError):
                await asyncio.wait_for(run.flushed(), ACK_PATIENCE)
        if run.dead:
            raise Refused(str(run.dead))
        self._tell(recording, f"ends {name} ({ended})")

    async def _lines(self, recording: Recording, run: Run) -> str:
        latest, refused, lines = "", set(), recording.lines()
        following = [line.get("decision") for line in lines[1:]] + [None]
        for line, awaited in zip(lines, following, strict=True):
            if "decision" in line or ("if" in line and line["if"] != latest):
                continue
            await self._pause(line["ms"] / 1000)
            frame = line["frame"]
            if frame.get("call_id") in refused:
                continue  # what was not allowed did not happen
            if awaited:
                latest = (await self._decision(recording, run, frame)).effect
                refused |= {awaited} if latest != "allow" else set()
            elif frame["type"] == "run.finished":
                run.finish(frame["outcome"], frame.get("reason", ""))
                return str(frame["outcome"])
            else:
                run.send(frame)
        return "success"

    async def _decision(self, recording: Recording, run: Run, frame: dict[str, Any]) -> Decision:
        """Send the frame that completes a call and wait, as long as it takes, for the gate to say yes or no."""
        offered = [tool["name"] for tool in recording.tools]
        question = Question.about(run.name, frame["call_id"], frame["tool"], frame["input"], offered=offered)
        asking = asyncio.ensure_future(run.decided(question, frame))
        done, _ = await asyncio.wait({asking}, timeout=1)
        if not done:
            what = frame["input"].get("command", frame["tool"])
            self._tell(recording, f"waits for your answer to “{what}”: {self.url}/runs/{quote(run.name, safe='')}/")
        decision = await asking
        if run.dead:
            raise Refused(str(run.dead))
        if not done or not decision.allowed:
            self._tell(recording, "goes on: allowed" if decision.allowed else f"is told no: {decision.text}")
        return decision

    # ------------------------------------------------------------ other protocols: the recorded frames as they are

    async def _foreign(self, recording: Recording, name: str) -> None:
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
                await asyncio.wait_for(_acknowledged(socket, len(lines)), ACK_PATIENCE)
            finally:
                await socket.close()
        except (OSError, TimeoutError) as error:
            if isinstance(error, Closed) and (error.code in {401, 403, 404} or error.code >= 4400):
                raise Refused(str(error)) from error
            self._tell(recording, f"lost the server: {str(error) or type(error).__name__}")
            return
        self._tell(recording, f"ends {name} ({recording.status})")


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    """Return the first exception of a group that is no group itself."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _acknowledged(socket: websocket.Socket, frames: int) -> None:
    """Wait until that many frames are committed."""
    while True:
        said = json.loads(await socket.recv())
        if said.get("type") == "ack" and said.get("frames", 0) >= frames:
            return


__all__ = ["Player", "Refused"]
