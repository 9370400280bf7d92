"""Who may open which page: signed in first, then the right that the page needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.views.decorators.csrf import csrf_exempt, csrf_protect

from dashboard.form_fields import read_json
from toolcards.transports.api.admission import admit

VIEW = "toolcards.view_toolcall"
VOTE = "toolcards.vote"
EDIT_POLICY = "toolcards.edit_policy"
KEYS = "toolcards.add_agentkey"

View = Callable[..., HttpResponse]


def needs(right: str = VIEW) -> Callable[[View], View]:
    """Let in who is signed in and has the right; others sign in, or are told 403."""

    def guard(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.has_perm(right):
                raise PermissionDenied
            admit(getattr(request, "scope", None))
            return view(request, *args, **kwargs)

        return login_required(guarded)

    return guard


# ---------------------------------------------------------------- for programs


def fault(status: int, code: str, message: str, **detail: Any) -> JsonResponse:
    """Return the contract's error answer."""
    error: dict[str, Any] = {"code": code, "message": message}
    return JsonResponse({"error": error | ({"detail": detail} if detail else {})}, status=status)


class _Csrf(CsrfViewMiddleware):
    """The check by itself: our answer to a failure is JSON."""

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def api(right: str, *methods: str) -> Callable[[View], View]:
    """Let in people's own programs: session, right and CSRF token are checked, and every answer is JSON."""

    def guard(view: View) -> View:
        @csrf_exempt
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            refused = _refusal(request, right, methods)
            if refused is not None:
                return refused
            admit(getattr(request, "scope", None))
            return view(request, *args, **kwargs)

        return guarded

    return guard


def by_body(form: View, program: View) -> View:
    """Let one address speak both tongues: JSON goes to `program`, everything else to `form`, each with its guard."""

    @csrf_exempt  # each of the two checks for itself, and says so in its own way
    def view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        chosen = program if request.content_type == "application/json" else csrf_protect(form)
        return chosen(request, *args, **kwargs)

    return view


def _refusal(request: HttpRequest, right: str, methods: tuple[str, ...]) -> HttpResponse | None:
    if request.method not in methods:
        refused = fault(405, "method_not_allowed", f"Use {' or '.join(methods)}.")
        refused["Allow"] = ", ".join(methods)
        return refused
    if not request.user.is_authenticated:
        if request.headers.get("Authorization", "").startswith("Bearer "):
            return fault(403, "forbidden", "Agent keys never vote, nor change policy.")
        return fault(401, "signed_out", "Sign in first.")
    if not request.user.has_perm(right):
        return fault(403, "forbidden", "You do not have this right.")
    check = _Csrf(lambda request: HttpResponse())
    check.process_request(request)
    reason = check.process_view(request, None, (), {})
    return fault(403, "csrf", f"{reason}") if reason else None


def body_of(request: HttpRequest) -> Any:
    """Return the request's JSON; raises ValueError, for NaN and doubled keys too."""
    try:
        return read_json(request.body.decode() or "null")
    except ValidationError as wrong:
        raise ValueError(str(wrong)) from None
