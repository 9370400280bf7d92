"""A server that receives webhooks, and no subscriptions of other tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.server import PATIENCE
from tests.support.webhook_receiver import Receiver
from toolcards.notifications import subscriptions, webhooks


@pytest.fixture
def receiver(limits: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(webhooks, "SECONDS", PATIENCE)
    with Receiver() as server:
        limits(webhook_private=(server.host,))
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(autouse=True)
def _nobody_yet() -> Iterator[None]:
    subscriptions.clear_cache()
    yield
    subscriptions.clear_cache()
