"""Reading as JSON: runs, calls, events and approvals, for agents with the scope `read` and for signed-in people.

Each answer takes a fixed number of queries, on a thread of the pool.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db.models import Q
from django.db.models.functions import Length
from django.http import StreamingHttpResponse

from toolcards.core.calls.call_json import build_call_json, format_time
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.calls.facts import InputDelta
from toolcards.database import retry_reads
from toolcards.encryption import get_redactor
from toolcards.long_reads import readers
from toolcards.models import AmbiguousRun, Approval, Event, Run, ToolCall, decode_run_name
from toolcards.transports.api import sse
from toolcards.transports.api.api_errors import Problem, build_not_found
from toolcards.transports.api.asgi_messages import HEADERS
from toolcards.transports.api.asgi_views import endpoint
from toolcards.transports.api.auth import Caller
from toolcards.transports.api.sse import iterate_while_allowed
from toolcards.transports.approval_json import serialize_approval

MAX_LIMIT = 200
MAX_PAGE = 4 << 20  # characters of a page's calls as stored, beyond its first one
STATES = frozenset(ToolCallState)
STATUSES = ("running", "waiting", "finished", "error", "aborted", "truncated")
APPROVAL_STATES = (
    "pending", "approved", "claimed", "succeeded", "failed", "unknown", "denied", "expired", "revoked", "cancelled",
    "superseded",
)  # fmt: skip


def parse_limit(query: Any, default: int = 50) -> int:
    """Return `limit`, clamped to 1..200.

    Raises Problem if it is not a number.
    """
    text = query.get("limit", "")
    if not text:
        return default
    try:
        return max(1, min(MAX_LIMIT, int(text)))
    except ValueError:
        raise Problem(400, "bad_limit", "limit must be a whole number.") from None


def parse_cursor(query: Any, parts: int = 1) -> tuple[float, ...] | None:
    """Return the numbers of `cursor`, None without one; raises Problem."""
    text = query.get("cursor", "")
    if not text:
        return None
    try:
        numbers = tuple(int(part) for part in text.split("."))
        if len(numbers) == parts and all(0 <= number < 2**62 for number in numbers):
            return numbers
    except ValueError:
        pass
    raise Problem(400, "bad_cursor", "Invalid cursor. Use `next` from the previous page.")


def parse_choice(query: Any, name: str, words: Iterable[str]) -> str:
    """Return a filter's value, "" without one; raises Problem for unknown words."""
    word: str = query.get(name, "")
    if word and word not in words:
        raise Problem(400, f"bad_{name}", f"{name} must be one of: {', '.join(sorted(words))}.")
    return word


def find_run(caller: Caller, name: str, source: str = "") -> Run:
    """Return the run of that name; raises Problem 404 or 409.

    Without a source, a key means its own source's run. Only people and keys with `read:all` reach other sources.
    """
    name = decode_run_name(name)
    own = caller.reads_only or (caller.source if not source else None)
    if own is not None and source in ("", own.name):
        run: Run | None = Run.objects.select_related("source").filter(source=own, name=name).first()
        if run is not None:
            return run
    if caller.reads_only:
        raise build_not_found()
    return _find_only_run(name, source)


def _find_only_run(name: str, source: str) -> Run:
    try:
        return Run.objects.only_one(name, source)
    except Run.DoesNotExist:
        raise build_not_found() from None
    except AmbiguousRun as ambiguous:
        message = "Several sources have a run of this name. Choose one with ?source=."
        raise Problem(409, "ambiguous_run", message, sources=ambiguous.sources) from None


def serialize_run(run: Run) -> dict[str, Any]:
    """Return a run as the contract's section 4 shows it."""
    return {
        "run": run.name,
        "agent": run.agent or run.source.name,
        "protocol": run.protocol,
        "status": run.status,
        "started_at": format_time(run.started_at.timestamp()),
        "ended_at": format_time(run.ended_at.timestamp()) if run.ended_at else None,
        "calls": run.calls,
        "counts": run.count_by_state,
        "skipped": serialize_skipped_frames(run),
        "url": run.url,
        "title": get_redactor().text(run.title),
        "source": run.source.name,
        "mode": run.mode,
        "reason": get_redactor().text(run.reason) or None,
        "seq": run.seq,
    }


def serialize_skipped_frames(run: Run) -> dict[str, Any]:
    """Return the numbers of skipped frames: total, by kind, and other."""
    frames = run.skipped_frames
    return {"frames": frames.total, "kinds": dict(frames.by_number()), "other": frames.other}


def list_runs(caller: Caller, query: Any) -> dict[str, Any]:
    """Return a page of runs, newest first."""
    limit, cursor, status = parse_limit(query), parse_cursor(query), parse_choice(query, "status", STATUSES)
    runs = Run.objects.select_related("source").order_by("-id")
    if caller.reads_only:
        runs = runs.filter(source=caller.reads_only)
    if status:
        runs = runs.filter(status=status)
    if agent := query.get("agent", ""):
        runs = runs.filter(Q(agent=agent) | Q(agent="", source__name=agent))
    if source := query.get("source", ""):
        runs = runs.filter(source__name=source)
    if cursor:
        runs = runs.filter(id__lt=cursor[0])
    page = list(runs[: limit + 1])
    more = str(page[limit - 1].pk) if len(page) > limit else None
    return {"runs": [serialize_run(run) for run in page[:limit]], "next": more}


def get_run(caller: Caller, name: str, query: Any) -> dict[str, Any]:
    """Return one run."""
    return serialize_run(find_run(caller, name, query.get("source", "")))


def list_calls(caller: Caller, name: str, query: Any) -> dict[str, Any]:
    """Return a page of the run's calls, in order of first sight."""
    run = find_run(caller, name, query.get("source", ""))
    limit, cursor, state = parse_limit(query), parse_cursor(query), parse_choice(query, "state", STATES)
    calls = ToolCall.objects.not_removed().filter(run=run).order_by("ordinal")
    if state:
        calls = calls.filter(state=state)
    if cursor:
        calls = calls.filter(ordinal__gt=cursor[0])
    ordinals, has_more = _list_fitting_calls(calls, limit)
    page = list(calls.filter(ordinal__lte=ordinals[-1])) if ordinals else []
    more = str(ordinals[-1]) if has_more else None
    pairs = zip(page, load_cards(page), strict=True)
    return {"calls": [build_call_json(card, run=run.name, id=call.public_id) for call, card in pairs], "next": more}


def _list_fitting_calls(calls: Any, limit: int) -> tuple[list[int], bool]:
    """Return the ordinals of a page's calls, and whether more follow.

    A page ends at `limit` calls, or earlier with large ones: 200 outputs can have as many megabytes.
    """
    rows = list(calls.annotate(size=Length("card") + Length("text")).values_list("ordinal", "size")[: limit + 1])
    totals = itertools.accumulate(size for _, size in rows[:limit])
    fitting = 1 + sum(total <= MAX_PAGE for total in itertools.islice(totals, 1, None))
    ordinals = [ordinal for ordinal, _ in rows[:fitting]]
    return ordinals, len(rows) > len(ordinals)


def load_cards(calls: list[ToolCall]) -> list[Card]:
    """Return the calls' cards, with texts completed from the log.

    Takes one query.
    """
    late = [call for call in calls if call.text_seq < call.seq and call.state == "input-streaming"]
    texts: dict[tuple[int, int], list[str]] = defaultdict(list)
    missing_texts = Q(pk__in=())
    for call in late:
        missing_texts |= Q(run_id=call.run_id, ordinal=call.ordinal, seq__gt=call.text_seq, seq__lte=call.seq)
    if late:
        for event in Event.objects.filter(missing_texts).of_type(InputDelta.type).order_by("seq"):
            if isinstance(fact := event.readable_fact, InputDelta):
                texts[event.run_id, event.ordinal].append(fact.text)
    hide = get_redactor()
    return [hide.card(call.as_card(texts[call.run_id, call.ordinal])) for call in calls]


def list_approvals(caller: Caller, query: Any) -> dict[str, Any]:
    """Return a page of approvals, newest first; pending ones oldest first."""
    limit, state = parse_limit(query), parse_choice(query, "state", ("waiting", *APPROVAL_STATES))
    rows = Approval.objects.filter(asked=True).select_related("run__source", "call")
    if caller.reads_only:
        rows = rows.filter(run__source=caller.reads_only)
    if state:
        rows = rows.filter(twin="", state="pending") if state in ("waiting", "pending") else rows.filter(state=state)
    way, later = ("", "gt") if state == "waiting" else ("-", "lt")
    rows = rows.order_by(f"{way}requested_at", f"{way}call")
    if text := query.get("cursor", ""):
        last = Approval.objects.filter(id=text).values("requested_at", "call").first()
        if last is None:
            raise Problem(400, "bad_cursor", "Invalid cursor. Use `next` from the previous page.")
        requested_at, call = last["requested_at"], last["call"]
        rows = rows.filter(
            Q(**{f"requested_at__{later}": requested_at}) | Q(requested_at=requested_at, **{f"call__{later}": call})
        )
    page = list(rows[: limit + 1])
    return {"approvals": _serialize_approvals(page[:limit]), "next": page[limit - 1].id if len(page) > limit else None}


def _serialize_approvals(rows: list[Approval]) -> list[dict[str, Any]]:
    cards = load_cards([row.call for row in rows])
    return [serialize_approval(row, card) for row, card in zip(rows, cards, strict=True)]


alist_runs, aget_run, alist_calls = retry_reads(list_runs), retry_reads(get_run), retry_reads(list_calls, readers)
alist_approvals, afind_run = retry_reads(list_approvals), retry_reads(find_run)


# ---------------------------------------------------------------- the views


@endpoint("GET", "read", people=True)
async def runs(request: Any, caller: Caller) -> Any:
    """Return a page of runs, newest first."""
    return await alist_runs(caller, request.GET)


@endpoint("GET", "read", people=True)
async def run(request: Any, caller: Caller, run: str) -> Any:
    """Return one run."""
    return await aget_run(caller, run, request.GET)


@endpoint("GET", "read", people=True)
async def calls(request: Any, caller: Caller, run: str) -> Any:
    """Return a page of the run's calls, in order of first sight."""
    return await alist_calls(caller, run, request.GET)


@endpoint("GET", "read", people=True)
async def approvals(request: Any, caller: Caller) -> Any:
    """Return a page of approvals that the caller may read."""
    return await alist_approvals(caller, request.GET)


@endpoint("GET", "read", people=True)
async def events(request: Any, caller: Caller, run: str) -> Any:
    """Return the run's events: a page of JSON, or a live stream.

    Clients get the stream if they accept text/event-stream.
    """
    stored_run = await afind_run(caller, run, request.GET.get("source", ""))
    if "text/event-stream" not in request.headers.get("Accept", ""):
        return await sse.read_page(stored_run, parse_cursor(request.GET, 2), parse_limit(request.GET))
    frames = iterate_while_allowed(caller, sse.stream_frames(stored_run, _parse_last_event_id(request)))
    headers = HEADERS | {"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
    return StreamingHttpResponse(frames, headers=headers)


def _parse_last_event_id(request: Any) -> int:
    """Return the position after which the stream begins.

    It is 0 without `Last-Event-ID`.
    """
    query = request.headers.get("Last-Event-ID", "").strip()
    if query and not (query.isascii() and query.isdigit() and len(query) < 19):
        raise Problem(400, "bad_event_id", "Invalid Last-Event-ID. Use an id from the event stream.")
    return int(query or 0)
