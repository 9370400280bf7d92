"""A run reported over one WebSocket: frames are numbered, kept until committed, and resent after a reconnect.

Longer than most modules: it is one class, whose frames, answers and end share the state of one socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Any, Protocol
from urllib.parse import urlencode

from .calls import Call
from .common import input_repair
from .decisions.answers import Decision, describe_refusal, make_denial
from .decisions.approval_wait import LONGEST_WAIT
from .decisions.question import CallRequest
from .transport import threads, websocket
from .transport.connection import Connection
from .transport.outbox import BATCH, MAX_FRAME, Outbox
from .transport.pending import Pending, PendingQuestions, WireIds
from .values.failures import classify_run_end

__all__ = ["BATCH", "Call", "Run", "current"]

DOWN_LINGER = 1.0  # seconds that the end of a run waits for a server that is down
UNCONNECTED_LINGER = 3.0  # and for one that has never connected

_current: ContextVar[Run | None] = ContextVar("toolcards_run", default=None)


def current() -> Run | None:
    """Return the run of the surrounding `with` block, if any."""
    return _current.get()


class Closing(Protocol):
    """An object that is closed when the run ends."""

    def close(self) -> None: ...


class Run:
    """One run of an agent. Use as `async with` or `with`; leaving the block ends it, as an error if an exception leaves
    it.

    `gate`: `Call.allowed` waits for decisions; without it the run is only shown. `offline`: seconds without an answer
    from the server after which a waiting call is denied. `protocol`: frames of another protocol, passed to `send`
    unchanged. `heard` receives every decision that no call is waiting for, on the run's event loop.
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
        self._native, self._on_decision = protocol == "native", heard or (lambda message: None)
        query = {"protocol": protocol, "run": run, "agent": agent, "mode": "gate" if gate else "observe"}
        query["stream"] = uuid.uuid4().hex[:12]  # frames are numbered in it, since the next run may have the same name
        base = url.rstrip("/")
        address = f"{base}/ws/agent/?{urlencode({k: v for k, v in query.items() if v})}"
        self._hello = {k: v for k, v in {"agent": agent, "title": title, "tools": list(tools)}.items() if v}
        self.offers = input_repair.parse_offers(tools)
        self._outbox, self._pending, self._wire_ids = Outbox(), PendingQuestions(), WireIds()
        self._link = Connection(address, key, self._outbox, self._pending, self._receive)
        self._finished = False
        self.interrupted = False  # something in it was interrupted from outside
        self._process = os.getpid()  # the process with the connection; a forked child has no thread
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: Run | None = None
        self.registry: Closing | None = None  # see call_registry.registry_of
        self.refused: list[dict[str, Any]] = []  # error messages for frames that the server refused

    @property
    def dead(self) -> websocket.ConnectionClosed | None:
        """Return why the server rejected this run permanently, or None."""
        return self._link.dead

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
        threads.run_in_loop(self._open(), threads.get_background_loop())
        self._before = _current.get()
        _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.set(self._before)
        threads.run_in_loop(self._close(error), threads.get_background_loop())

    async def _open(self) -> None:
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()
        self._task = asyncio.create_task(self._link.keep_connected())
        self.begin()

    async def _close(self, error: BaseException | None) -> None:
        if self._is_forked_copy:
            return
        self.finish(*classify_run_end(error, self.interrupted))
        patience = DOWN_LINGER if self._link.down_since else self.linger if self._link.count else UNCONNECTED_LINGER
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(self.linger, patience)):
                await self.flushed()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._pending.deny_all("The run is over.")
        if self.registry is not None:
            self.registry.close()

    def flush(self, seconds: float) -> bool:
        """Wait in this thread until everything is committed; return whether it is."""
        if self._loop is not None and self.dead is None and not self._link.down_since and not self._is_forked_copy:
            with contextlib.suppress(TimeoutError):
                threads.run_in_loop(asyncio.wait_for(self.flushed(), seconds), self._loop)
        return not len(self._outbox)

    async def flushed(self) -> None:
        """Wait until the server has committed everything sent so far.

        Runs in the event loop of the run.
        """
        while len(self._outbox) and self.dead is None:
            self._link.empty.clear()
            await self._link.empty.wait()

    # ------------------------------------------------------------ reporting

    def send(self, frame: dict[str, Any]) -> None:
        """Queue a native frame.

        It is kept until the server has committed it. From any thread.
        """
        if self.dead is None and not self._is_forked_copy:
            self._outbox.add(frame)
            self._call_in_loop(self._link.news.set)

    def begin(self) -> None:
        """Report that the run, or another turn of it, begins.

        Entering the block does this.
        """
        self._finished = self.interrupted = False
        if self._native:
            self.send({"type": "run.started", **self._hello})

    @property
    def finished(self) -> bool:
        """Whether its end was reported; `begin` reports that it continues."""
        return self._finished

    def finish(self, outcome: str = "success", reason: str = "") -> None:
        """Report how the run ended: success, aborted, error or truncated.

        Leaving the block does this.
        """
        if self._native and not self._finished:
            self._finished = True
            self.send({"type": "run.finished", "outcome": outcome, **({"reason": reason} if reason else {})})

    def text(self, text: str) -> None:
        """Report a piece of the agent's text."""
        self.send({"type": "text.delta", "text": text})

    def call(self, tool: str, call_id: str = "") -> Call:
        """Begin a tool call.

        Its `id` is `call_id`, or a variant like `call_0#2` if that id is in use.
        """
        call = Call(self, tool, self._wire_ids.make_unique(call_id or f"call-{uuid.uuid4().hex[:12]}"))
        self.send({"type": "tool.input.started", "call_id": call.id, "tool": tool})
        return call

    async def decided(self, question: CallRequest, frame: dict[str, Any], seconds: float | None = None) -> Decision:
        """Send the frame that completes a call's input; return the decision.

        The decision is allow or deny.
        """
        deciding = self._submit(question, frame, seconds)
        if self._loop is None or self._loop is threads.find_running_loop() or self._is_forked_copy:
            return await deciding
        results: list[Decision] = []
        try:
            work = asyncio.run_coroutine_threadsafe(_keep_result(deciding, results), self._loop)
            return await asyncio.wrap_future(work)
        except BaseException:
            self._call_in_loop(partial(self._abort_unused, results))
            raise

    def decided_now(self, question: CallRequest, frame: dict[str, Any], seconds: float | None = None) -> Decision:
        """Do the same in a thread without an event loop."""
        if self._loop is None:
            raise RuntimeError("the run has not started; use it as `with run:`")
        loop = threads.get_background_loop() if self._is_forked_copy else self._loop
        results: list[Decision] = []
        try:
            return threads.run_in_loop(_keep_result(self._submit(question, frame, seconds), results), loop)
        except BaseException:
            self._call_in_loop(partial(self._abort_unused, results))
            raise

    async def _submit(self, question: CallRequest, frame: dict[str, Any], seconds: float | None) -> Decision:
        if not self.gate:
            raise RuntimeError("this run is not gated (gate=False), so its calls get no decisions")
        if self._is_forked_copy:
            return make_denial("The run was opened in another process, so the call did not run.", question.call_id)
        if question.call_id in self._pending:
            return make_denial("Another call with the same id is being decided.", question.call_id)
        if len(json.dumps(frame)) > MAX_FRAME:
            text = describe_refusal(f"they have more than {MAX_FRAME} characters.")
            return self._deny_unsent(make_denial(text, question.call_id, "invalid_args"))
        pending = self._pending.add(question, frame)
        try:
            self.send(frame)
            self._link.hurry.set()
            if self.dead is not None:
                self._pending.deny_all(f"The gate refused this run: {self.dead.reason or self.dead.code}")
            decision = await self._wait_for_answer(pending, seconds)
        except asyncio.CancelledError:  # the agent no longer waits: withdraw the question
            self._abort(question.call_id)
            raise
        finally:
            self._pending.drop(pending)
        return self._deny_unsent(decision) if decision.by == "client" else decision

    def _abort_unused(self, results: Sequence[Decision]) -> None:
        """Abort an allowed call whose agent was interrupted before it got the answer."""
        for decision in results:
            if decision.allowed:
                self._abort(decision.call_id)

    def _abort(self, call_id: str) -> None:
        details = {"message": "The agent stopped waiting.", "code": "aborted"}
        self.send({"type": "tool.output.error", "call_id": call_id, "error": details})

    def _deny_unsent(self, decision: Decision) -> Decision:
        """Report a deny made by the client, so that the server asks no one when it is back."""
        self.send({"type": "tool.output.denied", "call_id": decision.call_id, "reason": decision.text})
        return decision

    @property
    def _is_forked_copy(self) -> bool:
        """Whether this is a forked child's copy of its parent's run."""
        return os.getpid() != self._process

    async def _wait_for_answer(self, pending: Pending, seconds: float | None) -> Decision:
        """Wait briefly for the server's receipt, then for the decision."""
        call_id = pending.question.call_id
        receipt_limit = self.offline if seconds is None else min(self.offline, seconds)
        try:
            async with asyncio.timeout(receipt_limit):  # `wait_for` of Python 3.11 can swallow a cancellation
                await pending.is_received.wait()
        except TimeoutError:
            why = f" ({self.dead or self._link.trouble})" if self.dead or self._link.down_since else ""
            text = f"Toolcards did not answer in time{why}, so the call did not run."
            return make_denial(text, call_id, "gate_unavailable")
        try:
            async with asyncio.timeout(LONGEST_WAIT if seconds is None else seconds):
                return await pending.answer
        except TimeoutError:
            return make_denial("No one answered in time.", call_id, "approval_expired")

    def _receive(self, message: dict[str, Any]) -> None:
        if message.get("type") == "error":
            self.refused.append(message)
            if message.get("code") == "too_large":
                text = describe_refusal(str(message.get("message", "")))
                self._pending.deny(str(message.get("call_id")), text, "invalid_args")
            elif message.get("code") == "internal" and message.get("call_id"):
                self._pending.deny(str(message["call_id"]), str(message.get("message", "")), "gate_unavailable")
            return
        is_awaited = message.get("type") == "decision" and self._pending.receive(message)
        if message.get("type") == "decision" and not is_awaited and message.get("run") == self.name:
            self._on_decision(message)

    def _call_in_loop(self, callback: Any) -> None:
        """Call it in the loop of the run, from any thread."""
        if self._loop is None or self._loop is threads.find_running_loop():
            callback()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(callback)


async def _keep_result(work: Coroutine[Any, Any, Decision], results: list[Decision]) -> Decision:
    """Return the result; `results` keeps it in case the caller is interrupted."""
    results.append(await work)
    return results[0]
