"""Metrics: who may read them, and what they count."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from pydantic import SecretStr

from toolcards import __version__

pytestmark = pytest.mark.django_db(transaction=True)


async def test_numbers_are_behind_their_token(call: Any, a_call: Any, limits: Any) -> None:
    await in_thread(a_call)("output-available")
    status, text, _ = await call("GET", "/metrics", key=None)
    assert status == 200
    assert 'toolcards_calls{state="output-available"} 1.0' in text
    assert f'toolcards_info{{version="{__version__}"}} 1.0' in text
    limits(metrics_token=SecretStr("watch-me"))
    assert (await call("GET", "/metrics", key="wrong"))[0] == 401
    assert (await call("GET", "/metrics", key="watch-me"))[0] == 200
