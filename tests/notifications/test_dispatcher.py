"""Deliveries: sent at least once, tried again, and given up after the last try."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from channels.db import database_sync_to_async
from standardwebhooks.webhooks import Webhook as Verifier

from tests.support.server import PATIENCE
from tests.support.webhook_receiver import FAILED, Receiver
from toolcards.audit.rows import AuditRow
from toolcards.core.calls import facts as f
from toolcards.models import Delivery, Webhook
from toolcards.notifications import dispatcher, retries, subscriptions, webhooks
from toolcards.notifications.dispatcher import get_quiet_end
from toolcards.transports.background.scheduler import run_rounds


@pytest.fixture
def webhook(db: None, receiver: Receiver) -> Webhook:
    return Webhook.objects.create(name="theirs", url=receiver.url)


def test_the_public_library_verifies_our_signature(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    a_run("r", *FAILED)
    assert dispatcher.send_due() == 3
    for headers, body in receiver.requests:
        verifier = Verifier(webhook.secret).verify(body, {name.lower(): value for name, value in headers.items()})
        assert verifier["type"].startswith("tool.execute.") and verifier["data"]["run_id"] == "r"
    assert [json.loads(body)["type"][13:] for _, body in receiver.requests] == ["before", "error", "settled"]
    assert not Delivery.objects.exclude(state="delivered").exists()
    assert b"rm" not in receiver.requests[0][1].replace(b'"summary": "Run rm"', b"")


def test_both_secrets_sign_while_one_replaces_the_other(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    old, new = webhook.secret, webhook.rotate()
    subscriptions.clear_cache()
    a_run("r", *FAILED)
    dispatcher.send_due()
    headers, body = receiver.requests[0]
    low = {name.lower(): value for name, value in headers.items()}
    assert Verifier(old).verify(body, low) and Verifier(new).verify(body, low)
    assert len(webhook.secrets(time.time() + 2 * 86_400)) == 1


def test_a_failure_is_tried_again_later_with_the_same_id(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    receiver.status = 503
    a_run("r", f.InputReady("c", "bash", {}, True))
    now = time.time() + 1
    dispatcher.send_due(now)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.status, delivery.attempts) == ("pending", 503, 1)
    assert now + 4 <= delivery.next_at <= now + 7
    assert dispatcher.send_due(now) == 0
    receiver.status = 200
    dispatcher.send_due(delivery.next_at)
    assert Delivery.objects.get().state == "delivered"
    ids = {headers["webhook-id"] for headers, _ in receiver.requests}
    assert len(receiver.requests) == 2 and len(ids) == 1


def test_it_gives_up_after_the_last_try_and_can_be_sent_again(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    receiver.status = 500
    a_run("r", f.InputReady("c", "bash", {}, True))
    now = time.time() + 1
    for _ in range(len(retries.BACKOFF) + 1):
        dispatcher.send_due(now)
        now += 2 * 86_400
    delivery = Delivery.objects.get()
    assert delivery.state == "failed" and len(receiver.requests) == len(retries.BACKOFF) + 1
    receiver.status = 200
    delivery.send_again(now)
    dispatcher.send_due(now)
    assert Delivery.objects.get().state == "delivered"


def test_redirects_are_not_followed(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    receiver.status, receiver.headers = 307, {"Location": "http://127.0.0.1:1/"}
    a_run("r", f.InputReady("c", "bash", {}, True))
    dispatcher.send_due()
    assert "redirect" in Delivery.objects.get().error


def test_gone_switches_it_off(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    receiver.status = 410
    a_run("r", f.InputReady("c", "bash", {}, True))
    dispatcher.send_due()
    webhook.refresh_from_db()
    assert not webhook.enabled and "410" in webhook.trouble
    audit_row = AuditRow.objects.get(act="notify.gone")
    assert (audit_row.actor_kind, audit_row.details["name"]) == ("gate", webhook.name)


def test_two_dispatchers_send_it_once(webhook: Webhook, receiver: Receiver, a_run: Any) -> None:
    a_run("r", f.InputReady("c", "bash", {}, True))
    pk, now = Delivery.objects.get().pk, time.time() + 1
    assert Delivery.objects.take(pk, now, 30) and not Delivery.objects.take(pk, now, 30)
    assert Delivery.objects.take(pk, now + 31, 30)  # the process that took it died


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
async def test_a_receiver_that_never_answers_delays_no_other(
    receiver: Receiver, limits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, limit in ((webhooks, "SECONDS"), (dispatcher, "LEASE")):  # it is given up only after the test
        monkeypatch.setattr(module, limit, 10 * PATIENCE)
    with Receiver() as silent:
        silent.pause = 0.05  # drips a header now and then, and never ends
        limits(webhook_private=(receiver.host, silent.host))
        threading.Thread(target=silent.serve_forever, args=(0.05,), daemon=True).start()
        good, bad = await database_sync_to_async(_two_webhooks)(receiver.url, silent.url)
        followed = asyncio.create_task(run_rounds([dispatcher.DeliveryTurns()]))
        try:
            for nth in range(3):  # each comes after the silent one was asked
                await database_sync_to_async(_create_delivery)(bad, f"b{nth}")
                await _reached(lambda: len(silent.requests) == 1)
                await database_sync_to_async(_create_delivery)(good, f"g{nth}")
                await _reached(lambda nth=nth: len(receiver.requests) == nth + 1)
            assert len(silent.requests) == 1  # it is still being waited for, by one thread
        finally:
            silent.pause = 0.0  # now it ends, with too many headers
            rows = database_sync_to_async(Delivery.objects.filter(target=str(bad.pk)).exclude(error="").exists)
            while not await rows():
                await asyncio.sleep(0.02)
            followed.cancel()
            silent.shutdown()
            silent.server_close()
            await asyncio.gather(followed, return_exceptions=True)


def _two_webhooks(*urls: str) -> list[Webhook]:
    return [Webhook.objects.create(name=url, url=url) for url in urls]


def _create_delivery(webhook: Webhook, event_id: str) -> None:
    Delivery.objects.create(
        webhook=webhook, target=str(webhook.pk), event_id=event_id, event="tool.failed", payload="{}", next_at=0,
        created_at=0,
    )  # fmt: skip
    subscriptions.clear_cache()


async def _reached(true: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.02)


def test_quiet_hours_hold_back_what_is_not_critical() -> None:
    webhook = Webhook(format="slack", quiet_from="22:00", quiet_to="07:00", zone="Europe/Rome")
    night = datetime(2026, 1, 10, 23, 30, tzinfo=UTC).timestamp()  # 00:30 in Rome
    assert get_quiet_end(webhook, "high", night) == night + 6.5 * 3600
    assert get_quiet_end(webhook, "critical", night) == 0
    assert get_quiet_end(webhook, "high", night + 8 * 3600) == 0
