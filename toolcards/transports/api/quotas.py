"""How much each source may send in an hour, so that one key cannot fill the disk.

`toolcards.gate.source_usage` counts. Of a refused message nothing is stored.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from toolcards.gate.source_usage import usage_book
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.auth import Caller

CLOSE_QUOTA = 4429


class QuotaExceeded(Problem):
    """A source has sent as much as it may: status 429, socket code 4429."""


def charge(source: int, size: int, *, follow_up: int = 0) -> None:
    """Count bytes of a source, which `follow_up` more follow; raises QuotaExceeded."""
    if seconds := usage_book.count(source, size, follow_up=follow_up):
        limit = f"{settings.TOOLCARDS.source_quota:g} MB an hour (TOOLCARDS_SOURCE_QUOTA)"
        message = f"This source has sent as much as it may: {limit}. Try again in {seconds} s."
        raise QuotaExceeded(429, "quota_exceeded", message, close=CLOSE_QUOTA, headers={"Retry-After": str(seconds)})


def give_back(source: int, size: int) -> None:
    """Uncount bytes of which nothing is stored."""
    if settings.TOOLCARDS.source_quota and size:
        usage_book.give_back(source, size)


def charge_request(caller: Caller | None, request: Any) -> None:
    """Count the body of an agent's request; raises QuotaExceeded."""
    if caller is not None and caller.source is not None and request.method == "POST":
        charge(caller.source.pk, len(request.body))
