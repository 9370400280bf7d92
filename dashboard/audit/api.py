"""The audit trail as JSON, for programs of people who may read it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse

from dashboard.accounts.access import READ_AUDIT, api
from dashboard.audit.views import FILTERS, filter_rows, serialize_row
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.read_api import parse_cursor, parse_limit


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
