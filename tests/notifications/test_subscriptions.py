"""Who gets which event."""

from __future__ import annotations

from typing import Any

from tests.support.webhook_receiver import FAILED
from toolcards.models import Delivery, Webhook


def test_only_subscribed_events_are_sent(db: None, a_run: Any, source: Any) -> None:
    Webhook.objects.create(name="errors", url="https://example.com/", events='["tool.execute.error"]')
    Webhook.objects.create(name="loud", url="https://example.com/", severity="critical")
    Webhook.objects.create(name="another", url="https://example.com/", sources="[999999]")
    Webhook.objects.create(name="off", url="https://example.com/", enabled=False)
    a_run("r", *FAILED)
    assert [(delivery.webhook.name, delivery.event) for delivery in Delivery.objects.all()] == [
        ("errors", "tool.execute.error")
    ]
