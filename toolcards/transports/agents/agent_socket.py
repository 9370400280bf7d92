"""Agent sockets: frames in, acks and decisions out.

A Channels consumer that reads its socket in a plain loop: the stock dispatch costs a thread hop and a task
per message. The loop never waits for a person or for the database, only for room in the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any
from urllib.parse import parse_qs

from channels.consumer import AsyncConsumer
from django.conf import settings

from toolcards import feed, gate, outages
from toolcards.adapters import BadFrame
from toolcards.database import LONGEST_PAUSE, report_outage
from toolcards.transports import shutdown
from toolcards.transports.agents.frame_intake import (
    TOO_MANY_GAPS,
    Intake,
    check_run_name,
    check_stream_name,
    get_adapter,
    parse_mode,
    split_frames,
)
from toolcards.transports.api import auth, origins
from toolcards.transports.api.admission import admit
from toolcards.transports.api.api_errors import Problem, convert_outage
from toolcards.transports.background import scheduler
from toolcards.transports.background.connections import Connection

# The way back of an answer: what a gating connection asked is for such connections, not for one that only watches the
# run, and the other way round.
CHANNELS = {"gate": "socket", "observe": "watch"}
WAITING = 200  # messages not yet sent at which we stop reading
LAST_COMMIT = 2.0  # seconds of a shutdown in which what was taken in must be committed to be acknowledged


class AgentSocket(AsyncConsumer):
    """One connection of an agent, on /ws/agent/."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI; everything happens in here."""
        scheduler.start()
        self._receive, self._to_client = receive, send
        self._outbox: list[dict[str, Any]] = []
        self._ack: gate.CommitReport | None = None
        self._acked = 0
        self._something, self._sent = asyncio.Event(), asyncio.Event()
        self._end: Problem | None = None
        self._gone = False
        self._replying: asyncio.Task[None] | None = None  # starts with the first commit
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})  # a refused handshake could not say why
        try:
            intake = await self._admitted(scope)
        except Problem as problem:
            await self._close(problem)
            return
        except Exception as error:
            if (away := convert_outage(error)) is None:
                raise
            await self._close(away)
            return
        await self._serve(intake)

    async def _admitted(self, scope: Any) -> Intake:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        origins.check_agent_origin(scope)
        asked = parse_qs(scope["query_string"].decode("utf-8", "replace"), keep_blank_values=True)
        given = {name: values[-1] for name, values in asked.items()}
        caller = await auth.authenticate_agent(headers.get(b"authorization", ""), "ingest")
        admit(scope)
        adapter = get_adapter(given.get("protocol", ""))
        mode = parse_mode(given.get("mode", ""), "gate" if adapter.gated else "observe", caller)
        self._connection = Connection(caller, self.end)
        self._tasks = {asyncio.ensure_future(self._write())}
        try:
            return Intake(
                caller, adapter, run=check_run_name(given.get("run", "")), agent=given.get("agent", ""), mode=mode,
                channel=CHANNELS[mode], numbering=check_stream_name(given.get("stream", "")),
                on_open=self._opened, on_commit=self._committed, on_failure=self._failed,
            )  # fmt: skip
        except Problem:
            await self._leave()
            raise

    async def _serve(self, intake: Intake) -> None:
        self._intake = intake
        try:
            with shutdown.subscribe(self._come_back_later):
                await self._read()
        except Problem as problem:
            await self._flushed()
            await self._close(problem)
        finally:
            await self._leave()

    async def _leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._connection.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ------------------------------------------------------------ reading

    async def _read(self) -> None:
        receive, intake, limit = self._receive, self._intake, settings.TOOLCARDS.max_frame
        while True:
            message = await receive()
            text = message.get("text")
            if self._end is not None and message["type"] != "websocket.disconnect":
                continue  # not taken in and so not acknowledged: what is sent from here on is for the next connection
            if text is None:
                if message["type"] == "websocket.disconnect":
                    return
                self._tell_wrong(BadFrame("binary messages are not read; send text", "binary"))
                continue
            if 4 * len(text) > limit and (len(text) > limit or len(text.encode("utf-8", "surrogatepass")) > limit):
                raise Problem(413, "too_large", f"A message has at most {limit} bytes.", close=4413)
            self._take(text)
            stream = intake.stream
            if stream is not None and stream.is_full:
                await stream.wait_for_room()
            if len(self._outbox) > WAITING:
                await self._flushed()

    def _take(self, text: str) -> None:
        intake = self._intake
        try:
            frames = (text,) if text[:1] == "{" else split_frames(text)
        except BadFrame as bad:
            self._tell_wrong(intake.refuse(bad))
            return
        for frame in frames:
            bad = intake.take(frame)
            if bad is not None:
                self._tell_wrong(bad)

    def _tell_wrong(self, bad: BadFrame) -> None:
        self._say({"type": "error", "code": bad.code, "message": bad.message})

    # ------------------------------------------------------------ writing

    def _opened(self, stream: gate.Stream) -> None:
        self._connection.sends(stream)

    def _committed(self, told: gate.CommitReport) -> None:
        """After each commit: one cumulative ack, and what was decided in it. The first one starts the replies.

        A commit of a lease alone, which is no frame, is not acked: nobody shall take it for their frame's.
        """
        if told.frames > self._acked:
            self._ack, self._acked = told, told.frames
        self._outbox += [{"type": "decision", **decision} for decision in told.decisions]
        if told.refused:
            self._tell_wrong(TOO_MANY_GAPS)
        self._something.set()
        if self._replying is None and self._end is None:
            stream = self._intake.stream
            assert stream is not None
            if self._intake.made:
                self._say({"type": "hello", "run": stream.run_name})
            self._replying = asyncio.ensure_future(self._reply(stream.run_pk))
            self._tasks.add(self._replying)

    def _failed(self, error: Exception) -> None:
        self.end(1011, "What was not acknowledged could not be written. Connect again and send it once more.")

    def end(self, code: int, message: str) -> None:
        """Close the connection from outside its loop."""
        if self._end is None:
            self._end = Problem(0, "closed", message, close=code)
            self._something.set()
            self._tasks.add(asyncio.ensure_future(self._close(self._end)))

    def _come_back_later(self) -> None:
        if self._end is None:
            self._end = Problem(0, "restarting", shutdown.MESSAGE, close=shutdown.RECONNECT)
            self._tasks.add(asyncio.ensure_future(self._finish()))

    async def _finish(self) -> None:
        """Commit and acknowledge what was taken in, let no answer get lost, then ask the agent to reconnect."""
        stream = self._intake.stream
        with contextlib.suppress(Exception):
            async with asyncio.timeout(LAST_COMMIT):
                if stream is not None:
                    await stream.wait_until_committed()
                await self._flushed()
        if self._replying is not None:
            self._replying.cancel()
            await asyncio.gather(self._replying, return_exceptions=True)
        with contextlib.suppress(Exception):  # the agent may have gone by itself
            await self._to_client({"type": "websocket.close", "code": shutdown.RECONNECT, "reason": shutdown.MESSAGE})

    def _say(self, message: dict[str, Any]) -> None:
        self._outbox.append(message)
        self._something.set()

    async def _flushed(self) -> None:
        while not self._gone and (self._outbox or self._ack is not None):
            self._sent.clear()
            await self._sent.wait()

    async def _write(self) -> None:
        """The only one who sends while the connection is open: what was committed, then what is to be said."""
        while True:
            await self._something.wait()
            self._something.clear()
            ack, outbox = self._ack, self._outbox
            self._ack, self._outbox = None, []
            try:
                if ack is not None:
                    await self._text(f'{{"type":"ack","seq":{ack.seq},"frames":{ack.frames}}}')
                for message in outbox:
                    await self._text(json.dumps(message))
            except Exception:  # the client is gone; the reading side will notice
                self._gone = True
                return
            finally:
                self._sent.set()

    async def _reply(self, run: int) -> None:
        """Tell what people answered; each answer is told by one connection."""
        async for approval in feed.follow_answers(run, CHANNELS[self._intake.mode]):
            try:
                await self._hand_over(approval)
            except Exception as error:  # it stays owed: the next look finds it
                if not report_outage(error, outages.SENDING):
                    raise
            else:
                outages.report_success(outages.SENDING)

    async def _hand_over(self, approval: str) -> None:
        """Take the answer and send it; whatever comes between, an answer that was not sent is given back."""
        taking = asyncio.ensure_future(gate.aclaim_delivery(approval))
        try:
            said = await asyncio.shield(taking)
            if said is not None:
                await self._text(json.dumps({"type": "decision", **said}))
        except BaseException:
            if await _may_be_taken(taking):
                giving = asyncio.ensure_future(_give_back(approval))
                _giving.add(giving)  # the socket may be gone before the database is back
                giving.add_done_callback(_giving.discard)
                await asyncio.shield(giving)
            raise

    async def _text(self, text: str) -> None:
        await self._to_client({"type": "websocket.send", "text": text})

    async def _close(self, problem: Problem) -> None:
        with contextlib.suppress(Exception):
            await self._text(json.dumps({"type": "error", "code": problem.code, "message": problem.message}))
            await self._to_client({"type": "websocket.close", "code": problem.close, "reason": problem.message[:100]})


_giving: set[asyncio.Future[None]] = set()


async def _may_be_taken(taking: asyncio.Future[Any]) -> bool:
    try:
        return await taking is not None
    except gate.CommitUnknown:
        return True


async def _give_back(approval: str) -> None:
    """Give an answer back that was not sent, as soon as the database takes it."""
    while True:
        try:
            return await gate.arelease_delivery(approval)
        except Exception as error:
            if not report_outage(error, outages.WRITING):
                raise
        await asyncio.sleep(LONGEST_PAUSE)
