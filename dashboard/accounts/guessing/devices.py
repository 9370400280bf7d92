"""Remembers in a browser's cookie who has signed in with it, so that guesses of others do not slow them down.

The cookie is signed and signs no one in: it only selects a bucket of attempts (see `throttle`) for its own people.
"""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

SALT = "toolcards.device"
MAX_AGE = 365 * 24 * 3600  # seconds
MAX_PEOPLE = 5  # people of one browser


def find_device(request: HttpRequest, person: int | None) -> str:
    """Return the browser's id if the person has used it, else ""."""
    name, people = _read_cookie(request)
    return f"{name} {person}" if person in people else ""


def set_device_cookie(request: HttpRequest, response: HttpResponse, person: int) -> None:
    """Set the cookie that remembers this person."""
    name, people = _read_cookie(request)
    latest = [person, *(pk for pk in people if pk != person)][:MAX_PEOPLE]
    value = signing.dumps({"id": name or secrets.token_urlsafe(16), "people": latest}, salt=SALT)
    response.set_cookie(
        settings.DEVICE_COOKIE_NAME, value, max_age=MAX_AGE, httponly=True, samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )  # fmt: skip


def _read_cookie(request: HttpRequest) -> tuple[str, list[int]]:
    try:
        content: Any = signing.loads(request.COOKIES.get(settings.DEVICE_COOKIE_NAME, ""), salt=SALT, max_age=MAX_AGE)
        return str(content["id"]), [int(pk) for pk in content["people"]]
    except (signing.BadSignature, KeyError, TypeError, ValueError):
        return "", []
