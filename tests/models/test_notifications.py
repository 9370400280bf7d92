"""Receivers of notifications and deliveries: who wants what, who signs with what, and what is sent once."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from tests.support.tables import loop_over
from toolcards.encryption import DecryptionError, UnreadableText
from toolcards.models import Delivery, PushBrowser, PushKey, Webhook
from toolcards.models.notifications import ROTATION, SEVERITIES, new_secret


@loop_over(
    "columns, is_wanted",
    [
        ({}, True),
        ({"events": '["asked"]'}, True),
        ({"events": '["other"]'}, False),
        ({"sources": "[7]"}, True),
        ({"sources": "[8]"}, False),
        ({"events": '["asked"]', "sources": "[8]"}, False),
        ({"severity": "medium"}, True),
        ({"severity": "high"}, False),
        ({"escalated_to": '["ann"]'}, True),
        ({"escalated_to": '["bob"]'}, False),
        ({"escalated_to": '["bob", "ann"]', "severity": "critical"}, False),
    ],
)
def test_a_receiver_gets_what_every_one_of_its_filters_lets_through(columns: dict[str, str], is_wanted: bool) -> None:
    assert Webhook(name="w", **columns).wants("asked", 7, "medium", ("ann", "ops")) is is_wanted


def test_what_is_escalated_to_no_one_concerns_everyone() -> None:
    assert Webhook(name="w", escalated_to='["bob"]').wants("asked", 7, "low")


@loop_over("lowest", SEVERITIES)
def test_a_severity_is_wanted_from_the_lowest_one_up(lowest: str) -> None:
    severities = [severity for severity in SEVERITIES if Webhook(name="w", severity=lowest).wants("asked", 7, severity)]
    assert severities == list(SEVERITIES[SEVERITIES.index(lowest) :])


@pytest.mark.django_db
def test_an_old_secret_signs_for_a_day_after_it_was_replaced() -> None:
    webhook = Webhook.objects.create(name="w")
    old_secret = webhook.secret
    assert webhook.secrets(1_000.0) == [old_secret]
    secret = webhook.rotate(1_000.0)
    webhook.refresh_from_db()
    assert secret != old_secret and secret.startswith("whsec_") and len(new_secret()) == len(secret)
    assert webhook.secrets(1_000.0 + ROTATION - 1) == [secret, old_secret]
    assert webhook.secrets(1_000.0 + ROTATION) == [secret]


@pytest.mark.django_db
def test_a_receiver_that_is_switched_off_is_no_receiver() -> None:
    Webhook.objects.create(name="on")
    Webhook.objects.create(name="off", enabled=False)
    assert [webhook.name for webhook in Webhook.objects.live()] == ["on"]


def make_delivery(number: int, **columns: Any) -> Delivery:
    defaults: dict[str, Any] = {"target": "1", "event": "asked", "payload": "{}", "next_at": 5.0, "created_at": 1.0}
    return Delivery.objects.create(event_id=f"event-{number}", **defaults | columns)


@pytest.mark.django_db
def test_a_delivery_is_due_from_its_time_on_and_the_oldest_is_first() -> None:
    first, second = make_delivery(1), make_delivery(2, next_at=4.0)
    make_delivery(3, next_at=5.1)
    make_delivery(4, state="failed")
    assert list(Delivery.objects.select_due(5.0)) == [first, second]
    assert list(Delivery.objects.select_due(4.9)) == [second]


@pytest.mark.django_db
def test_one_process_takes_a_delivery_until_its_lease_ends() -> None:
    delivery = make_delivery(1)
    assert not Delivery.objects.take(delivery.pk, 4.0, lease=10.0)
    assert Delivery.objects.take(delivery.pk, 5.0, lease=10.0) and not Delivery.objects.take(
        delivery.pk, 5.0, lease=10.0
    )
    assert Delivery.objects.take(delivery.pk, 15.0, lease=10.0)  # the first one never came back
    delivery.refresh_from_db()
    assert (delivery.attempts, delivery.next_at) == (2, 25.0)
    Delivery.objects.update(state="delivered")
    assert not Delivery.objects.take(delivery.pk, 100.0, lease=10.0)


@pytest.mark.django_db
def test_an_event_is_sent_to_a_target_once_and_repeated_under_the_same_id() -> None:
    delivery = make_delivery(1, state="failed", attempts=9, status=500, error="it broke", done_at=7.0)
    with pytest.raises(IntegrityError), transaction.atomic():
        make_delivery(1)
    make_delivery(1, target="2")
    delivery.send_again(20.0)
    delivery.refresh_from_db()
    assert (delivery.state, delivery.next_at, delivery.attempts, delivery.event_id) == ("pending", 20.0, 0, "event-1")
    assert (delivery.status, delivery.error, delivery.done_at) == (None, "", None)


def test_a_payload_without_its_key_is_named() -> None:
    assert Delivery(payload='{"a": 1}').decoded_payload == {"a": 1}
    with pytest.raises(DecryptionError, match="its key is missing"):
        Delivery(payload=UnreadableText("")).decoded_payload  # noqa: B018


pytestmark = pytest.mark.django_db
ENDPOINT = "https://push.example/a-secret-address"


def add_browser(person: Any, digest: str = "d") -> PushBrowser:
    return PushBrowser.objects.create(
        person=person, endpoint=ENDPOINT, endpoint_sha256=digest, public_key="k", auth="shared",
        sign_in="s", label="Firefox",
    )  # fmt: skip


def test_a_browser_shows_the_calls_of_one_person(an_approver: Any, a_person: Any) -> None:
    browser = add_browser(an_approver)
    with pytest.raises(IntegrityError), transaction.atomic():
        add_browser(a_person("viewer"))
    assert str(browser) == "Firefox"
    an_approver.delete()
    assert not PushBrowser.objects.exists()


def test_no_address_and_no_key_is_readable_in_the_database(an_approver: Any) -> None:
    add_browser(an_approver)
    PushKey.objects.create(private="a-private-key")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT endpoint, auth FROM toolcards_pushbrowser UNION ALL SELECT private, '' FROM toolcards_pushkey"
        )
        rows = str(cursor.fetchall())
    assert not any(secret in rows for secret in (ENDPOINT, "shared", "a-private-key"))
    assert PushBrowser.objects.get().endpoint == ENDPOINT and PushKey.objects.get().private == "a-private-key"


def test_no_role_can_be_given_a_right_to_read_them() -> None:
    assert PushBrowser._meta.default_permissions == PushKey._meta.default_permissions == ()
