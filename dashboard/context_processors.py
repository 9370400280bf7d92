"""Context of every page, read only if a template needs it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from dashboard.environment import PROGRAM
from dashboard.live import site_status


def add_site_status(request: HttpRequest) -> dict[str, Any]:
    """Return `waiting` (a count), `banner` and `program` (a command)."""
    return {
        "program": PROGRAM,
        "waiting": SimpleLazyObject(site_status.read_badge),
        "banner": SimpleLazyObject(site_status.read_banner),
    }
