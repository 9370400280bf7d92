"""Frames over HTTP: a body is read piece by piece, and cards move while it is open.

A Channels consumer rather than a Django view, since Django hands a body over only when it is whole.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from channels.consumer import AsyncConsumer
from django.conf import settings

from toolcards import gate
from toolcards.adapters import BadFrame
from toolcards.adapters.sse import EventSplitter, LineSplitter
from toolcards.database import retry_reads
from toolcards.gate import RequestRefused
from toolcards.models import ToolCall
from toolcards.transports import shutdown
from toolcards.transports.agents import keyed_bodies
from toolcards.transports.agents.frame_intake import (
    Intake,
    check_run_name,
    check_stream_name,
    get_adapter,
    parse_mode,
    split_frames,
)
from toolcards.transports.api import asgi_views, auth, origins
from toolcards.transports.api.admission import admit
from toolcards.transports.api.api_errors import (
    Problem,
    build_restarting,
    convert_bad_frame,
    convert_outage,
    convert_refusal,
)
from toolcards.transports.background import scheduler
from toolcards.transports.background.connections import Connection

log = logging.getLogger(__name__)
UNREADABLE_CODES = frozenset({"not_json", "not_object", "not_sse", "duplicate_key"})
SECONDS_AT_SHUTDOWN = 1.0  # seconds of a shutdown in which a body may still end by itself


class SenderDisconnected(Exception):
    """Raised when the sender disconnects before the end of its body."""


class JsonBodySplitter:
    """The frames of an application/json body: one object, or an array of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[str]:
        """Keep the piece; raises BadFrame with code too_large."""
        self._size += len(data)
        if self._size > self._limit:
            raise BadFrame(f"a JSON body has at most {self._limit} bytes; stream it as NDJSON", "too_large")
        self._pieces.append(data)
        return []

    def end(self) -> list[str]:
        """Return the frames."""
        try:
            text = b"".join(self._pieces).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise BadFrame("not JSON: not UTF-8", "not_json") from None
        return split_frames(text.strip())


class SseBodySplitter(EventSplitter):
    """Splits server-sent events; refuses a body without a single SSE line."""

    FIELDS = ("data", "event", "id", "retry", ":")

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._seen = False
        self._text = False

    def _frames(self, lines: list[str]) -> list[str]:
        for line in lines if not self._seen else ():
            self._text = self._text or bool(line.strip())
            self._seen = self._seen or line.startswith(self.FIELDS)
        return super()._frames(lines)

    def end(self) -> list[str]:
        """Return what was left; raises BadFrame for what never was a stream of events."""
        frames = super().end()
        if self._text and not self._seen:
            raise BadFrame("no server-sent events in this body", "not_sse")
        return frames


def _build_splitter(content_type: str) -> Any:
    env, kind = settings.TOOLCARDS, content_type.partition(";")[0].strip().lower()
    made = {
        "text/event-stream": lambda: SseBodySplitter(env.max_frame),
        "application/x-ndjson": lambda: LineSplitter(env.max_frame),
        "application/json": lambda: JsonBodySplitter(env.max_body),
    }
    if kind not in made:
        raise Problem(415, "unsupported_media_type", f"Content-Type must be one of: {', '.join(sorted(made))}.")
    return made[kind]()


class IngestConsumer(AsyncConsumer):
    """One POST to /api/v1/ingest."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request (ASGI)."""
        scheduler.start()
        self._receive, self._scope = receive, scope
        self._more = True
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        given = parse_qs(scope["query_string"].decode("utf-8", "replace"), keep_blank_values=True)
        try:
            origins.check_host(scope)
            answer = asgi_views.build_response(
                *await self._asked(scope["method"], headers, {k: v[-1] for k, v in given.items()})
            )
        except SenderDisconnected:
            return
        except Problem as problem:
            answer = asgi_views.build_error_response(problem)
        except RequestRefused as refused:
            answer = asgi_views.build_error_response(convert_refusal(refused))
        except Exception as error:
            answer = asgi_views.build_error_response(convert_outage(error) or self._broken(error))
        with contextlib.suppress(Exception):  # gone meanwhile
            if self._more and asgi_views.has_body(scope):
                await asgi_views.respond_early(scope, receive, send, answer)
            else:
                await asgi_views.respond(send, answer)

    @staticmethod
    def _broken(error: Exception) -> Problem:
        log.error("ingest failed", exc_info=error)
        return Problem(500, "internal", "Internal error. Send the request again.")

    async def _asked(self, method: str, headers: dict[str, str], given: dict[str, str]) -> tuple[Any, ...]:
        if method != "POST":
            raise Problem(405, "method_not_allowed", "Use POST.", headers={"Allow": "POST"})
        caller = await auth.authenticate_agent(headers.get("authorization", ""), "ingest")
        admit(self._scope, streams=True)
        splitter = _build_splitter(headers.get("content-type", ""))
        self._decisions: list[dict[str, Any]] = []
        self._asked_here: list[dict[str, str]] = []
        adapter = get_adapter(given.get("protocol", ""))
        run, mode = check_run_name(given.get("run", "")), parse_mode(given.get("mode", ""), "observe", caller)
        stream, key = check_stream_name(given.get("stream", "")), headers.get("idempotency-key", "")
        if len(key) > 200:
            raise Problem(400, "bad_key", "Idempotency-Key must have at most 200 characters.")

        async def work(make: Callable[..., Intake] = Intake) -> dict[str, Any]:
            connection = Connection(caller)
            intake = make(
                caller, adapter, run=run, agent=given.get("agent", ""), mode=mode,
                channel="poll" if given.get("answers") == "poll" else "http", numbering=stream,
                on_open=connection.sends, on_commit=self._committed,
            )  # fmt: skip
            return await self._take_in(intake, splitter, connection)

        if not key:
            return (await work(),)
        named = ("protocol", "run", "agent", "mode", "answers", *(("stream",) if stream else ()))
        return await keyed_bodies.process_once(caller, key, {name: given.get(name, "") for name in named}, work)

    def _committed(self, told: gate.CommitReport) -> None:
        self._decisions.extend(told.decisions)
        self._asked_here.extend(told.approvals)

    # ------------------------------------------------------------ one body

    async def _take_in(self, intake: Intake, splitter: Any, connection: Connection) -> dict[str, Any]:
        lease: float | None = None  # broken off: the grace time
        started = time.time()
        try:
            await self._read(intake, splitter)
            if not (intake.accepted or intake.skipped):
                self._refuse_all(intake)
            stream = intake.stream or intake.open()
            stream.is_shared = not connection.is_alone
            intake.end()
            await stream.wait_until_committed()
            # A whole stream may rest for days until somebody answers what it asked.
            lease = math.inf if intake.adapter.body_is_stream else gate.REQUEST_LEASE
        finally:
            connection.close(lease=lease)
        return await self._said(intake, intake.since or started)

    async def _read(self, intake: Intake, splitter: Any) -> None:
        try:
            async with shutdown.limit(SECONDS_AT_SHUTDOWN):
                await self._read_pieces(intake, splitter)
            for frame in splitter.end():
                intake.take(frame)
        except TimeoutError:  # between two frames: what was read is committed, the rest is for the retry
            if intake.stream is not None:
                await intake.stream.wait_until_committed()
            raise build_restarting() from None
        except BadFrame as bad:
            raise convert_bad_frame(bad) from None

    async def _read_pieces(self, intake: Intake, splitter: Any) -> None:
        while self._more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise SenderDisconnected
            self._more = message.get("more_body", False)
            for frame in splitter.feed(message.get("body", b"")):
                intake.take(frame)
            if intake.stream is not None and intake.stream.error is not None:
                raise intake.stream.error
            if intake.stream is not None and intake.stream.is_full:
                await intake.stream.wait_for_room()

    def _refuse_all(self, intake: Intake) -> None:
        """A body of which nothing could be used at all is no body."""
        bad = intake.first_error
        if bad is not None and (bad.code in UNREADABLE_CODES or convert_bad_frame(bad).status == 413):
            raise convert_bad_frame(bad)

    async def _said(self, intake: Intake, since: float) -> dict[str, Any]:
        stream = intake.stream
        assert stream is not None
        calls, anomalies = await _alist_touched_calls(stream.run_pk, sorted(stream.touched_calls), since)
        said: dict[str, Any] = {
            "run": intake.run, "accepted": intake.accepted, "skipped": intake.skipped, "refused": intake.refused,
            "anomalies": anomalies, "seq": stream.seq, "calls": calls,
        }  # fmt: skip
        if intake.mode == "gate":
            said["decisions"] = self._decisions
        if self._asked_here:  # the sender said `answers=poll`: it looks at these approvals until somebody answers
            said["asked"] = self._asked_here
        if intake.first_error is not None:
            said["error"] = {"code": intake.first_error.code, "message": intake.first_error.message}
        return said


def _list_touched_calls(run: int, ordinals: list[int], since: float) -> tuple[list[dict[str, str]], int]:
    """The calls that the body spoke of, as they are now, and how many oddities it brought."""
    calls, odd = [], 0
    for start in range(0, len(ordinals), 500):
        part = ordinals[start : start + 500]
        rows = ToolCall.objects.filter(run=run, ordinal__in=part, removed=False).order_by("ordinal")
        for call_id, state, card in rows.values_list("call_id", "state", "card"):
            calls.append({"call_id": call_id, "state": state})
            if '"anomalies"' in card:
                odd += sum(at >= since for _, at in json.loads(card).get("anomalies", ()))
    return calls, odd


_alist_touched_calls = retry_reads(_list_touched_calls)
