"""What is to be told to others: who wants to hear what (`Webhook`), and every telling, with its end (`Delivery`).

Deliveries are written in the transaction of what they tell of, so nothing is told that did not happen and nothing
that happened is lost; they are sent afterwards, at least once. Receivers know them by `event_id`.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Collection
from typing import Any

from django.db import models
from django.utils import timezone

from toolcards.encryption import DecryptionError, SealedText, UnreadableText

FORMATS = ("webhook", "ntfy", "slack", "discord", "email")
SEVERITIES = ("low", "medium", "high", "critical")
PLUGIN = "plugin:"
KEEP_DAYS = 14
ROTATION = 24 * 3600.0  # seconds that the old secret still signs after a new one was made


def new_secret() -> str:
    """Return a signing secret as Standard Webhooks writes it."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()


class WebhookQuerySet(models.QuerySet["Webhook"]):
    """Who wants to hear."""

    def live(self) -> WebhookQuerySet:
        """Those that are told anything."""
        return self.filter(enabled=True)


class Webhook(models.Model):
    """Somebody who wants to hear: a URL (or mail addresses), what it wants to hear of, and in whose words."""

    name = models.CharField(max_length=200, unique=True)
    format = models.CharField(max_length=20, default="webhook")
    url = models.CharField(max_length=2000, blank=True)
    to = models.CharField(max_length=1000, blank=True)  # mail addresses between commas
    secret = models.CharField(max_length=200, default=new_secret)
    old_secret = models.CharField(max_length=200, blank=True)
    old_until = models.FloatField(default=0)
    events = models.TextField(default="[]")  # of core.happenings.EVENTS; none: all
    sources = models.TextField(default="[]")  # pks of sources; none: all
    escalated_to = models.TextField(default="[]")  # names and groups; of escalations only those to them; none: all
    severity = models.CharField(max_length=10, default="low")  # the lowest that is told
    quiet_from = models.CharField(max_length=5, blank=True)  # "22:00"; between the two only `critical` is told
    quiet_to = models.CharField(max_length=5, blank=True)
    zone = models.CharField(max_length=60, default="UTC")
    enabled = models.BooleanField(default=True)
    trouble = models.CharField(max_length=300, blank=True)  # why it was switched off by itself
    created_by = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    objects = WebhookQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    @property
    def wanted_events(self) -> list[str]:
        """The events it hears; none means all."""
        return [str(name) for name in json.loads(self.events)]

    @property
    def wanted_sources(self) -> list[int]:
        """The sources it hears of; none means all."""
        return [int(pk) for pk in json.loads(self.sources)]

    @property
    def wanted_escalations(self) -> list[str]:
        """Whose escalations it hears of; none means everybody's."""
        return [str(name) for name in json.loads(self.escalated_to)]

    def secrets(self, now: float | None = None) -> list[str]:
        """Return the secrets that sign today: the newest first, the one before it for a day more."""
        now = time.time() if now is None else now
        return [self.secret, *([self.old_secret] if self.old_secret and self.old_until > now else [])]

    def rotate(self, now: float | None = None) -> str:
        """Make a new secret; the old one goes on signing for a day. Return the new one."""
        now = time.time() if now is None else now
        self.old_secret, self.old_until, self.secret = self.secret, now + ROTATION, new_secret()
        self.save(update_fields=["secret", "old_secret", "old_until"])
        return self.secret

    def wants(self, event: str, source: int, severity: str, to: Collection[str] = ()) -> bool:
        """Return whether it wants to hear of this; `to`: who is asked too by an escalation."""
        events, sources = self.wanted_events, self.wanted_sources
        loud = SEVERITIES.index(severity) >= SEVERITIES.index(self.severity)
        ours = not to or not self.wanted_escalations or bool({*to} & {*self.wanted_escalations})
        return loud and ours and (not events or event in events) and (not sources or source in sources)


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    """What is to be told."""

    def due(self, now: float) -> DeliveryQuerySet:
        """Those to send now, oldest first."""
        return self.filter(state="pending", next_at__lte=now).order_by("id")

    def take(self, pk: int, now: float, lease: float) -> bool:
        """Take one in order to send it; False if somebody else did."""
        due = self.filter(pk=pk, state="pending", next_at__lte=now)
        return bool(due.update(next_at=now + lease, attempts=models.F("attempts") + 1))


class Delivery(models.Model):
    """One telling: `target` is a webhook's pk or `plugin:<name>`; pending, then delivered, failed or dropped."""

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
    def said(self) -> dict[str, Any]:
        """The payload; raises DecryptionError where the key that sealed it is not here."""
        if type(self.payload) is UnreadableText:
            raise DecryptionError("no key of ours opens what was to be told")
        told: dict[str, Any] = json.loads(self.payload)
        return told

    def again(self, now: float | None = None) -> None:
        """Send it once more, now, with the same id."""
        self.state, self.next_at, self.attempts = "pending", time.time() if now is None else now, 0
        self.status, self.error, self.done_at = None, "", None
        self.save(update_fields=["state", "next_at", "attempts", "status", "error", "done_at"])
