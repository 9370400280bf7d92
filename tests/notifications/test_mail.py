"""Notifications by mail."""

from __future__ import annotations

from typing import Any

from django.core import mail as outbox

from toolcards.core.calls import facts as f
from toolcards.models import Webhook
from toolcards.notifications import dispatcher


def test_mail_is_sent_as_plain_text_with_a_link(db: None, a_run: Any) -> None:
    Webhook.objects.create(
        name="m", format="email", to="ops@example.com, ann@example.com", events='["tool.execute.error"]'
    )
    a_run("r", f.InputReady("c", "bash", {}, True), f.OutputFailed("c", "broke\r\nBcc: x@example.com"))
    dispatcher.send_due()
    (message,) = outbox.outbox
    assert message.to == ["ops@example.com", "ann@example.com"] and "/runs/r/" in message.body
    assert "\n" not in message.subject and not message.bcc
