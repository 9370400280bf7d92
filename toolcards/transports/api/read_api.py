"""Reading as JSON: runs, calls, events, approvals. For agents with the scope read, and for signed-in people."""

from __future__ import annotations

from typing import Any

from django.http import StreamingHttpResponse

from toolcards.transports.api import read_queries, sse
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.asgi_views import HEADERS, endpoint
from toolcards.transports.api.auth import Caller


@endpoint("GET", "read", people=True)
async def runs(request: Any, caller: Caller) -> Any:
    """Return a page of runs, newest first."""
    return await read_queries.aruns_page(caller, request.GET)


@endpoint("GET", "read", people=True)
async def run(request: Any, caller: Caller, run: str) -> Any:
    """Return one run."""
    return await read_queries.aone_run(caller, run, request.GET)


@endpoint("GET", "read", people=True)
async def calls(request: Any, caller: Caller, run: str) -> Any:
    """Return a page of the run's calls, in order of first sight."""
    return await read_queries.acalls_page(caller, run, request.GET)


@endpoint("GET", "read", people=True)
async def approvals(request: Any, caller: Caller) -> Any:
    """Return a page of approvals; a key sees its own source's unless it has the scope read:all."""
    return await read_queries.aapprovals_page(caller, request.GET)


@endpoint("GET", "read", people=True)
async def events(request: Any, caller: Caller, run: str) -> Any:
    """Return the run's events: a page of JSON, or the live stream to who accepts text/event-stream."""
    found = await read_queries.arun_seen_by(caller, run, request.GET.get("source", ""))
    if "text/event-stream" not in request.headers.get("Accept", ""):
        return await sse.page(found, read_queries.cursor_of(request.GET, 2), read_queries.limit_of(request.GET))
    frames = sse.frames(found, _last_seen(request))
    headers = HEADERS | {"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(frames, headers=headers)


def _last_seen(request: Any) -> int:
    """The position after which the stream begins: 0 without `Last-Event-ID`."""
    given = request.headers.get("Last-Event-ID", "").strip()
    if given and not (given.isascii() and given.isdigit() and len(given) < 19):
        raise Problem(400, "bad_event_id", "Last-Event-ID is none of ours.")
    return int(given or 0)
