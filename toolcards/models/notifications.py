"""Notifications: their receivers (`Webhook`), and each delivery with its result (`Delivery`).

A delivery is written in the transaction of its event, so deliveries match the events exactly.
It is sent afterwards, at least once. Receivers recognize repetitions by `event_id`.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from toolcards.encryption import DecryptionError, SealedText, UnreadableText

FORMATS = ("webhook", "ntfy", "slack", "discord", "email")
SEVERITIES = ("low", "medium", "high", "critical")
PLUGIN = "plugin:"
KEEP_DAYS = 14
ROTATION = 24 * 3600.0  # seconds for which the old secret still signs after a rotation


def new_secret() -> str:
    """Return a new signing secret in the format of Standard Webhooks."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()


class WebhookQuerySet(models.QuerySet["Webhook"]):
    """Receivers of notifications."""

    def live(self) -> WebhookQuerySet:
        """Return the enabled receivers."""
        return self.filter(enabled=True)


class Webhook(models.Model):
    """A receiver of notifications: a URL or mail addresses, the events it subscribes to, and the format."""

    name = models.CharField(max_length=200, unique=True)
    format = models.CharField(max_length=20, default="webhook")
    url = models.CharField(max_length=2000, blank=True)
    to = models.CharField(max_length=1000, blank=True)  # mail addresses separated by commas
    secret = models.CharField(max_length=200, default=new_secret)
    old_secret = models.CharField(max_length=200, blank=True)
    old_until = models.FloatField(default=0)
    events = models.TextField(default="[]")  # of core.calls.tool_events; empty: all
    sources = models.TextField(default="[]")  # pks of sources; empty: all
    escalated_to = models.TextField(default="[]")  # names and groups whose escalations it gets; empty: all
    severity = models.CharField(max_length=10, default="low")  # the lowest that it gets
    quiet_from = models.CharField(max_length=5, blank=True)  # "22:00"; between the two it gets only `critical`
    quiet_to = models.CharField(max_length=5, blank=True)
    zone = models.CharField(max_length=60, default="UTC")
    enabled = models.BooleanField(default=True)
    trouble = models.CharField(max_length=300, blank=True)  # why it was disabled automatically
    created_by = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    objects = WebhookQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    @property
    def wanted_events(self) -> list[str]:
        """The events it gets; empty means all."""
        return [str(name) for name in json.loads(self.events)]

    @property
    def wanted_sources(self) -> list[int]:
        """The sources it gets events of; empty means all."""
        return [int(pk) for pk in json.loads(self.sources)]

    @property
    def wanted_escalations(self) -> list[str]:
        """The names and groups whose escalations it gets; empty means all."""
        return [str(name) for name in json.loads(self.escalated_to)]

    def secrets(self, now: float | None = None) -> list[str]:
        """Return the secrets to sign with: after a rotation, two."""
        now = time.time() if now is None else now
        return [self.secret, *([self.old_secret] if self.old_secret and self.old_until > now else [])]

    def rotate(self, now: float | None = None) -> str:
        """Replace and return the secret; the old one signs for a day."""
        now = time.time() if now is None else now
        self.old_secret, self.old_until, self.secret = self.secret, now + ROTATION, new_secret()
        self.save(update_fields=["secret", "old_secret", "old_until"])
        return self.secret

    def wants(self, event: str, source: int, severity: str, to: Collection[str] = ()) -> bool:
        """Return whether it gets this event (`to`: voters of an escalation)."""
        events, sources = self.wanted_events, self.wanted_sources
        is_severe = SEVERITIES.index(severity) >= SEVERITIES.index(self.severity)
        concerns_it = not to or not self.wanted_escalations or bool({*to} & {*self.wanted_escalations})
        return is_severe and concerns_it and (not events or event in events) and (not sources or source in sources)


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    """Deliveries."""

    def select_due(self, now: float) -> DeliveryQuerySet:
        """Return the deliveries to send now, oldest first."""
        return self.filter(state="pending", next_at__lte=now).order_by("id")

    def take(self, pk: int, now: float, lease: float) -> bool:
        """Take a due delivery under a lease; False if another process did."""
        rows = self.filter(pk=pk, state="pending", next_at__lte=now)
        return bool(rows.update(next_at=now + lease, attempts=models.F("attempts") + 1))


class Delivery(models.Model):
    """A notification to one target, a webhook's pk or `plugin:<name>`: pending, delivered, failed or dropped."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, null=True, blank=True, related_name="deliveries")
    target = models.CharField(max_length=220)
    event_id = models.CharField(max_length=120)
    event = models.CharField(max_length=40)
    severity = models.CharField(max_length=10, default="low")
    payload = SealedText()
    state = models.CharField(max_length=12, default="pending", db_index=True)
    attempts = models.IntegerField(default=0)
    next_at = models.FloatField(db_index=True)
    status = models.IntegerField(null=True, blank=True)
    error = models.CharField(max_length=300, blank=True)
    created_at = models.FloatField()
    done_at = models.FloatField(null=True, blank=True)
    objects = DeliveryQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["target", "event_id"], name="told_once")]
        indexes = [models.Index(fields=["state", "next_at"])]

    def __str__(self) -> str:
        return f"{self.event} to {self.target}"

    @property
    def decoded_payload(self) -> dict[str, Any]:
        """The payload as an object; raises DecryptionError if its key is missing."""
        if type(self.payload) is UnreadableText:
            raise DecryptionError("the payload cannot be decrypted: its key is missing")
        payload: dict[str, Any] = json.loads(self.payload)
        return payload

    def send_again(self, now: float | None = None) -> None:
        """Make it due now, with the same id."""
        self.state, self.next_at, self.attempts = "pending", time.time() if now is None else now, 0
        self.status, self.error, self.done_at = None, "", None
        self.save(update_fields=["state", "next_at", "attempts", "status", "error", "done_at"])


# Web Push: the browsers in which people switched it on, and the key pair that push services know this server by.
PUSH = "push:"  # begins the target of a delivery; the browser's pk follows


class PushKey(models.Model):
    """The key pair of this installation: one row, with the private key in base64url."""

    private = SealedText()

    class Meta:
        default_permissions = ()  # no one reads it

    def __str__(self) -> str:
        return "push key"


class PushBrowser(models.Model):
    """A browser that shows notifications to a person.

    The endpoint is a secret: anyone who knows it can address the browser.
    """

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    endpoint = SealedText()
    endpoint_sha256 = models.CharField(max_length=64, unique=True)  # one browser shows the calls of one person
    public_key = models.CharField(max_length=100)  # of the browser, base64url
    auth = SealedText()  # the secret that the browser shares with us, base64url
    sign_in = models.CharField(max_length=64)  # digest of what signs the person in; it changes with the password
    device = models.CharField(max_length=64, blank=True)  # digest of the browser's cookie; signing out there ends it
    label = models.CharField(max_length=60)
    severity = models.CharField(max_length=10, default="low")  # the lowest that it gets
    trouble = models.CharField(max_length=300, blank=True)  # why the latest notification was not accepted
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()  # each person has their own

    def __str__(self) -> str:
        return self.label
