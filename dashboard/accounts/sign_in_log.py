"""Records sign-ins, sign-outs and failures in the audit trail, and the time of the sign-in."""

from __future__ import annotations

import time
from typing import Any

from django.contrib.auth import signals
from django.contrib.auth.models import User
from django.dispatch import receiver
from django.http import HttpRequest

from toolcards.audit.trail import Act, write_acts

MAX_NAME = 150  # characters
FRESH_SECONDS = 300.0  # since the sign-in, for acts that require a fresh one
SIGN_IN_TIME_KEY = "signed_in_at"  # in a session: epoch seconds of the sign-in that began it


def get_sign_in_time(request: HttpRequest) -> float:
    """Return when this session was signed in (epoch seconds).

    0 if never, and for personal tokens.
    """
    return 0.0 if hasattr(request, "personal_token") else find_sign_in_time(request.session, request.user)


def find_sign_in_time(session: Any, person: Any) -> float:
    """Return when the session was signed in (epoch seconds), 0 if never."""
    latest = getattr(person, "last_login", None)
    return min(float(session.get(SIGN_IN_TIME_KEY, 0)), latest.timestamp() if latest else 0.0)


def is_freshly_signed_in(request: HttpRequest) -> bool:
    """Return whether this session was signed in recently."""
    return time.time() - get_sign_in_time(request) <= FRESH_SECONDS


@receiver(signals.user_logged_in)
def record_sign_in(sender: Any, request: HttpRequest | None, user: User, **kwargs: Any) -> None:
    """Record a sign-in; its target shows whether the person came to vote."""
    if request is not None:
        request.session[SIGN_IN_TIME_KEY] = time.time()
    target = _read_target(request)
    act = "signin.vote" if target.startswith("/approvals/") else "signin"
    write_acts(
        Act(act, "human", user.get_username(), detail=_read_address(request) | ({"next": target} if target else {}))
    )


@receiver(signals.user_logged_out)
def record_sign_out(sender: Any, request: HttpRequest | None, user: User | None, **kwargs: Any) -> None:
    """Write the person and their address to the audit trail."""
    if user is not None:
        write_acts(Act("signout", "human", user.get_username(), detail=_read_address(request)))


@receiver(signals.user_login_failed)
def record_failed_sign_in(
    sender: Any, credentials: dict[str, Any], request: HttpRequest | None = None, **kwargs: Any
) -> None:
    """Record a failed sign-in, with the typed name only if it exists.

    Other text may be a password.
    """
    name = User.normalize_username(str(credentials.get("username", ""))[:MAX_NAME])
    detail = {"typed": name} if User.objects.filter(username=name).exists() else {}
    write_acts(Act("signin.refused", "nobody", detail=detail | _read_address(request)))


def _read_target(request: HttpRequest | None) -> str:
    if request is None:
        return ""
    target = request.POST.get("next") or request.GET.get("next") or ""
    return target[:200] if target.startswith("/") else ""


def _read_address(request: HttpRequest | None) -> dict[str, str]:
    if request is None:
        return {}
    by_link = request.path.startswith("/login/link/")
    return {"from": str(request.META.get("REMOTE_ADDR", "")), "way": "link" if by_link else "password"}
