"""AG-UI between client and agent: the stream goes by, byte for byte, and its calls become cards on the way.

    client ── RunAgentInput ──> POST /api/v1/ag-ui/<upstream> ── the same, with our answers ──> agent
    client <── the agent's bytes, unchanged ─────────────────────── SSE ─────────────────────── agent

Where an upstream is, an admin says (`TOOLCARDS_AGUI_UPSTREAMS`), never a caller. A run's questions can be answered
here or in the client's own chat, whoever is first: the client's answers are read off its next request (`by: host`),
ours are put into it, all of a run in one `resume`. `GET …/resume` tells a client when to make that request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import AsyncIterator
from typing import Any

from django.conf import settings
from django.http import StreamingHttpResponse

from toolcards import gate, outages
from toolcards.adapters import ADAPTERS, ApprovalAnswer, BadFrame, strict
from toolcards.adapters.ag_ui import resume_entries
from toolcards.adapters.sse import EventSplitter
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.database import read_with_retries, report_outage, retry_reads
from toolcards.doorbell import get_approvals_bell, listen
from toolcards.models import Approval, Run
from toolcards.transports.agents import ag_ui_upstream as upstreams
from toolcards.transports.agents.frame_intake import Intake, check_run_name
from toolcards.transports.api.api_errors import Problem, build_not_found
from toolcards.transports.api.asgi_views import HEADERS, endpoint
from toolcards.transports.api.auth import Caller
from toolcards.transports.background.connections import Connection

log = logging.getLogger(__name__)
MAX_WAIT = 60.0  # seconds
MAX_SLOWDOWN = 2.0  # seconds that a stream may be slowed down by us; then its copy is given up
HEARTBEAT = 2.0
# The client's credentials are for us; those for the agent come under a name of their own.
DROPPED_HEADERS = frozenset({
    "authorization", "cookie", "host", "content-length", "connection", "transfer-encoding", "accept", "te",
    "accept-encoding", "origin", "expect", "upgrade", "keep-alive", "content-type", "proxy-authorization",
    "proxy-connection", "proxy-authenticate", "trailer",
})  # fmt: skip
AGENT_AUTHORIZATION = "x-upstream-authorization"
DELIVERABLE_STATES = (
    "approved",
    "denied",
    "expired",
)  # the answers that an agent is owed; it need not hear of other ends


@endpoint("POST", "ingest")
async def run(request: Any, caller: Caller, upstream: str) -> Any:
    """Pass a run on to the agent and its stream back, and mirror it."""
    url = _get_upstream_url(upstream)
    asked = _parse_body(request.body)
    name = check_run_name(str(asked.get("threadId") or ""))
    if not name:
        raise Problem(400, "missing_field", "threadId: Field required")
    mirror = RunMirror(caller, name, upstream)
    exchange: upstreams.Exchange | None = None
    try:
        asked = await mirror.answered(asked)
        exchange = await upstreams.post(url, json.dumps(asked).encode(), _build_headers(request))
        kind, coding = exchange.headers.get("content-type", ""), exchange.headers.get("content-encoding", "identity")
        if not (exchange.status == 200 and kind.startswith("text/event-stream") and coding == "identity"):
            mirror.over = True  # protobuf, say: it goes by all the same
            await mirror.give_back()
        headers = HEADERS | {"Content-Type": kind or "application/octet-stream", "X-Accel-Buffering": "no"}
        headers |= {"Content-Encoding": coding} if coding != "identity" else {}
        return StreamingHttpResponse(StreamRelay(exchange, mirror), status=exchange.status, headers=headers)
    except upstreams.Unreachable as error:
        await mirror.give_back()
        await mirror.close(f.RunEnded(outcome="error", reason=f"The agent: {error}."))
        raise Problem(502, "upstream", f"The agent {upstream} did not answer: {error}.") from None
    except BaseException:
        if exchange is not None:
            exchange.close()
        await mirror.give_back()
        await mirror.close(None)
        raise


@endpoint("GET", "ingest")
async def resume(request: Any, caller: Caller, upstream: str) -> Any:
    """Tell what was answered here, once everything that the run asked is answered; `wait` for that."""
    _get_upstream_url(upstream)
    name = check_run_name(request.GET.get("run", ""))
    row = await read_with_retries(Run.objects.filter(source=caller.agent, name=name).afirst)
    if row is None:
        raise build_not_found()
    until = time.monotonic() + _parse_wait(request.GET.get("wait", "0"))
    async with listen(get_approvals_bell(row.pk)) as bell:
        while (standing := await _aload_pending_answers(row.pk)).waiting and (left := until - time.monotonic()) > 0:
            await bell.wait(min(left, HEARTBEAT))
    entries = [] if standing.waiting else _encode_entries(standing.answers)
    return {"run": name, "waiting": standing.waiting, "resume": entries}


class StreamRelay:
    """The body of our answer: the agent's, piece by piece. It ends once, also if it was never begun."""

    def __init__(self, exchange: upstreams.Exchange, mirror: RunMirror) -> None:
        self._exchange, self._mirror = exchange, mirror
        self._loop = asyncio.get_running_loop()
        self._end: f.RunEnded = f.RunEnded(outcome="aborted", reason="The client went away.")
        self._ending: asyncio.Task[None] | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._exchange.pieces():
                await self._mirror.see(piece)
                yield piece
            self._end = gate.build_end_of_stream()
        except upstreams.Unreachable as error:
            log.info("upstream: %s", error)
            self._end = gate.build_end_of_stream()
            raise
        finally:
            await asyncio.shield(self._finish())

    def close(self) -> None:
        """Hang up and end the mirror; Django calls this at the end of every response, from any thread."""
        self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> asyncio.Task[None]:
        if self._ending is None:
            self._exchange.close()
            self._ending = self._loop.create_task(self._mirror.close(self._end))
        return self._ending


class RunMirror:
    """The cards' side of one exchange. What goes wrong here never touches the stream."""

    def __init__(self, caller: Caller, name: str, agent: str) -> None:
        self.over = False
        self._connection = Connection(caller)
        self._splitter = EventSplitter(settings.TOOLCARDS.max_frame)
        self._taken: list[str] = []
        try:
            self._intake = Intake(
                caller, ADAPTERS["ag-ui"], run=name, agent=agent, mode="observe", channel="poll",
                on_open=self._connection.sends,
            )  # fmt: skip
        except BaseException:
            self._connection.close()
            raise

    async def answered(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Write down what the request answers; return it with what was answered here, if all is answered."""
        stream = self._intake.stream
        assert stream is not None
        before = await Run.objects.filter(source=stream.source, name=stream.run_name).afirst()
        if before is None:
            return asked
        told = resume_entries.read_answers(asked, (await _aload_pending_answers(before.pk)).batch)
        if told:
            stream.push([*told])
            await stream.wait_until_committed()
        standing = await _aload_pending_answers(before.pk)
        if standing.waiting or not standing.answers:
            return asked
        for approval in standing.ids:
            if await gate.aclaim_delivery(approval) is not None:
                self._taken.append(approval)
        return resume_entries.add_entries(asked, _encode_entries(standing.answers))

    async def give_back(self) -> None:
        """The agent did not hear our answers."""
        for approval in self._taken:
            await gate.arelease_delivery(approval)
        self._taken = []

    async def see(self, piece: bytes) -> None:
        """Take in a piece of the stream."""
        if self.over:
            return
        try:
            for frame in self._splitter.feed(piece):
                self._intake.take(frame)
            stream = self._intake.stream
            if stream is not None and stream.is_full:
                await asyncio.wait_for(stream.wait_for_room(), MAX_SLOWDOWN)
        except (BadFrame, TimeoutError, Problem) as error:
            log.warning("the copy of run %s was given up: %s", self._intake.run, error)
            self.over = True

    async def close(self, end: Any) -> None:
        """Write down the end; `end_of_stream` means that the agent has said what there was to say."""
        stream = self._intake.stream
        lease: float | None = None
        try:
            if stream is not None and end is not None and not self.over:
                for frame in self._splitter.end():
                    self._intake.take(frame)
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


# ---------------------------------------------------------------- questions and answers


class PendingAnswers:
    """The questions of a run that are not yet answered, and the answers that its agent has not heard."""

    def __init__(self, rows: list[Approval]) -> None:
        ready = [
            row for row in rows if row.state in DELIVERABLE_STATES and (row.by_kind == "host" or not _is_held_back(row))
        ]
        self.waiting = len(rows) - len(ready)
        self.ids = [row.id for row in ready]
        self.answers = [answer for row in ready if (answer := _build_answer(row)) is not None]
        asked = [row.call.as_card().approval for row in rows]
        batched = [ask for ask in asked if ask and _get_style(ask.reply_to) == "langgraph-batch"]
        self.batch = [ask.source_id for ask in sorted(batched, key=lambda ask: ask.reply_to.get("place", 0))]


def _is_held_back(row: Approval) -> bool:
    return clock.is_recent(row.decided_at, settings.TOOLCARDS.handover_seconds)


def _get_style(reply_to: Any) -> str:
    return str(reply_to.get("style", "")) if isinstance(reply_to, dict) else ""


def _build_answer(row: Approval) -> ApprovalAnswer | None:
    card = row.call.as_card()
    ask = card.approval
    if ask is None or ask.id != row.id:
        return None
    edited = card.input if card.repair == "edited" else None
    return ApprovalAnswer(card.call_id, ask.source_id, row.state == "approved", ask.reason, edited, ask.reply_to)


def _load_pending_answers(run: int) -> PendingAnswers:
    rows = Approval.objects.filter(run=run, opener="agent", channel="poll", delivered_at=None)
    found = rows.filter(state__in=["pending", *DELIVERABLE_STATES]).select_related("call").order_by("call__ordinal")
    return PendingAnswers(list(found))


_aload_pending_answers = retry_reads(_load_pending_answers)


def _encode_entries(answers: list[ApprovalAnswer]) -> list[dict[str, Any]]:
    together = ADAPTERS["ag-ui"].encode_all
    assert together is not None
    entries: list[dict[str, Any]] = together(answers)
    return entries


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


def _build_headers(request: Any) -> dict[str, str]:
    # What `Connection` names is for one hop, as these are.
    hop = {name.strip().lower() for name in request.headers.get("Connection", "").split(",")}
    kept = {name.lower(): value for name, value in request.headers.items() if name.lower() not in DROPPED_HEADERS | hop}
    theirs = kept.pop(AGENT_AUTHORIZATION, "")
    more = {"authorization": theirs} if theirs else {}
    fixed = {"content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity"}
    return kept | more | fixed


def _parse_wait(text: str) -> float:
    try:
        seconds = float(text or 0)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise Problem(400, "bad_wait", "wait must be a number of seconds.")
    return min(seconds, MAX_WAIT)
