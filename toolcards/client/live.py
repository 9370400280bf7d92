"""A run told over one WebSocket: frames are numbered, kept until committed, and sent again after a reconnect."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import uuid
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Protocol
from urllib.parse import urlencode

from . import home, wire
from .answers import Decision, denial
from .calls import Call
from .common import repair
from .common.jsontext import strict_object
from .faults import outcome
from .outbox import BATCH, Outbox
from .pending import Pending, PendingQuestions, WireIds
from .question import Question

__all__ = ["BATCH", "Call", "Run", "current"]

# Close codes after which trying again would be told the same: bad request, key, scope, too large; and a plain HTTP no.
FAULT = 4000
FINAL = {FAULT, 4400, 4401, 4403, 4404, 4413, 400, 401, 403, 404}
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds between two tries
HURRIED_PAUSE = 1.0  # the longest while somebody waits for a decision
LASTED = 5.0  # seconds after which a connection was a good one
PATIENCE = 30.0  # seconds without any sign of life after which a connection counts as dead
ASKED_PATIENCE = 120.0  # seconds without a connection that a question put to a person outlives
LONGEST_QUESTION = 7 * 86_400.0  # seconds after which a question that nobody answers is given up in any case
LAST_WORDS = 1.0  # seconds that the end of a run waits for a server that is away
FIRST_WORDS = 3.0  # and for one that has not said a word yet

_current: ContextVar[Run | None] = ContextVar("toolcards_run", default=None)


def current() -> Run | None:
    """Return the run whose `with` block we are in, if any."""
    return _current.get()


class Closing(Protocol):
    """What wants to know that the run is over."""

    def close(self) -> None: ...


class Run:
    """One run of an agent. Use as `async with` or `with`; leaving the block ends it, as an error if one came out.

    `gate`: decisions are wanted, so `Call.allowed` waits for them; without it the run is only shown.
    `offline`: seconds without a word from the server after which a waiting call is denied.
    `protocol`: frames are another protocol's, passed to `send` as they are. `heard` is given every decision that
    nobody waits for, in the run's own loop.
    """

    def __init__(
        self,
        url: str,
        key: str,
        run: str,
        *,
        agent: str = "",
        title: str = "",
        tools: Sequence[dict[str, Any]] = (),
        gate: bool = True,
        linger: float = 10,
        offline: float = 15,
        protocol: str = "native",
        heard: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.name, self.agent, self.gate, self.linger, self.offline = run, agent, gate, linger, offline
        self._native, self._heard = protocol == "native", heard
        query = {"protocol": protocol, "run": run, "agent": agent, "mode": "gate" if gate else "observe"}
        base = url.rstrip("/")
        self._url = f"{base}/ws/agent/?{urlencode({k: v for k, v in query.items() if v})}"
        self._key = key
        self._hello = {k: v for k, v in {"agent": agent, "title": title, "tools": list(tools)}.items() if v}
        self.offers = repair.offers(tools)
        self._outbox = Outbox()
        self._connections = 0
        self._finished = False
        self.interrupted = False  # something in it was stopped from outside, says whoever saw that
        self._news, self._hurry, self._empty = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._pending, self._wire_ids = PendingQuestions(), WireIds()
        self._process = os.getpid()  # the one that has the connection: a forked child has a copy without a thread
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._away: float | None = None  # since when there is no connection, after a try that failed
        self._before: Run | None = None
        self.registry: Closing | None = None  # see call_registry.registry_of
        self.refused: list[dict[str, Any]] = []  # frames that the server could not use, as it said so
        self.dead: wire.Closed | None = None  # why the server will never hear this run

    # ------------------------------------------------------------ beginning and end

    async def __aenter__(self) -> Run:
        await self._open()
        self._before = _current.get()
        _current.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.set(self._before)
        await self._close(error)

    def __enter__(self) -> Run:
        home.done(self._open(), home.home())
        self._before = _current.get()
        _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.set(self._before)
        home.done(self._close(error), home.home())

    async def _open(self) -> None:
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()
        self._task = asyncio.create_task(self._talk())
        self.begin()

    async def _close(self, error: BaseException | None) -> None:
        if self._elsewhere:
            return
        self.finish(*outcome(error, self.interrupted))
        patience = LAST_WORDS if self._away else self.linger if self._connections else FIRST_WORDS
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.flushed(), min(self.linger, patience))
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._pending.deny_all("The run is over.")
        if self.registry is not None:
            self.registry.close()

    def flush(self, seconds: float) -> bool:
        """Wait in this thread, at most so long, until everything is committed; whether it is."""
        if self._loop is not None and self.dead is None and not self._away and not self._elsewhere:
            with contextlib.suppress(TimeoutError):
                home.done(asyncio.wait_for(self.flushed(), seconds), self._loop)
        return not len(self._outbox)

    async def flushed(self) -> None:
        """Wait until the server has committed everything sent so far; in the loop of the run."""
        while len(self._outbox) and self.dead is None:
            self._empty.clear()
            await self._empty.wait()

    # ------------------------------------------------------------ what an agent says

    def send(self, frame: dict[str, Any]) -> None:
        """Queue a native frame; it is kept until the server has committed it. From any thread."""
        if self.dead is None and not self._elsewhere:
            self._outbox.add(frame)
            self._here(self._news.set)

    def begin(self) -> None:
        """Say that the run, or another turn of it, begins. Entering the block does it."""
        self._finished = self.interrupted = False
        if self._native:
            self.send({"type": "run.started", **self._hello})

    @property
    def finished(self) -> bool:
        """Whether its end was said; `begin` says that it goes on."""
        return self._finished

    def finish(self, outcome: str = "success", reason: str = "") -> None:
        """Say how the run ended: success, aborted, error or truncated. Leaving the block does it if nobody did."""
        if self._native and not self._finished:
            self._finished = True
            self.send({"type": "run.finished", "outcome": outcome, **({"reason": reason} if reason else {})})

    def text(self, text: str) -> None:
        """A piece of the agent's text."""
        self.send({"type": "text.delta", "text": text})

    def call(self, tool: str, call_id: str = "") -> Call:
        """Begin a tool call. Its `id` is `call_id`, or one like `call_0#2` where the run had a call of that id."""
        call = Call(self, tool, self._wire_ids.unique(call_id or f"call-{uuid.uuid4().hex[:12]}"))
        self.send({"type": "tool.input.started", "call_id": call.id, "tool": tool})
        return call

    async def decided(self, question: Question, frame: dict[str, Any], seconds: float | None = None) -> Decision:
        """Send the frame that completes a call's input and return the final decision: allow or deny."""
        deciding = self._decided(question, frame, seconds)
        if self._loop is None or self._loop is home.running_here() or self._elsewhere:
            return await deciding
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(deciding, self._loop))

    def decided_now(self, question: Question, frame: dict[str, Any], seconds: float | None = None) -> Decision:
        """The same for a thread without an event loop."""
        if self._loop is None:
            raise RuntimeError("the run has not begun: use it as `with run:`")
        loop = home.home() if self._elsewhere else self._loop
        return home.done(self._decided(question, frame, seconds), loop)

    async def _decided(self, question: Question, frame: dict[str, Any], seconds: float | None) -> Decision:
        if not self.gate:
            raise RuntimeError("this run is only shown (gate=False): nobody decides on its calls")
        if self._elsewhere:
            return denial("The run was opened in another process, so the call may not run.", question.call_id)
        if question.call_id in self._pending:
            return denial("A call with the same id is being decided.", question.call_id)
        pending = self._pending.add(question, frame)
        try:
            self.send(frame)
            self._hurry.set()
            if self.dead is not None:
                self._pending.deny_all(f"The gate refused this run: {self.dead.reason or self.dead.code}")
            decision = await self._answered(pending, seconds)
        except asyncio.CancelledError:  # the agent no longer waits: the question is taken back
            told = {"message": "The agent stopped waiting.", "code": "aborted"}
            self.send({"type": "tool.output.error", "call_id": question.call_id, "error": told})
            raise
        finally:
            self._pending.drop(pending)
        if decision.by == "client":  # so that the server, once it hears it, asks nobody any more
            self.send({"type": "tool.output.denied", "call_id": question.call_id, "reason": decision.text})
        return decision

    @property
    def _elsewhere(self) -> bool:
        """Whether this is a forked child's copy of a run that its parent opened."""
        return os.getpid() != self._process

    async def _answered(self, pending: Pending, seconds: float | None) -> Decision:
        """Wait a moment for the first word, then for a person as long as it takes."""
        call_id = pending.question.call_id
        first = self.offline if seconds is None else min(self.offline, seconds)
        try:
            await asyncio.wait_for(pending.heard.wait(), first)
        except TimeoutError:
            why = f" ({self.dead or self._trouble})" if self.dead or self._away else ""
            text = f"Toolcards gave no answer in time{why}, so the call may not run."
            return denial(text, call_id, "gate_unavailable")
        try:
            return await asyncio.wait_for(pending.answer, LONGEST_QUESTION if seconds is None else seconds)
        except TimeoutError:
            return denial("Nobody answered in time.", call_id, "approval_expired")

    # ------------------------------------------------------------ the connection

    _trouble = ""

    async def _talk(self) -> None:
        """Connect, again and again, until the run is over or the server says never."""
        pause, loop = FIRST_PAUSE, asyncio.get_running_loop()
        while self.dead is None:
            began = loop.time()
            why = await self._tried()
            if why.code in FINAL:
                return self._give_up(why)
            self._away, self._trouble = self._away or loop.time(), why.reason or str(why)
            if loop.time() - self._away > ASKED_PATIENCE:
                self._pending.deny_all(f"Toolcards cannot be reached ({self._trouble}), so the call may not run.")
            pause = FIRST_PAUSE if loop.time() - began > LASTED else min(pause * 2, LONGEST_PAUSE)
            await self._rest(pause * random.uniform(0.7, 1.3))  # noqa: S311 - to spread the callers
        return None

    async def _rest(self, seconds: float) -> None:
        """Pause; not long where a call waits, or one begins to."""
        if self._pending:
            await asyncio.sleep(min(seconds, HURRIED_PAUSE))
            return
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)

    async def _tried(self) -> wire.Closed:
        """Connect once and stay as long as it lasts; return why it ended."""
        try:
            socket = await wire.connect(self._url, headers={"Authorization": f"Bearer {self._key}"})
            return await self._connected(socket)
        except wire.Closed as closed:
            return closed
        except (OSError, TimeoutError) as error:
            return wire.Closed(1006, str(error))
        except Exception as error:  # ours to mend; until then nobody may wait for ever
            return wire.Closed(FAULT, f"{type(error).__name__}: {error}")

    async def _connected(self, socket: wire.Socket) -> wire.Closed:
        """Say everything that is not acknowledged, then what comes; return why the connection ended."""
        self._outbox.rewind()
        self._away = None
        if self._connections:  # decisions may have been lost with the old connection: ask once more
            for frame in self._pending.frames():
                self.send(frame)
        self._connections += 1
        self._news.set()
        tasks = [asyncio.create_task(work(socket)) for work in (self._write, self._read, self._watch)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            socket.abort()
        error = next((e for task in done if (e := task.exception())), None)
        if isinstance(error, wire.Closed):
            return error
        if isinstance(error, OSError):
            return wire.Closed(1006, str(error))
        raise error or RuntimeError("a connection ended without a reason")

    async def _write(self, socket: wire.Socket) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while message := self._outbox.message():
                await socket.send(message)

    async def _read(self, socket: wire.Socket) -> None:
        while True:
            with contextlib.suppress(ValueError):  # whatever it was, it was no decision
                self._hear(strict_object((await socket.recv()).encode()))

    async def _watch(self, socket: wire.Socket) -> None:
        """Notice a server that is gone without saying so."""
        while True:
            await asyncio.sleep(PATIENCE / 2)
            if asyncio.get_running_loop().time() - socket.heard > PATIENCE:
                raise wire.Closed(1006, "no sign of life")
            await socket.ping()

    def _hear(self, said: dict[str, Any]) -> None:
        kind = said.get("type")
        if kind == "ack":
            self._outbox.acknowledged(said.get("frames"))
            if not len(self._outbox):
                self._empty.set()
        elif kind == "error":
            self.refused.append(said)
        elif kind == "decision" and not self._pending.hear(said) and said.get("run") == self.name and self._heard:
            self._heard(said)

    def _give_up(self, why: wire.Closed) -> None:
        self.dead = why
        self._empty.set()
        self._pending.deny_all(f"The gate refused this run: {why.reason or why.code}")

    def _here(self, do: Any) -> None:
        """Do it in the loop of the run, whatever thread we are in."""
        if self._loop is None or self._loop is home.running_here():
            do()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(do)
