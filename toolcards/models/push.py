"""Web Push: the browsers in which people switched it on, and the key pair that push services know this server by."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from toolcards.encryption import SealedText

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
