"""The pages and API of the kill switch, which denies every call, and of break-glass, which lifts approvals."""

from __future__ import annotations

import math
import re
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboard.accounts.access import VIEW, api, fault, needs
from dashboard.accounts.sign_in_log import is_freshly_signed_in
from dashboard.form_fields import read_json
from toolcards import gate
from toolcards.audit.rows import AuditRow
from toolcards.gate import RequestRefused, emergency
from toolcards.models import BreakGlass, KillSwitch

THROW = "toolcards.throw_killswitch"
BREAK = "toolcards.break_glass"
MAX_DECISIONS = 200
DEFAULT_MINUTES, LARGEST = 60, 1_000_000  # the gate has a lower limit
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?", re.ASCII)


# ---------------------------------------------------------------- pages


@require_http_methods(["GET", "POST"])
@needs(THROW)
def killswitch(request: HttpRequest) -> HttpResponse:
    """Show what the kill switch does, with its button; POST switches it."""
    if request.method == "POST":
        on = request.POST.get("to") == "on"
        outcome = gate.set_kill_switch(request.user.get_username(), on, request.POST.get("reason", ""))
        denied_count = outcome["stopped"]
        denied_text = f" {denied_count} open {'call was' if denied_count == 1 else 'calls were'} denied." if on else ""
        messages.success(request, f"{'Every tool call is stopped.' if on else 'Tool calls run again.'}{denied_text}")
        return redirect("killswitch")
    return render(request, "emergency/killswitch.html", {"throws": KillSwitch.objects.order_by("-id")[:20]})


@require_http_methods(["GET", "POST"])
@needs()
def breakglass(request: HttpRequest) -> HttpResponse:
    """Start or end break-glass, and list the calls that it lifted."""
    error, status = "", 200
    if request.method == "POST":
        if not request.user.has_perm(BREAK):
            raise PermissionDenied
        try:
            _start_breakglass(request, request.POST)
            return redirect("breakglass")
        except RequestRefused as refused:
            error, status = refused.message, refused.status
    rows = [(row, list_passed_decisions(row)) for row in BreakGlass.objects.order_by("-id")[:20]]
    context = {"rows": rows, "fresh": is_freshly_signed_in(request), "error": error, "entered": request.POST}
    return render(request, "emergency/breakglass.html", context, status=status)


def _start_breakglass(request: HttpRequest, form_data: Any) -> dict[str, Any]:
    """Start or end as the form or body states; raises RequestRefused."""
    username = request.user.get_username()
    if form_data.get("to") == "off":
        return gate.break_glass(username, "", 0)
    if not is_freshly_signed_in(request):
        raise gate.NotAllowed("This requires a recent sign-in. Sign in again.", code="reauth", status=401)
    reason = form_data.get("reason", "")
    if not isinstance(reason, str):
        raise gate.InvalidRequest("The reason must be text.", code="invalid_body")
    return gate.break_glass(username, reason, _parse_minutes(form_data.get("minutes", DEFAULT_MINUTES)))


def _parse_minutes(value: Any) -> float:
    """Return the minutes in a form's text or a JSON number.

    Raises InvalidRequest.
    """
    if isinstance(value, str):
        text = value.strip() or str(DEFAULT_MINUTES)
        value = float(text) if _NUMBER.fullmatch(text) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise gate.InvalidRequest("Minutes must be a number above 0.", code="invalid_minutes")
    return float(min(value, LARGEST))


def list_passed_decisions(row: BreakGlass) -> list[AuditRow]:
    """Return the decisions that this break-glass lifted, oldest first."""
    end = row.ended_at or row.until
    rows = AuditRow.objects.filter(act="decision", actor_kind="break_glass")
    return list(rows.filter(at__gte=int(row.at * 1000), at__lte=round(end * 1000) + 1).order_by("seq")[:MAX_DECISIONS])


# ---------------------------------------------------------------- for programs


@api(VIEW, "GET", "POST")
def killswitch_api(request: HttpRequest) -> HttpResponse:
    """Return the state; `{"on": true, "reason"?}` turns it on."""
    if request.method == "GET":
        row = emergency.get_active_kill_switch()
        state = {"by": row.by, "reason": row.reason, "at": row.at} if row else {}
        return JsonResponse({"on": row is not None} | state)
    if not request.user.has_perm(THROW):
        return fault(403, "forbidden", "You do not have permission to stop all calls.")
    body = _read_body(request)
    if not isinstance(body, dict) or not isinstance(body.get("on"), bool) or set(body) - {"on", "reason"}:
        return fault(422, "invalid_body", 'Send {"on": true or false, "reason": optional}.')
    if not isinstance(body.get("reason", ""), str):
        return fault(422, "invalid_body", "The reason must be text.")
    return JsonResponse(gate.set_kill_switch(request.user.get_username(), body["on"], body.get("reason", "")))


@api(VIEW, "GET", "POST")
def breakglass_api(request: HttpRequest) -> HttpResponse:
    """Return the state.

    Start with `{"on": true, "reason", "minutes"}`, end with `{"on": false}`.
    """
    if request.method == "GET":
        row = emergency.get_active_break_glass()
        state = {"by": row.by, "reason": row.reason, "until": row.until, "passed": row.passed} if row else {}
        return JsonResponse({"on": row is not None} | state)
    if not request.user.has_perm(BREAK):
        return fault(403, "forbidden", "You do not have permission to use break-glass.")
    body = _read_body(request)
    if not isinstance(body, dict) or not isinstance(body.get("on"), bool) or set(body) - {"on", "reason", "minutes"}:
        return fault(422, "invalid_body", 'Send {"on": true or false, "reason", "minutes"}.')
    if isinstance(body.get("minutes"), str):
        return fault(422, "invalid_minutes", "Minutes must be a number above 0.")
    try:
        return JsonResponse(
            _start_breakglass(request, body | {"to": "on" if body["on"] else "off"}) | {"on": body["on"]}
        )
    except RequestRefused as refused:
        return fault(refused.status, refused.code, refused.message)


def _read_body(request: HttpRequest) -> Any:
    try:
        return read_json(request.body.decode())
    except (ValidationError, UnicodeDecodeError):
        return None
