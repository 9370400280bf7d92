"""No rendered cards of other tests, and a hub that checks often."""

from __future__ import annotations

import pytest

from dashboard.cards import rendering
from dashboard.live import boards, changes, hub


@pytest.fixture(autouse=True)
def _nothing_rendered() -> None:
    rendering.card_cache.clear()


@pytest.fixture
def frequent_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check what nothing rings for more often than a server does."""
    assert hub.AUDIT_SECONDS + changes.HEARTBEAT_SECONDS < 5 and boards.RECHECK_SECONDS <= 2
    monkeypatch.setattr(hub, "AUDIT_SECONDS", 0.1)
    monkeypatch.setattr(hub, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(changes, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(boards, "RECHECK_SECONDS", 0.1)
