"""Health and readiness need no key."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards import __version__
from toolcards.transports import health

pytestmark = pytest.mark.django_db(transaction=True)


async def test_health_needs_no_key(call: Any, key: Any) -> None:
    status, body, _ = await call("GET", "/healthz", key=None)
    assert (status, body) == (200, {"status": "ok", "version": __version__})
    status, body, _ = await call("GET", "/readyz", key=None)
    assert (status, body["checks"]) == (200, dict.fromkeys((*health.CHECKS, "plugins"), True))
