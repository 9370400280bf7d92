"""The audit trail for people: search, verification, export, and unmasked calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import reduce
from operator import or_
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_GET, require_POST

from dashboard import url_helpers
from dashboard.accounts.access import READ_AUDIT, api, needs
from dashboard.audit.act_sentences import describe_act
from dashboard.cards import rendering
from toolcards.audit import verification
from toolcards.audit.rows import AuditQuerySet, AuditRow
from toolcards.audit.trail import Act, write_acts
from toolcards.core.summaries.summary import summarize
from toolcards.models import Run, ToolCall
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.read_api import parse_cursor, parse_limit
from toolcards.transports.background import anchor_copies

READ = READ_AUDIT
REVEAL = "toolcards.reveal"
PAGE = 100
FILTERS = {"act": "act__startswith", "person": "actor", "run": "run", "call": "call", "approval": "approval"}


@require_GET
@needs(READ)
def audit(request: HttpRequest) -> HttpResponse:
    """List the newest rows first, in pages."""
    names = (*FILTERS, "about", "since", "until", "before")
    filters = {name: request.GET.get(name, "").strip()[:200] for name in names}
    rows = list(filter_rows(filters).order_by("-seq")[: PAGE + 1])
    sources, calls = _find_source_names(rows), _summarize_calls(rows[:PAGE])
    context = {
        "rows": [(row, sources.get(row.call.partition("-")[0], ""), *_read(row, calls)) for row in rows[:PAGE]],
        "next": rows[PAGE - 1].seq if len(rows) > PAGE else None,
        "filters": filters,
        "verified": verification.get_last_result(),
        "since": _count_new_rows(verification.get_last_result()),
        "copies": _list_copies(),
        "acts": AuditRow.objects.order_by("act").values_list("act", flat=True).distinct(),
    }
    return render(request, "audit/audit.html", context)


def _list_copies() -> list[dict[str, Any]]:
    """Return where copies of the anchor are sent, and what each place has received from this process."""
    places = [
        (name, anchor_copies.destinations.get(name, anchor_copies.Destination()))
        for name in settings.TOOLCARDS.audit_copy
    ]
    return [
        {
            "label": anchor_copies.describe_destination(name),
            "seq": place.seq,
            "at": place.number and place.at,
            "trouble": place.trouble,
        }
        for name, place in places
    ]


def _find_source_names(rows: list[AuditRow]) -> dict[str, str]:
    """Return the names of the sources by run number, because several sources can use the same run name."""
    numbers = {call_id[0] for row in rows if (call_id := url_helpers.read_public_id(row.call))}
    return {str(pk): name for pk, name in Run.objects.filter(pk__in=numbers).values_list("pk", "source__name")}


def _read(row: AuditRow, calls: dict[str, str]) -> tuple[dict[str, Any], str]:
    """Return the details of the row, and its sentence."""
    details = row.readable
    return details, describe_act(row, details, calls.get(row.call, ""))


def _summarize_calls(rows: list[AuditRow]) -> dict[str, str]:
    """Return the calls of the rows as sentences, by their ids; those that were deleted are left out."""
    numbers = {call_id for row in rows if (call_id := url_helpers.read_public_id(row.call))}
    if not numbers:
        return {}
    is_named = reduce(or_, (Q(run_id=run, ordinal=ordinal) for run, ordinal in numbers))
    calls = ToolCall.objects.select_related("run", "run__source").filter(is_named)
    return {call.public_id: summarize(call.as_shown_card()) for call in calls}


def _count_new_rows(last_result: verification.VerificationResult | None) -> int:
    """Return how many rows were added since the last verification."""
    return AuditRow.objects.filter(seq__gt=last_result.finding.seq).count() if last_result else 0


def filter_rows(filters: dict[str, str]) -> AuditQuerySet:
    """Return the matching rows; invalid times and numbers are ignored."""
    rows = AuditRow.objects.all()
    for name, lookup in FILTERS.items():
        if filters.get(name):
            rows = rows.filter(**{lookup: filters[name]})
    if filters.get("about"):  # details are JSON in ASCII
        rows = rows.filter(detail__contains=json.dumps(filters["about"])[1:-1])
    if (earliest := _parse_time(filters.get("since", ""))) is not None:
        rows = rows.filter(at__gte=earliest)
    if (latest := _parse_time(filters.get("until", ""))) is not None:
        rows = rows.filter(at__lte=latest)
    before = url_helpers.read_number(filters.get("before", ""))
    return rows if before is None else rows.filter(seq__lt=before)


def _parse_time(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


@require_POST
@needs(READ)
def verify_trail(request: HttpRequest) -> HttpResponse:
    """Verify the whole chain and show the result."""
    return render(request, "audit/verified.html", {"finding": verification.verify_and_store()})


@require_GET
@needs(READ)
def export_trail(request: HttpRequest) -> StreamingHttpResponse:
    """Return all rows as JSON Lines, as `manage.py audit export` prints them."""
    write_acts(Act("audit.exported"))
    answer = StreamingHttpResponse(_stream_lines(), content_type="application/x-ndjson")
    answer["Content-Disposition"] = 'attachment; filename="toolcards-audit.jsonl"'
    return answer


def _stream_lines() -> Iterator[str]:
    for row in AuditRow.objects.order_by("seq").iterator(chunk_size=2_000):
        yield json.dumps(serialize_row(row), separators=(",", ":")) + "\n"


def serialize_row(row: AuditRow) -> dict[str, Any]:
    """Return a row with its links of the chain."""
    content: dict[str, Any] = row.content
    return content | {"detail": row.details, "key": row.key, "prev": row.prev, "hash": row.hash}


@require_POST
@needs(REVEAL)
def reveal_call(request: HttpRequest, public_id: str) -> HttpResponse:
    """Show one call unmasked; the visit is recorded first."""
    call_id = url_helpers.read_public_id(public_id)
    if call_id is None:
        raise Http404
    run, ordinal = call_id
    call = ToolCall.objects.select_related("run", "run__source").filter(run_id=run, ordinal=ordinal).first()
    if call is None:
        raise Http404
    detail = {"call_id": call.call_id, "tool": call.tool}
    write_acts(Act("reveal", "human", request.user.get_username(), call.run.name, call.public_id, detail=detail))
    html = mark_safe(rendering.render_uncached(call, full=True, is_masked=False))  # noqa: S308 - our own template's output
    answer = render(request, "audit/revealed.html", {"call": call, "card": html})
    answer["Cache-Control"] = "no-store, private"
    return answer


# The audit trail as JSON, for programs of people who may read it.
@api(READ_AUDIT, "GET")
def list_rows(request: HttpRequest) -> HttpResponse:
    """Return a page of matching rows, newest first."""
    try:
        limit, cursor = parse_limit(request.GET), parse_cursor(request.GET)
    except Problem as problem:
        return JsonResponse(problem.body, status=problem.status)
    filters = {name: request.GET.get(name, "").strip()[:200] for name in (*FILTERS, "about", "since", "until")}
    rows = filter_rows(filters).order_by("-seq")
    if cursor:
        rows = rows.filter(seq__lt=cursor[0])
    page = list(rows[: limit + 1])
    more = str(page[limit - 1].seq) if len(page) > limit else None
    return JsonResponse({"rows": [serialize_row(row) for row in page[:limit]], "next": more})
