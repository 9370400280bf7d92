"""Notification settings as pages: who may change them, secrets that are shown once, and deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from toolcards.audit.rows import AuditRow
from toolcards.core.calls import facts as f
from toolcards.models import Delivery, Webhook
from toolcards.notifications import subscriptions

WEBHOOK_FORM = {"name": "ops", "format": "webhook", "url": "https://example.com/hook", "severity": "low", "zone": "UTC"}


@pytest.fixture(autouse=True)
def _nobody_yet() -> Iterator[None]:
    subscriptions.clear_cache()
    yield
    subscriptions.clear_cache()


def test_only_admins_see_and_change_notifications(client: Client, a_person: Callable[..., Any]) -> None:
    assert client.get("/settings/notify/").status_code == 302
    client.force_login(a_person("approver"))
    assert client.get("/settings/notify/").status_code == 403
    assert client.post("/settings/notify/", WEBHOOK_FORM).status_code == 403


def test_a_new_webhook_shows_its_secret_once(admin: Client) -> None:
    answer = admin.post("/settings/notify/", WEBHOOK_FORM)
    webhook = Webhook.objects.get()
    assert webhook.secret in answer.content.decode() and "no-store" in answer["Cache-Control"]
    assert webhook.secret not in admin.get(f"/settings/notify/{webhook.pk}/").content.decode()
    answer = admin.post(f"/settings/notify/{webhook.pk}/rotate/")
    webhook.refresh_from_db()
    assert webhook.secret in answer.content.decode() and len(webhook.secrets()) == 2


def test_the_recipients_of_escalations_are_set_on_the_page_and_stay(admin: Client) -> None:
    admin.post("/settings/notify/", WEBHOOK_FORM | {"escalated_to": "group:lead,  ann\n"})
    webhook = Webhook.objects.get()
    assert webhook.wanted_escalations == ["group:lead", "ann"]
    assert 'value="group:lead, ann"' in admin.get(f"/settings/notify/{webhook.pk}/").content.decode()
    admin.post(f"/settings/notify/{webhook.pk}/", WEBHOOK_FORM)
    assert Webhook.objects.get().wanted_escalations == []
    row = AuditRow.objects.get(act="notify.changed")
    assert row.details["escalated_to"] == {"was": ["group:lead", "ann"], "is": []}


def test_settings_can_be_changed_switched_and_removed(admin: Client) -> None:
    admin.post("/settings/notify/", WEBHOOK_FORM)
    pk = Webhook.objects.get().pk
    assert (
        admin.post(f"/settings/notify/{pk}/", WEBHOOK_FORM | {"severity": "high", "events": ["run.failed"]}).status_code
        == 302
    )
    assert Webhook.objects.get().wanted_events == ["run.failed"]
    admin.post(f"/settings/notify/{pk}/switch/")
    assert not Webhook.objects.get().enabled
    assert admin.get(f"/settings/notify/{pk}/remove/").status_code == 405
    assert admin.post(f"/settings/notify/{pk}/nonsense/").status_code == 404
    admin.post(f"/settings/notify/{pk}/remove/")
    assert not Webhook.objects.exists()


def test_a_delivery_can_be_read_and_sent_again(admin: Client, a_run: Any) -> None:
    Webhook.objects.create(name="w", url="https://example.com/")
    a_run("r", f.InputReady("c", "bash", {}, True))
    Delivery.objects.update(state="failed", attempts=10)
    pk = Delivery.objects.get().pk
    assert "tool.execute.before" in admin.get(f"/settings/notify/deliveries/{pk}/").content.decode()
    admin.post(f"/settings/notify/deliveries/{pk}/again/")
    assert Delivery.objects.get().state == "pending"
