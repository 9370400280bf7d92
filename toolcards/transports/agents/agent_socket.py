"""Agent sockets: frames in, acks and decisions out.

A Channels consumer that reads its socket in a plain loop: the stock dispatch costs a thread hop and a task
per message. The loop never waits for a person or for the database, only for room in the journal.

Longer than most modules: it is one class, whose reading, answers and end share the state of one connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from channels.consumer import AsyncConsumer
from django.conf import settings

from toolcards import feed, gate, outages
from toolcards.adapters import BadFrame
from toolcards.database import LONGEST_PAUSE, report_outage
from toolcards.transports import shutdown
from toolcards.transports.agents.frame_intake import (
    TOO_MANY_GAPS,
    Intake,
    build_fault,
    check_run_name,
    check_stream_name,
    get_adapter,
    iterate_frames,
    parse_mode,
)
from toolcards.transports.api import auth, origins
from toolcards.transports.api.admission import RECEIPTS, TEXT_BUNDLES, admit
from toolcards.transports.api.api_errors import Problem, convert_outage
from toolcards.transports.api.asgi_messages import parse_parameters
from toolcards.transports.background import scheduler
from toolcards.transports.background.connections import AgentConnection
from toolcards.transports.loop_share import Slices

# The channel of an answer: gating and observing connections each get only the answers to approvals of their own kind.
CHANNELS = {"gate": "socket", "observe": "watch"}
WAITING = 200  # messages not yet sent at which we stop reading
ADVANCE = 4_096  # bytes that a connection has counted before it sends them
MESSAGE_WEIGHT, SLICE_WEIGHT = 200, 100_000  # characters that each text adds, and of about 5 ms of work
LAST_COMMIT = 2.0  # seconds of a shutdown in which accepted frames are still committed and acknowledged


class AgentSocket(AsyncConsumer):
    """One connection of an agent, on /ws/agent/."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one connection (ASGI)."""
        scheduler.start()
        self._receive, self._to_client = receive, send
        self._limit = settings.TOOLCARDS.max_frame
        self._outbox: list[dict[str, Any]] = []
        self._ack: gate.CommitReport | None = None
        self._acked = self._allowance = 0
        self._outbox_event, self._sent_event = asyncio.Event(), asyncio.Event()
        self._end: Problem | None = None
        self._is_disconnected = self._is_greeted = False
        self._replying: asyncio.Task[None] | None = None  # starts with the first commit
        self._has_left = False
        self._request_receipt = (scope.get("extensions") or {}).get(RECEIPTS)
        self._name = secrets.token_hex(12) if self._request_receipt is not None else ""
        self._unconfirmed: set[str] = set()  # approvals whose answers were sent, without a receipt so far
        self._handed_over: set[str] = set()  # the ids of these decisions, also of those with a receipt
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})  # a refused handshake could not say why
        try:
            intake = await self._admit(scope)
        except Problem as problem:
            await self._close(problem)
            return
        except Exception as error:
            if (outage := convert_outage(error)) is None:
                raise
            await self._close(outage)
            return
        await self._serve(intake)

    async def _admit(self, scope: Any) -> Intake:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        origins.check_agent_origin(scope)
        options = parse_parameters(scope["query_string"])
        caller = await auth.authenticate_agent(headers.get(b"authorization", ""), "ingest")
        admit(scope)
        adapter = get_adapter(options.get("protocol", ""))
        mode = parse_mode(options.get("mode", ""), "gate" if adapter.gated else "observe", caller)
        if send_bundles := scope.get("extensions", {}).get(TEXT_BUNDLES):
            send_bundles()
        self._connection = AgentConnection(caller, self.end)
        self._tasks = {asyncio.ensure_future(self._write())}
        try:
            return Intake(
                caller, adapter, run=check_run_name(options.get("run", "")), agent=options.get("agent", ""), mode=mode,
                channel=CHANNELS[mode], numbering=check_stream_name(options.get("stream", "")),
                on_open=self._on_open, on_commit=self._on_commit, on_failure=self._on_failure,
            )  # fmt: skip
        except Problem:
            await self._leave()
            raise

    async def _serve(self, intake: Intake) -> None:
        self._intake = intake
        try:
            with shutdown.subscribe(self._begin_shutdown):
                await self._read()
        except Problem as problem:
            await self._flush_commits()
            await self._close(problem)
        finally:
            await self._leave()

    async def _leave(self) -> None:
        self._has_left = True  # a later commit, such as that of the lease, takes no answers
        auth.give_back(self._connection.caller.agent.pk, self._allowance)
        for task in self._tasks:
            task.cancel()
        self._connection.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for approval in self._unconfirmed:
            _submit_in_background(gate.arelease_delivery, approval, self._name)

    # ------------------------------------------------------------ reading

    async def _read(self) -> None:
        weight = 0  # of the texts since others used the event loop: in a flood, `receive` does not wait
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return
            texts = message.get("texts") or (message.get("text"),)
            for text in texts:
                if self._end is not None:
                    break  # not accepted and not acknowledged: the agent sends it again on its next connection
                if text is None:
                    self._send_error(BadFrame("binary messages are not supported; send text", "binary"))
                    continue
                if 4 * len(text) > self._limit and len(text.encode("utf-8", "surrogatepass")) > self._limit:
                    raise Problem(413, "too_large", f"A message must have at most {self._limit} bytes.", close=4413)
                self._charge(text)
                if text[:1] == "{":
                    self._take(text)
                else:
                    await self._take_message(text)
                weight += len(text) + MESSAGE_WEIGHT
                if weight > SLICE_WEIGHT:
                    weight = 0
                    await asyncio.sleep(0)
                    await self._wait_for_room()
            await self._wait_for_room()

    def _charge(self, text: str) -> None:
        """Count a text before it is taken, some kilobytes in advance; raises QuotaExceeded."""
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size > self._allowance:
            shortfall, source = size - self._allowance, self._intake.caller.agent.pk
            try:
                auth.charge(source, charge := max(shortfall, ADVANCE))
            except auth.QuotaExceeded:
                auth.charge(source, charge := shortfall)
            self._allowance += charge
        self._allowance -= size

    async def _wait_for_room(self) -> None:
        """Wait while the journal or the client is behind."""
        stream = self._intake.stream
        if stream is not None and stream.is_full:
            await stream.wait_for_room()
        if len(self._outbox) > WAITING:
            await self._flush()

    async def _take_message(self, text: str) -> None:
        """Take the frames of a message, in slices; a connection that ends meanwhile does not accept the rest."""
        slices = Slices()
        try:
            frames = await slices.collect(iterate_frames(text))
        except BadFrame as bad:
            self._send_error(self._intake.refuse(bad))
            return
        for frame in frames:
            if self._end is not None:
                return
            self._take(frame)
            if slices.is_over:
                await slices.pause()
            await self._wait_for_room()

    def _take(self, frame: str) -> None:
        frame_error = self._intake.take(frame)
        if frame_error is not None:
            self._send_error(frame_error)

    def _send_error(self, bad: BadFrame) -> None:
        call = {"call_id": bad.call_id} if bad.call_id else {}
        self._say({"type": "error", "code": bad.code, "message": bad.message, **call})

    # ------------------------------------------------------------ writing

    def _on_open(self, stream: gate.Stream) -> None:
        self._connection.sends(stream)

    def _on_commit(self, report: gate.CommitReport) -> None:
        """Queue one cumulative ack and the decisions of a commit; the first starts the replies.

        A commit of a lease without a frame gets no ack, which could be mistaken for a frame's.
        """
        if report.frames > self._acked:
            self._ack, self._acked = report, report.frames
        self._outbox += [
            {"type": "decision", **decision}
            for decision in report.decisions
            if decision["decision"] == "ask" or decision.get("decision_id") not in self._handed_over
        ]
        for call_id in report.faults:
            self._send_error(build_fault(call_id))
        if report.refused_frames:
            self._send_error(TOO_MANY_GAPS)
        self._outbox_event.set()
        if self._replying is None and self._end is None and not self._has_left:
            stream = self._intake.stream
            assert stream is not None
            if self._intake.is_generated_name and not self._is_greeted:
                self._is_greeted = True
                self._say({"type": "hello", "run": stream.run_name})
            if stream.run_pk:  # else nothing was worth a run so far
                self._replying = asyncio.ensure_future(self._reply(stream.run_pk))
                self._tasks.add(self._replying)

    def _on_failure(self, error: Exception) -> None:
        self.end(1011, "The frames without an ack could not be written. Connect again and send them again.")

    def end(self, code: int, message: str) -> None:
        """Close the connection from outside its loop."""
        if self._end is None:
            self._end = Problem(0, "closed", message, close=code)
            self._outbox_event.set()
            self._tasks.add(asyncio.ensure_future(self._close(self._end)))

    def _begin_shutdown(self) -> None:
        if self._end is None:
            self._end = Problem(0, "restarting", shutdown.MESSAGE, close=shutdown.RECONNECT)
            self._tasks.add(asyncio.ensure_future(self._finish()))

    async def _flush_commits(self) -> None:
        """Commit and acknowledge what was taken."""
        stream = self._intake.stream
        with contextlib.suppress(Exception):
            async with asyncio.timeout(LAST_COMMIT):
                if stream is not None:
                    await stream.wait_until_committed()
                await self._flush()

    async def _finish(self) -> None:
        """Commit and acknowledge all frames, then ask the agent to reconnect."""
        await self._flush_commits()
        if self._replying is not None:
            self._replying.cancel()
            await asyncio.gather(self._replying, return_exceptions=True)
        with contextlib.suppress(Exception):  # the agent may have gone by itself
            await self._to_client({"type": "websocket.close", "code": shutdown.RECONNECT, "reason": shutdown.MESSAGE})

    def _say(self, message: dict[str, Any]) -> None:
        self._outbox.append(message)
        self._outbox_event.set()

    async def _flush(self) -> None:
        while not self._is_disconnected and (self._outbox or self._ack is not None):
            self._sent_event.clear()
            await self._sent_event.wait()

    async def _write(self) -> None:
        """Send messages, then the ack: who has the ack of a frame has its decision."""
        while True:
            await self._outbox_event.wait()
            self._outbox_event.clear()
            ack, outbox = self._ack, self._outbox
            self._ack, self._outbox = None, []
            try:
                for message in outbox:
                    await self._text(json.dumps(message))
                if ack is not None:
                    await self._text(f'{{"type":"ack","seq":{ack.seq},"frames":{ack.frames}}}')
            except Exception:  # the client is gone; the reading side will notice
                self._is_disconnected = True
                return
            finally:
                self._sent_event.set()

    async def _reply(self, run: int) -> None:
        """Send the answers of people; one connection sends each answer."""
        async for approval in feed.follow_answers(run, CHANNELS[self._intake.mode]):
            try:
                await self._hand_over(approval)
            except gate.NotAllowed as refused:
                self.end(4401, refused.message)
            except Exception as error:  # it stays undelivered: the next poll finds it
                if not report_outage(error, outages.SENDING):
                    raise
            else:
                outages.report_success(outages.SENDING)

    async def _hand_over(self, approval: str) -> None:
        """Claim the answer and send it; release it if it was not sent."""
        if approval in self._unconfirmed:
            return  # this connection delivers it if it delivers anything
        claiming = asyncio.ensure_future(gate.aclaim_delivery(approval, self._connection.caller.key, self._name))
        try:
            decision = await asyncio.shield(claiming)
            if decision is not None:
                self._handed_over.add(decision["decision_id"])
                await self._text(json.dumps({"type": "decision", **decision}))
        except BaseException:
            if await _may_be_claimed(claiming):
                await asyncio.shield(_submit_in_background(gate.arelease_delivery, approval, self._name))
            raise
        if decision is not None and self._request_receipt is not None:
            self._unconfirmed.add(approval)
            self._request_receipt(lambda: self._confirm(approval))

    def _confirm(self, approval: str) -> None:
        """Record that the agent has received the answer."""
        self._unconfirmed.discard(approval)
        _submit_in_background(gate.aconfirm_delivery, approval)

    async def _text(self, text: str) -> None:
        await self._to_client({"type": "websocket.send", "text": text})

    async def _close(self, problem: Problem) -> None:
        with contextlib.suppress(Exception):
            await self._text(json.dumps({"type": "error", "code": problem.code, "message": problem.message}))
            await self._to_client({"type": "websocket.close", "code": problem.close, "reason": problem.message[:100]})


_submissions: set[asyncio.Future[None]] = set()


def _submit_in_background(command: Callable[..., Awaitable[None]], *arguments: str) -> asyncio.Future[None]:
    """Run a command of the gate once the database is available; the socket may be gone by then."""
    submission = asyncio.ensure_future(_submit(command, *arguments))
    _submissions.add(submission)
    submission.add_done_callback(_submissions.discard)
    return submission


async def _may_be_claimed(claiming: asyncio.Future[Any]) -> bool:
    try:
        return await claiming is not None
    except gate.CommitUnknown:
        return True


async def _submit(command: Callable[..., Awaitable[None]], *arguments: str) -> None:
    while True:
        try:
            return await command(*arguments)
        except Exception as error:
            if not report_outage(error, outages.WRITING):
                raise
        await asyncio.sleep(LONGEST_PAUSE)
