"""Health, readiness and metrics: which need a key, and what they say."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from toolcards import __version__
from toolcards.transports import health

pytestmark = pytest.mark.django_db(transaction=True)


async def test_health_needs_no_key(call: Any, key: Any) -> None:
    status, body, _ = await call("GET", "/healthz", key=None)
    assert (status, body) == (200, {"status": "ok", "version": __version__})
    status, body, _ = await call("GET", "/readyz", key=None)
    assert (status, body["checks"]) == (200, dict.fromkeys((*health.CHECKS, "plugins"), True))


async def test_numbers_are_behind_their_token(call: Any, a_call: Any, limits: Any) -> None:
    from pydantic import SecretStr

    await in_thread(a_call)("output-available")
    status, text, _ = await call("GET", "/metrics", key=None)
    assert status == 200
    assert 'toolcards_calls{state="output-available"} 1.0' in text
    assert f'toolcards_info{{version="{__version__}"}} 1.0' in text
    limits(metrics_token=SecretStr("watch-me"))
    assert (await call("GET", "/metrics", key="wrong"))[0] == 401
    assert (await call("GET", "/metrics", key="watch-me"))[0] == 200
