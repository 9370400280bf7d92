"""Notifications: their settings, secrets and deliveries."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard.accounts.access import needs
from dashboard.notifications.forms import WebhookForm, get_initial_values
from toolcards.audit.trail import Act, write_acts
from toolcards.encryption import DecryptionError
from toolcards.models import Delivery, Webhook
from toolcards.notifications import formats, subscriptions

RIGHT = "toolcards.change_webhook"
MAX_DELIVERIES = 100
_SETTINGS = ("name", "format", "to", "severity", "quiet_from", "quiet_to", "zone", "enabled")


@require_http_methods(["GET", "HEAD", "POST"])
@needs(RIGHT)
def notify(request: HttpRequest) -> HttpResponse:
    """Show all notifications; POST adds one."""
    form = WebhookForm(request.POST) if request.method == "POST" else WebhookForm()
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            webhook = form.save(request.user.get_username())
            _record_change(request, webhook, "notify.added")
        return _render_webhook(request, webhook, secret=webhook.secret)
    context = {"webhooks": Webhook.objects.order_by("name"), "form": form}
    return render(request, "notifications/notifications.html", context, status=422 if form.is_bound else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(RIGHT)
def webhook(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the settings and deliveries of one notification."""
    webhook_row = get_object_or_404(Webhook, pk=pk)
    if request.method != "POST":
        return _render_webhook(request, webhook_row)
    form = WebhookForm(request.POST, webhook=webhook_row)
    if not form.is_valid():
        return _render_webhook(request, webhook_row, form=form, status=422)
    was = _describe_settings(webhook_row)
    with transaction.atomic():
        _record_change(request, form.save(request.user.get_username()), "notify.changed", was)
    messages.success(request, "Saved.")
    return redirect("notify-one", pk=pk)


@require_POST
@needs(RIGHT)
def change_webhook(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """Rotate the secret, switch on or off, try it, or remove it."""
    if action not in _ACTS:
        raise Http404
    webhook_row = get_object_or_404(Webhook, pk=pk)
    was = _describe_settings(webhook_row)
    with transaction.atomic():
        message = _ACTS[action](webhook_row)
        _record_change(request, webhook_row, f"notify.{action}", was)
    if action == "rotate":
        return _render_webhook(request, webhook_row, secret=webhook_row.secret)
    messages.success(request, message)
    return redirect("notify") if action == "remove" else redirect("notify-one", pk=pk)


@require_POST
@needs(RIGHT)
def resend_delivery(request: HttpRequest, pk: int) -> HttpResponse:
    """Send one delivery again, with its id."""
    delivery = get_object_or_404(Delivery.objects.exclude(webhook=None), pk=pk)
    delivery.send_again()
    messages.success(request, "The delivery is being sent again.")
    return redirect("notify-one", pk=delivery.webhook_id)


@require_GET
@needs(RIGHT)
def delivery(request: HttpRequest, pk: int) -> HttpResponse:
    """Show exactly what was sent."""
    delivery_row = get_object_or_404(Delivery.objects.exclude(webhook=None).select_related("webhook"), pk=pk)
    try:
        body = json.dumps(delivery_row.decoded_payload, indent=2, ensure_ascii=False)
    except DecryptionError:
        body = "This cannot be decrypted: the encryption key is missing."
    return render(request, "notifications/delivery.html", {"delivery": delivery_row, "payload": body})


def _render_webhook(
    request: HttpRequest, webhook_row: Webhook, *, form: WebhookForm | None = None, secret: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "webhook": webhook_row,
        "form": form or WebhookForm(initial=get_initial_values(webhook_row), webhook=webhook_row),
        "secret": secret,
        "deliveries": webhook_row.deliveries.order_by("-pk")[:MAX_DELIVERIES],
        "rotating": webhook_row.old_until > time.time(),
    }  # fmt: skip
    answer = render(request, "notifications/webhook.html", context, status=status)
    if secret:
        answer["Cache-Control"] = "no-store, private"
    return answer


def _record_change(request: HttpRequest, webhook_row: Webhook, act: str, was: dict[str, Any] | None = None) -> None:
    """Record the change in its transaction: all settings of a new webhook, or those that changed."""
    transaction.on_commit(subscriptions.clear_cache)
    now = _describe_settings(webhook_row)
    changes = {name: {"was": was[name], "is": now[name]} for name in now if was[name] != now[name]} if was else now
    state = {"name": webhook_row.name, "format": webhook_row.format, "enabled": webhook_row.enabled}
    write_acts(Act(act, "human", request.user.get_username(), detail=state | changes))


def _describe_settings(webhook_row: Webhook) -> dict[str, Any]:
    """Return the settings for the audit trail.

    The path of a URL may be secret, so the name is its host and a short digest.
    """
    settings: dict[str, Any] = {name: getattr(webhook_row, name) for name in _SETTINGS}
    settings |= {
        "events": webhook_row.wanted_events,
        "sources": webhook_row.wanted_sources,
        "escalated_to": webhook_row.wanted_escalations,
    }
    parts, mark = urlsplit(webhook_row.url), hashlib.sha256(webhook_row.url.encode()).hexdigest()[:8]
    return settings | {"url": f"{parts.scheme}://{parts.hostname}/… ({mark})" if webhook_row.url else ""}


def _toggle(webhook_row: Webhook) -> str:
    webhook_row.enabled, webhook_row.trouble = not webhook_row.enabled, ""
    webhook_row.save(update_fields=["enabled", "trouble"])
    return f"{webhook_row.name} is {'on' if webhook_row.enabled else 'off'}."


def _remove(webhook_row: Webhook) -> str:
    webhook_row.delete()
    return f"{webhook_row.name} was removed."


def _send_test(webhook_row: Webhook) -> str:
    now = time.time()
    event = formats.build_test_payload()
    Delivery.objects.create(
        webhook=webhook_row, target=str(webhook_row.pk), event_id=event["id"], event=formats.TEST, severity="critical",
        payload=json.dumps(event), created_at=now, next_at=now,
    )  # fmt: skip
    return "A test is being sent; the delivery is listed below."


def _rotate(webhook_row: Webhook) -> str:
    webhook_row.rotate()
    return "A new secret was created."


_ACTS: dict[str, Callable[[Webhook], str]] = {
    "rotate": _rotate,
    "switch": _toggle,
    "remove": _remove,
    "try": _send_test,
}
