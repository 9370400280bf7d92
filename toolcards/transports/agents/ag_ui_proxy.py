"""The AG-UI proxy: relays the stream between client and agent unchanged and records its calls as cards.

    client ── RunAgentInput ──> POST /api/v1/ag-ui/<upstream> ── the same, with our answers ──> agent
    client <── the agent's bytes, unchanged ─────────────────────── SSE ─────────────────────── agent

Only an admin sets the address of an upstream (`TOOLCARDS_AGUI_UPSTREAMS`). A run's approvals can be
answered here or in the client's own chat; the first answer counts. The client's answers are read from its next request
(`by: host`). Ours are added to that request, all of a run in one `resume`. `GET …/resume` tells when to send it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from django.conf import settings
from django.http import StreamingHttpResponse

from toolcards import gate, outages
from toolcards.adapters import ADAPTERS, BadFrame, strict
from toolcards.adapters.ag_ui import resume_entries
from toolcards.adapters.sse import EventSplitter
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import TERMINAL
from toolcards.core.runs.run_context import OVER_QUOTA, SkippedFrame
from toolcards.database import read_with_retries, report_outage
from toolcards.models import Run
from toolcards.transports import shutdown
from toolcards.transports.agents import ag_ui_upstream as upstreams
from toolcards.transports.agents.ag_ui_answers import (
    aload_answers,
    aload_pending_answers,
    await_answers,
    encode_entries,
    fetch_entries,
)
from toolcards.transports.agents.frame_intake import Intake, check_run_name
from toolcards.transports.api import auth
from toolcards.transports.api.api_errors import Problem, build_not_found
from toolcards.transports.api.asgi_messages import HEADERS
from toolcards.transports.api.asgi_views import endpoint
from toolcards.transports.api.auth import Caller
from toolcards.transports.background.connections import AgentConnection, wait_while_allowed

log = logging.getLogger(__name__)
MAX_WAIT = 60.0  # seconds
MAX_SLOWDOWN = 2.0  # seconds that recording may slow a stream down; then it stops
TOO_LONG = "too long"  # the kind of events that are not recorded


@endpoint("POST", "ingest")
async def run(request: Any, caller: Caller, upstream: str) -> Any:
    """Forward a run to the agent, return its stream, and mirror it."""
    url = _get_upstream_url(upstream)
    agent_input = _parse_body(request.body)
    run_name = check_run_name(str(agent_input.get("threadId") or ""))
    if not run_name:
        raise Problem(400, "missing_field", "threadId: Field required")
    mirror = RunMirror(caller, run_name, upstream)
    exchange: upstreams.Exchange | None = None
    try:
        agent_input = await mirror.add_answers(agent_input)
        headers = upstreams.build_headers(request.headers.items())
        exchange = await upstreams.post(url, json.dumps(agent_input).encode(), headers)
        if end := exchange.find_unreadable_end():
            await mirror.leave_out(end)  # for example protobuf: relayed, not recorded
            await mirror.release_answers(may_have_arrived=True)
        else:
            mirror.record_form_results()
        headers = HEADERS | {"Content-Type": exchange.kind or "application/octet-stream", "X-Accel-Buffering": "no"}
        headers |= {"Content-Encoding": exchange.coding} if exchange.coding.lower() != "identity" else {}
        return StreamingHttpResponse(StreamRelay(exchange, mirror), status=exchange.status, headers=headers)
    except upstreams.UpstreamUnreachable as error:
        await mirror.release_answers()
        await mirror.close(f.RunEnded(outcome="error", reason=f"The agent: {error}."))
        raise Problem(502, "upstream", f"The agent {upstream} did not answer: {error}.") from None
    except BaseException:
        if exchange is not None:
            exchange.close()
        await mirror.release_answers(may_have_arrived=exchange is not None)
        await mirror.close(None)
        raise


@endpoint("GET", "ingest")
async def resume(request: Any, caller: Caller, upstream: str) -> Any:
    """Return the answers given here once all approvals are answered.

    `wait`: seconds to wait for that, unless the key is revoked.
    """
    _get_upstream_url(upstream)
    run_name = check_run_name(request.GET.get("run", ""))
    row = await read_with_retries(Run.objects.filter(source=caller.agent, name=run_name).afirst)
    if row is None:
        raise build_not_found()
    answers = asyncio.ensure_future(await_answers(row.pk, _parse_wait(request.GET.get("wait", "0"))))
    try:
        await shutdown.wait_unless_stopping(wait_while_allowed(caller, [answers]))
    finally:
        answers.cancel()
    pending = answers.result() if answers.done() else await aload_pending_answers(row.pk)
    return {"run": run_name, "waiting": pending.waiting, "resume": await fetch_entries(caller.agent, pending)}


class StreamRelay:
    """The body of our answer: the agent's, piece by piece. It ends once, also if it never started."""

    def __init__(self, exchange: upstreams.Exchange, mirror: RunMirror) -> None:
        self._exchange, self._mirror = exchange, mirror
        self._loop = asyncio.get_running_loop()
        self._end: f.RunEnded = f.RunEnded(outcome="aborted", reason="The client disconnected.")
        self._ending: asyncio.Task[None] | None = None
        mirror.end_relay = self._end_revoked

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._exchange.pieces():
                await self._mirror.record(piece)
                yield piece
            self._end = gate.build_end_of_stream()
        except upstreams.UpstreamUnreachable as error:
            log.info("upstream: %s", error)
            self._end = gate.build_end_of_stream()
            raise
        finally:
            await asyncio.shield(self._finish())

    def close(self) -> None:
        """Close the exchange and the mirror. Django calls it from any thread."""
        self._loop.call_soon_threadsafe(self._finish)

    def _end_revoked(self) -> None:
        self._end = f.RunEnded(outcome="aborted", reason="The key was revoked.")
        self._finish()

    def _finish(self) -> asyncio.Task[None]:
        if self._ending is None:
            self._exchange.close()
            self._ending = self._loop.create_task(self._mirror.close(self._end))
        return self._ending


class RunMirror:
    """Records one exchange as cards. A failure here never changes the stream."""

    def __init__(self, caller: Caller, name: str, agent: str) -> None:
        self.over = self._is_over_quota = False
        self._unrecorded: f.RunEnded | None = None  # the end of a run whose answer is not recorded
        self.end_relay: Callable[[], None] = lambda: None  # called when the key is revoked
        self._connection = AgentConnection(caller, lambda code, message: self.end_relay())
        self._splitter = EventSplitter(settings.TOOLCARDS.max_frame, skips=True)
        self._skipped_count = 0
        self._claimed_approvals: list[str] = []
        self._form_results: list[f.OutputReady] = []
        try:
            self._intake = Intake(
                caller, ADAPTERS["ag-ui"], run=name, agent=agent, mode="observe", channel="poll",
                on_open=self._connection.sends,
            )  # fmt: skip
        except BaseException:
            self._connection.close()
            raise

    async def add_answers(self, agent_input: dict[str, Any]) -> dict[str, Any]:
        """Record the client's answers.

        Return its request with ours once all are there.
        """
        stream = self._intake.stream
        assert stream is not None
        row = await Run.objects.filter(source=stream.source, name=stream.run_name).afirst()
        if row is None:
            return agent_input
        pending = await aload_pending_answers(row.pk)
        client_answers = resume_entries.read_request(agent_input, pending.batch, pending.forms)
        if client_answers:
            stream.push([*client_answers])
            await stream.wait_until_committed()
        pending = await aload_pending_answers(row.pk)
        if pending.waiting or not pending.answers:
            return agent_input
        for approval in pending.ids:
            if await gate.aclaim_delivery(approval) is None:
                break  # another request has claimed the first of them, and claims the others
            self._claimed_approvals.append(approval)
        pending = await aload_answers(self._claimed_approvals)
        self._form_results = pending.form_results
        entries = encode_entries(pending.answers)
        return resume_entries.add_entries(agent_input, entries, is_langgraph=pending.is_langgraph)

    def record_form_results(self) -> None:
        """Record the answers that the agent got: nothing else ends questions."""
        if self._intake.stream is not None and self._form_results:
            self._intake.stream.push([*self._form_results])

    async def leave_out(self, end: f.RunEnded) -> None:
        """Record only this end; with open calls, which can go on, nothing."""
        self.over, stream = True, self._intake.stream
        assert stream is not None
        row = await Run.objects.filter(source=stream.source, name=stream.run_name).afirst()
        counts = row.count_by_state if row is not None else {}
        self._unrecorded = None if any(counts[state] for state in counts.keys() - TERMINAL) else end

    async def release_answers(self, *, may_have_arrived: bool = False) -> None:
        """Release the answers that the agent did not receive or use."""
        for approval in self._claimed_approvals:
            await gate.arelease_delivery(approval, may_have_arrived=may_have_arrived)
        self._claimed_approvals = []

    async def record(self, piece: bytes) -> None:
        """Record a piece of the stream."""
        if self.over:
            return
        try:
            self._take(self._splitter.feed(piece), len(piece))
            stream = self._intake.stream
            if stream is not None and stream.is_full:
                async with asyncio.timeout(MAX_SLOWDOWN):
                    await stream.wait_for_room()
        except (BadFrame, TimeoutError, Problem) as error:
            log.warning("recording of run %s stopped: %s", self._intake.run, error)
            self.over = True

    def _take(self, frames: Iterable[str], size: int = 0) -> None:
        """Take the frames of a piece of that size. Beyond the quota, and from there on, they are only counted."""
        try:
            if not self._is_over_quota:
                auth.charge(self._intake.caller.agent.pk, size)
        except auth.QuotaExceeded as error:
            log.warning("the rest of run %s is not recorded: %s", self._intake.run, error)
            self._is_over_quota = True
        for frame in frames:
            if not self._is_over_quota:
                self._intake.take(frame)
            elif self._intake.stream is not None:
                self._intake.stream.push(SkippedFrame(OVER_QUOTA))
        self._count_skipped_events()

    def _count_skipped_events(self) -> None:
        """Record that events were too long to be recorded."""
        while self._skipped_count < self._splitter.skipped_count and self._intake.stream is not None:
            log.warning("run %s: an event is too long to be recorded", self._intake.run)
            self._skipped_count += 1
            self._intake.stream.push(SkippedFrame(TOO_LONG))

    async def close(self, end: Any) -> None:
        """Record the end of the run; `end_of_stream` marks a complete stream."""
        stream = self._intake.stream
        end = self._unrecorded if self.over else end
        lease: float | None = None
        try:
            if stream is not None and end is not None:
                self._take(self._splitter.end())
                stream.push([end])
                lease = math.inf
            if stream is not None:
                await stream.wait_until_committed()
        except Exception as error:
            if not report_outage(error, outages.WRITING):
                log.exception("the end of run %s was not written", self._intake.run)
        finally:
            with contextlib.suppress(Exception):
                self._connection.close(lease=lease)


# ---------------------------------------------------------------- the request


def _get_upstream_url(name: str) -> str:
    url = settings.TOOLCARDS.upstreams.get(name)
    if url is None:
        raise build_not_found()
    return str(url)


def _parse_body(body: bytes) -> dict[str, Any]:
    try:
        value = strict.loads(body.decode("utf-8"), settings.TOOLCARDS.max_depth + 8)
    except UnicodeDecodeError:
        raise Problem(400, "not_json", "The body is not UTF-8.") from None
    if not isinstance(value, dict):
        raise Problem(400, "not_object", "The body must be one JSON object.")
    return value


def _parse_wait(text: str) -> float:
    try:
        seconds = float(text or 0)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise Problem(400, "bad_wait", "wait must be a number of seconds.")
    return min(seconds, MAX_WAIT)
