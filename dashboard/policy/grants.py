"""Standing approvals (grants): the list, and revoking one."""

from __future__ import annotations

import json
import time
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts.access import EDIT_POLICY, VIEW, VOTE, api, fault, needs
from dashboard.form_fields import read_json
from toolcards.gate import NotFound, list_voters, revoke_grant
from toolcards.models import Grant

MOST = 500


@require_GET
@needs()
def grants(request: HttpRequest) -> HttpResponse:
    """Show the grants in force, newest first, then those that have ended."""
    now = time.time()
    rows = Grant.objects.select_related("run__source", "source", "created_by")
    live = list(_list_counting(now).order_by("-created_at")[:MOST])
    over = list(rows.exclude(pk__in=[row.pk for row in live]).order_by("-created_at")[:50])
    context = {
        "live": [(row, _can_revoke(request.user, row)) for row in live],
        "over": [(row, _lacks_right(row, now)) for row in over],
    }
    return render(request, "policy/grants.html", context)


def _lacks_right(row: Grant, now: float) -> bool:
    """Return whether a grant that does not count would do so if its person could still approve calls."""
    return row.is_live(now)


def _list_counting(now: float) -> QuerySet[Grant]:
    """Return the grants in force, of people who may still approve calls."""
    rows = Grant.objects.live(now).filter(created_by__in=list_voters())
    return rows.select_related("run__source", "source", "created_by")


@require_POST
@needs(VOTE)
def revoke(request: HttpRequest, pk: str) -> HttpResponse:
    """Revoke a grant; for its grantor and for policy editors."""
    row = Grant.objects.filter(pk=pk).first()
    if row is None:
        raise Http404
    if not _can_revoke(request.user, row):
        raise PermissionDenied
    revoke_grant(pk, request.user.get_username())
    messages.success(request, "The standing approval is revoked. The next such call needs approval again.")
    return redirect("grants")


def _can_revoke(person: User | AnonymousUser, row: Grant) -> bool:
    return bool(person.has_perm(EDIT_POLICY) or (row.created_by_id == person.pk and person.has_perm(VOTE)))


# ---------------------------------------------------------------- for programs


@api(VIEW, "GET", "DELETE")
def grants_api(request: HttpRequest, pk: str = "") -> HttpResponse:
    """Return the grants in force; DELETE revokes the named one."""
    if request.method == "GET":
        rows = _list_counting(time.time()).order_by("-created_at")[:MOST]
        return JsonResponse({"grants": [serialize_grant(row) for row in rows]})
    pk = pk or _find_named_grant(request)
    row = Grant.objects.filter(pk=pk).first() if pk.isascii() else None  # the range of ids in databases
    if row is None:
        return fault(404, "not_found", "Grant not found.")
    if not _can_revoke(request.user, row):
        return fault(403, "forbidden", "Only the grantor or a policy editor can revoke this grant.")
    try:
        revoke_grant(pk, request.user.get_username())
    except NotFound as unknown:
        return fault(404, unknown.code, unknown.message)
    return JsonResponse({"id": pk, "revoked": True})


def _find_named_grant(request: HttpRequest) -> str:
    if "id" in request.GET:
        return request.GET["id"]
    try:
        body = read_json(request.body.decode() or "null")
    except (ValidationError, UnicodeDecodeError):
        return ""
    return body["id"] if isinstance(body, dict) and isinstance(body.get("id"), str) else ""


def serialize_grant(row: Grant) -> dict[str, Any]:
    """Return the grant as JSON; times are epoch seconds."""
    return {
        "id": row.pk, "rule": row.rule, "tool": row.tool, "server": row.server or None,
        "schema_sha256": row.schema_sha256 or None, "args_sha256": row.args_sha256,
        "pattern": json.loads(row.pattern) if row.pattern else None, "agent": row.agent,
        "run": row.run.name if row.run else None, "source": row.source.name if row.source else None,
        "run_source": row.run.source.name if row.run else None,
        "by": row.created_by.get_username(), "created_at": row.created_at, "expires_at": row.expires_at or None,
        "used": row.used, "approval": row.approval_id,
    }  # fmt: skip
