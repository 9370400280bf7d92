"""Health and readiness need no key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcards import __version__
from toolcards.transports import health
from toolcards.transports.background import worker_ends

pytestmark = pytest.mark.django_db(transaction=True)


async def test_health_needs_no_key(call: Any, key: Any) -> None:
    status, body, _ = await call("GET", "/healthz", key=None)
    assert (status, body) == (200, {"status": "ok", "version": __version__})
    status, body, _ = await call("GET", "/readyz", key=None)
    assert (status, body["checks"]) == (200, dict.fromkeys((*health.CHECKS, "plugins"), True))


async def test_a_lost_worker_and_a_filling_disk_are_warnings_and_not_red(
    call: Any, limits: Any, tmp_path: Path
) -> None:
    limits(data_dir=tmp_path, disk_warning=0)
    assert (await call("GET", "/readyz", key=None))[1]["warnings"] == []
    worker_ends.record_end(7, "ended with exit code 1")
    limits(disk_warning=0.001)
    status, body, _ = await call("GET", "/readyz", key=None)
    assert status == 200 and [warning["warning"] for warning in body["warnings"]] == [
        "worker_restarted",
        "disk_filling",
    ]
    assert body["warnings"][0]["message"] == "worker 7 ended with exit code 1, and was replaced"
