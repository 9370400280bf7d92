"""Frames over HTTP: a body is read piece by piece, and cards move while it is open.

An ASGI application rather than a Django view, since Django hands a body over only when it is whole. A small body that
arrives whole is one group commit: no query and no thread hop, and the lease of its run is renewed by the same commit.
A large one is checked in slices, and takes a share of several commits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from toolcards import gate
from toolcards.adapters import Adapter, BadFrame
from toolcards.core.calls.card import Card
from toolcards.database import retry_reads
from toolcards.gate import RequestRefused
from toolcards.models import ToolCall
from toolcards.transports import shutdown
from toolcards.transports.agents import ingest_bodies
from toolcards.transports.agents.frame_intake import (
    Intake,
    check_run_name,
    check_stream_name,
    get_adapter,
    parse_mode,
)
from toolcards.transports.api import asgi_messages, auth, origins
from toolcards.transports.api.admission import admit
from toolcards.transports.api.api_errors import (
    Problem,
    build_restarting,
    convert_bad_frame,
    convert_outage,
    convert_refusal,
)
from toolcards.transports.background import scheduler
from toolcards.transports.background.connections import AgentConnection, PostedBody
from toolcards.transports.loop_share import Slices

log = logging.getLogger(__name__)
UNREADABLE_CODES = frozenset({"not_json", "not_object", "not_sse", "duplicate_key"})
SECONDS_AT_SHUTDOWN = 1.0  # seconds of a shutdown in which a body may still end by itself
_KEY_FIELDS = ("protocol", "run", "agent", "mode", "answers")  # of the query: a keyed body is bound to them


class SenderDisconnected(Exception):
    """Raised when the sender disconnects before the end of its body."""


async def answer_ingest(scope: Any, receive: Any, send: Any) -> None:
    """Answer one POST to /api/v1/ingest (ASGI)."""
    scheduler.start()
    request = IngestRequest(scope, receive)
    try:
        origins.check_host(scope)
        content, headers = await request.process()
        if not request.is_unread:
            await asgi_messages.send_json(scope, send, content, headers)
            return
        response = asgi_messages.build_response(content, headers=headers)
    except SenderDisconnected:
        return
    except Problem as problem:
        response = asgi_messages.build_error_response(problem)
    except RequestRefused as refusal:
        response = asgi_messages.build_error_response(convert_refusal(refusal))
    except Exception as error:
        response = asgi_messages.build_error_response(convert_outage(error) or _build_internal_problem(error))
    with contextlib.suppress(Exception):  # the sender has disconnected
        if request.is_unread and asgi_messages.has_body(scope):
            await asgi_messages.respond_early(scope, receive, send, response)
        else:
            await asgi_messages.respond(send, response)


def _build_internal_problem(error: Exception) -> Problem:
    log.error("ingest failed", exc_info=error)
    return Problem(500, "internal", "Internal error. Send the request again.")


class IngestRequest:
    """One POST to /api/v1/ingest."""

    def __init__(self, scope: Any, receive: Any) -> None:
        self.is_unread = True  # the end of the body was not read yet
        self._scope, self._receive = scope, receive
        self._unread_size = asgi_messages.get_announced_length(scope)  # bytes that are announced and not read yet
        self._reading: asyncio.Timeout | None = None
        self._decisions: list[dict[str, Any]] = []
        self._approvals: list[dict[str, str]] = []  # opened by this body, with `answers=poll`

    async def process(self) -> tuple[Any, dict[str, str]]:
        """Read the body and wait for its commit.

        Return the answer and its headers. Raises Problem.
        """
        if self._scope["method"] != "POST":
            raise Problem(405, "method_not_allowed", "Use POST.", headers={"Allow": "POST"})
        headers = asgi_messages.read_headers(self._scope, b"authorization", b"content-type", b"idempotency-key")
        authorization, content_type, key = headers
        caller = await auth.authenticate_agent(authorization, "ingest")
        admit(self._scope, streams=True)
        splitter = ingest_bodies.build_splitter(content_type)
        query = asgi_messages.parse_parameters(self._scope["query_string"])
        adapter = get_adapter(query.get("protocol", ""))
        run, mode = check_run_name(query.get("run", "")), parse_mode(query.get("mode", ""), "observe", caller)
        stream_name = check_stream_name(query.get("stream", ""))
        if len(key) > 200:
            raise Problem(400, "bad_key", "Idempotency-Key must have at most 200 characters.")
        options: dict[str, Any] = {
            "run": run, "agent": query.get("agent", ""), "mode": mode,
            "channel": "poll" if query.get("answers") == "poll" else "http", "numbering": stream_name,
            "on_commit": self._on_commit,
        }  # fmt: skip

        async def take(make_intake: Callable[..., Intake] = Intake) -> dict[str, Any]:
            connection = AgentConnection(caller, self._stop_reading)
            intake = make_intake(caller, adapter, on_open=connection.sends, **options)
            return await self._take_stream(intake, splitter, connection, first_piece)

        first_piece = None
        if not key:
            first_piece = await self._receive_piece()
            if self.is_unread:
                return await take(), {}
            auth.charge(caller.agent.pk, len(first_piece))
            posted_body = PostedBody(_get_lease(adapter))
            intake = Intake(caller, adapter, on_open=posted_body.open, **options)
            return await self._take_whole(intake, splitter, posted_body, first_piece), {}
        request = {name: query.get(name, "") for name in (*_KEY_FIELDS, *(("stream",) if stream_name else ()))}
        return await ingest_bodies.process_once(caller, key, request, take, self._iterate_frames(splitter))

    def _on_commit(self, report: gate.CommitReport) -> None:
        self._decisions += report.decisions
        self._approvals += report.approvals

    async def _take_whole(self, intake: Intake, splitter: Any, posted_body: PostedBody, body: bytes) -> dict[str, Any]:
        """Take a body that has arrived whole."""
        start = time.time()
        try:
            await _take_frames(intake, [*splitter.feed(body), *await Slices().collect(splitter.end())])
            self._refuse_unreadable(intake)
            stream = intake.stream or intake.open()
            intake.end()
            await stream.wait_until_committed()
        except BadFrame as bad:
            raise convert_bad_frame(bad) from None
        finally:
            posted_body.close()
        return self._build_answer(intake, *_list_cards(stream.cards, start))

    async def _take_stream(
        self, intake: Intake, splitter: Any, connection: AgentConnection, first_piece: bytes | None
    ) -> dict[str, Any]:
        """Take a body piece by piece."""
        lease: float | None = None  # broken off: the grace time
        body_start = time.time()
        try:
            await self._read_while_allowed(intake, splitter, first_piece)
            self._refuse_unreadable(intake)
            stream = intake.stream or intake.open()
            stream.is_shared = not connection.is_alone
            intake.end()
            await stream.wait_until_committed()
            lease = _get_lease(intake.adapter)
        finally:
            connection.close(lease=lease)
        ordinals, start = sorted(stream.touched_calls), intake.earlier_start or body_start
        return self._build_answer(intake, *await _alist_touched_calls(stream.run_pk, ordinals, start))

    async def _read_while_allowed(self, intake: Intake, splitter: Any, first_piece: bytes | None) -> None:
        """Read the body; raises Problem once the key is revoked. What was read until then is kept."""
        try:
            async with asyncio.timeout(None) as self._reading:
                await self._read(intake, splitter, first_piece)
        except TimeoutError:
            raise auth.build_unauthorized("This key was revoked.") from None
        finally:
            self._reading = None

    def _stop_reading(self, code: int, message: str) -> None:
        if self._reading is not None and not self._reading.expired():
            self._reading.reschedule(asyncio.get_running_loop().time())

    async def _read(self, intake: Intake, splitter: Any, first_piece: bytes | None) -> None:
        try:
            async with shutdown.limit(SECONDS_AT_SHUTDOWN):
                await self._read_pieces(intake, splitter, first_piece)
            await _take_frames(intake, await Slices().collect(splitter.end()))
        except TimeoutError:  # between two frames: what was read is committed, the rest is for the retry
            if intake.stream is not None:
                await intake.stream.wait_until_committed()
            raise build_restarting() from None
        except BadFrame as bad:
            raise convert_bad_frame(bad) from None

    async def _read_pieces(self, intake: Intake, splitter: Any, piece: bytes | None) -> None:
        while piece is not None or self.is_unread:
            data = await self._receive_piece() if piece is None else piece
            for part in (data[: intake.covered_size], data[intake.covered_size :]):
                await intake.charge(len(part), max(0, self._unread_size))
                await _take_frames(intake, splitter.feed(part))
            piece = None
            if intake.stream is not None and intake.stream.error is not None:
                raise intake.stream.error
            if intake.stream is not None and intake.stream.is_full:
                await intake.stream.wait_for_room()

    async def _iterate_frames(self, splitter: Any) -> AsyncIterator[str]:
        """Yield the frames of a body that was answered before, without writing them."""
        try:
            async with shutdown.limit(SECONDS_AT_SHUTDOWN):
                while self.is_unread:
                    slices = Slices()
                    for frame in splitter.feed(await self._receive_piece()):
                        yield frame
                        if slices.is_over:
                            await slices.pause()
            for frame in await Slices().collect(splitter.end()):
                yield frame
        except TimeoutError:
            raise build_restarting() from None
        except BadFrame as bad:
            raise convert_bad_frame(bad) from None

    async def _receive_piece(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise SenderDisconnected
        self.is_unread = message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        self._unread_size -= len(piece)
        return piece

    def _refuse_unreadable(self, intake: Intake) -> None:
        """Raise Problem for a body without a single usable frame."""
        bad = intake.first_error
        if bad is None or intake.accepted_count or intake.skipped_count:
            return
        if bad.code in UNREADABLE_CODES or convert_bad_frame(bad).status == 413:
            raise convert_bad_frame(bad)

    def _build_answer(self, intake: Intake, calls: list[dict[str, str]], anomalies: int) -> dict[str, Any]:
        stream = intake.stream
        assert stream is not None
        answer: dict[str, Any] = {
            "run": intake.run, "accepted": intake.accepted_count, "skipped": intake.skipped_count,
            "refused": intake.refused_count, "anomalies": anomalies, "seq": stream.seq, "calls": calls,
        }  # fmt: skip
        if intake.mode == "gate":
            answer["decisions"] = self._decisions
        if self._approvals:
            answer["asked"] = self._approvals
        if intake.first_error is not None:
            answer["error"] = {"code": intake.first_error.code, "message": intake.first_error.message}
        return answer


async def _take_frames(intake: Intake, frames: Iterable[str]) -> None:
    """Take the frames of a piece in slices."""
    slices = Slices()
    for frame in frames:
        intake.take(frame)
        if slices.is_over:
            await slices.pause()


def _get_lease(adapter: Adapter) -> float:
    """Return the lease after the body. A complete stream may be quiet for days, until its approvals are answered."""
    return math.inf if adapter.body_is_stream else gate.REQUEST_LEASE


def _list_cards(cards: list[Card], start: float) -> tuple[list[dict[str, str]], int]:
    """Return the calls with their states, and the number of their anomalies since then."""
    visible = [card for card in cards if not card.removed]
    calls = [{"call_id": card.call_id, "state": str(card.state or "")} for card in visible]
    return calls, sum(seen_at >= start for card in visible for _, seen_at in card.anomalies)


def _list_touched_calls(run: int, ordinals: list[int], start_time: float) -> tuple[list[dict[str, str]], int]:
    """Return the same from the database, where an earlier request committed a part of the body."""
    calls, anomalies = [], 0
    for start in range(0, len(ordinals), 500):
        part = ordinals[start : start + 500]
        rows = ToolCall.objects.filter(run=run, ordinal__in=part, removed=False).order_by("ordinal")
        for call_id, state, card in rows.values_list("call_id", "state", "card"):
            calls.append({"call_id": call_id, "state": state})
            if '"anomalies"' in card:
                anomalies += sum(time_seen >= start_time for _, time_seen in json.loads(card).get("anomalies", ()))
    return calls, anomalies


_alist_touched_calls = retry_reads(_list_touched_calls)
