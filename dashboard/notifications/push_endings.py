"""Ends push notifications where a person signs out, or is deactivated."""

from __future__ import annotations

import hashlib
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_out
from django.db import transaction
from django.db.models.signals import post_save
from django.dispatch import receiver
from django.http import HttpRequest

from dashboard.accounts.guessing import devices
from toolcards.models import PushBrowser
from toolcards.notifications import subscriptions


def digest_device(request: HttpRequest, person: User) -> str:
    """Return a digest of the browser's cookie, "" without one."""
    device = devices.find_device(request, person.pk)
    return hashlib.sha256(device.encode()).hexdigest() if device else ""


@receiver(user_logged_out)
def delete_browser_signed_out(sender: Any, request: HttpRequest, user: User | None, **kwargs: Any) -> None:
    """Delete the person's row of the browser that signs out."""
    device = digest_device(request, user) if user is not None else ""
    if device and PushBrowser.objects.filter(person=user, device=device).delete()[0]:
        subscriptions.clear_cache()


@receiver(post_save, sender=settings.AUTH_USER_MODEL)
def delete_browsers_of_inactive(sender: Any, instance: User, **kwargs: Any) -> None:
    """Delete the browsers of a person who was deactivated."""
    if not instance.is_active and PushBrowser.objects.filter(person=instance).delete()[0]:
        transaction.on_commit(subscriptions.clear_cache)
