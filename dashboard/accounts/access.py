"""Permissions of pages, closed by default: only the middleware can open a view that names none.

Each view names its permission by `needs` (pages), `api` (JSON) or `allow_anyone`, and checks it itself.
`AccessMiddleware` closes the views that name none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.views.decorators.csrf import csrf_exempt, csrf_protect

from dashboard.form_fields import read_json
from toolcards.transports.api import auth
from toolcards.transports.api.admission import admit
from toolcards.transports.api.api_errors import Problem

VIEW = "toolcards.view_toolcall"
VOTE = "toolcards.vote"
EDIT_POLICY = "toolcards.edit_policy"
KEYS = "toolcards.add_agentkey"
READ_AUDIT = "toolcards.view_auditrow"
ANYONE = "anyone"

View = Callable[..., HttpResponseBase]


def needs(right: str = VIEW) -> Callable[[View], View]:
    """Admit people with this permission; others sign in or get 403."""

    def guard(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.has_perm(right):
                raise PermissionDenied
            admit(getattr(request, "scope", None))
            return view(request, *args, **kwargs)

        guarded.permission = right  # type: ignore[attr-defined]
        return login_required(guarded)

    return guard


def get_signed_in_person(request: HttpRequest) -> User:
    """Return the person that a view with a permission serves."""
    assert isinstance(request.user, User)
    return request.user


def allow_anyone(view: View) -> View:
    """Mark a view that is open without signing in; `tests/repository/test_doors.py` lists them."""
    view.permission = ANYONE  # type: ignore[attr-defined]
    return view


class AccessMiddleware(LoginRequiredMiddleware):
    """Closes views that name no permission: to visitors by the sign-in page, to others by 403."""

    def process_view(self, request: HttpRequest, view_func: View, view_args: Any, view_kwargs: Any) -> Any:
        """Return a redirect to the sign-in page, or None; raises PermissionDenied."""
        if find_permission(view_func) is not None:
            return None
        response = super().process_view(request, view_func, view_args, view_kwargs)
        if response is None and not _is_admin_view(request):
            raise PermissionDenied
        return response


def find_permission(view: View) -> str | None:
    """Return the permission that a view names, None if it names none."""
    permission: str | None = getattr(view, "permission", None)
    return permission


def _is_admin_view(request: HttpRequest) -> bool:
    """Return whether the Django admin checks this request itself."""
    match = request.resolver_match
    return match is not None and match.app_names[:1] == ["admin"]


# ---------------------------------------------------------------- for programs


NOT_PERMITTED = "You do not have permission to do this."
# The scope that a token needs. Those who may look can do more in some views, such as the kill switch: that is `policy`.
_SCOPES = {VIEW: "read", VOTE: "vote", EDIT_POLICY: "policy", READ_AUDIT: "audit"}


def fault(status: int, code: str, message: str, **detail: Any) -> JsonResponse:
    """Return the contract's error answer."""
    error: dict[str, Any] = {"code": code, "message": message}
    return JsonResponse({"error": error | ({"detail": detail} if detail else {})}, status=status)


class _Csrf(CsrfViewMiddleware):
    """The CSRF check alone: the answer to a failure is JSON."""

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def find_csrf_fault(request: HttpRequest) -> str:
    """Return why the request's CSRF check fails, "" if it passes."""
    check = _Csrf(lambda request: HttpResponse())
    check.process_request(request)
    return str(check.process_view(request, HttpResponse, (), {}) or "")


def api(right: str, *methods: str) -> Callable[[View], View]:
    """Admit programs of people with this permission.

    Checks a personal token and its scope, or session and CSRF token, and answers in JSON.
    """

    def guard(view: View) -> View:
        @csrf_exempt
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            refusal = _find_refusal(request, right, methods)
            if refusal is not None:
                return refusal
            admit(getattr(request, "scope", None))
            return view(request, *args, **kwargs)

        guarded.permission = right  # type: ignore[attr-defined]
        return guarded

    return guard


def by_body(form: View, program: View) -> View:
    """Send JSON requests to `program` and others to `form`.

    Each does its own checks.
    """

    @csrf_exempt  # both check permission and CSRF themselves, and answer in their own form
    def view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        view_of_type = program if request.content_type == "application/json" else csrf_protect(form)
        return view_of_type(request, *args, **kwargs)

    view.permission = find_permission(form)  # type: ignore[attr-defined]
    return view


def _find_refusal(request: HttpRequest, right: str, methods: tuple[str, ...]) -> HttpResponse | None:
    if request.method not in methods:
        refusal = fault(405, "method_not_allowed", f"Use {' or '.join(methods)}.")
        refusal["Allow"] = ", ".join(methods)
        return refusal
    if auth.read_bearer(request.headers.get("Authorization", "")):
        try:
            _sign_in_by_token(request, right)
        except Problem as problem:
            return JsonResponse(problem.body, status=problem.status, headers=problem.headers)
        return None if request.user.has_perm(right) else fault(403, "forbidden", NOT_PERMITTED)
    if not request.user.is_authenticated:
        return fault(401, "signed_out", "Sign in first, or send a personal token.")
    if not request.user.has_perm(right):
        return fault(403, "forbidden", NOT_PERMITTED)
    reason = find_csrf_fault(request)
    return fault(403, "csrf", reason) if reason else None


def _sign_in_by_token(request: HttpRequest, right: str) -> None:
    """Make the token's person that of the request; raises Problem.

    A session of the same request does not count.
    """
    is_reading = request.method in ("GET", "HEAD")
    scope = "policy" if right == VIEW and not is_reading else _SCOPES[right]
    token = auth.authenticate_token(request.headers["Authorization"], scope)
    request.personal_token = token  # type: ignore[attr-defined]
    request.user = token.person


def body_of(request: HttpRequest) -> Any:
    """Return the request's JSON; raises ValueError, also for NaN and duplicate keys."""
    try:
        return read_json(request.body.decode() or "null")
    except ValidationError as wrong:
        raise ValueError(str(wrong)) from None
