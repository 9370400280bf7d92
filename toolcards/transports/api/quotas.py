"""How much each source may send in an hour, so that one key cannot fill the disk.

Each process counts for itself. A count drains evenly, so a source that waits may go on. Of a refused message nothing is
stored.
"""

from __future__ import annotations

import math
import time
from typing import Any

from django.conf import settings

from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.auth import Caller

CLOSE_QUOTA = 4429
_HOUR = 3_600.0
_MEGABYTE = 1_000_000
_counts: dict[int, tuple[float, float]] = {}  # source -> bytes, as of that monotonic time


class QuotaExceeded(Problem):
    """A source has sent as much as it may: status 429, socket code 4429."""


def charge(source: int, size: int) -> None:
    """Count bytes of a source; raises QuotaExceeded.

    A message that is larger than the whole quota is only taken after an hour without others.
    """
    quota = settings.TOOLCARDS.source_quota * _MEGABYTE
    if not quota or not size:
        return
    now = time.monotonic()
    count, counted_at = _counts.get(source, (0.0, now))
    count = max(0.0, count - (now - counted_at) * quota / _HOUR)
    excess = count + min(size, quota) - quota
    if excess > 0:
        raise _build_problem(math.ceil(excess / quota * _HOUR))
    _counts[source] = count + size, now


def charge_request(caller: Caller | None, request: Any) -> None:
    """Count the body of an agent's request; raises QuotaExceeded."""
    if caller is not None and caller.source is not None and request.method == "POST":
        charge(caller.source.pk, len(request.body))


def clear() -> None:
    """Forget what was counted (tests)."""
    _counts.clear()


def _build_problem(seconds: int) -> QuotaExceeded:
    limit = f"{settings.TOOLCARDS.source_quota:g} MB an hour (TOOLCARDS_SOURCE_QUOTA)"
    message = f"This source has sent as much as it may: {limit}. Try again in {seconds} s."
    return QuotaExceeded(429, "quota_exceeded", message, close=CLOSE_QUOTA, headers={"Retry-After": str(seconds)})
