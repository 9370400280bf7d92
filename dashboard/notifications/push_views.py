"""Push notifications: each person's page with the browsers in which they switched them on."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_out
from django.db import transaction
from django.db.models.signals import post_save
from django.dispatch import receiver
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.accounts.access import get_signed_in_person, needs
from dashboard.accounts.guessing import throttle
from dashboard.notifications.forms import BrowserForm, SeverityForm
from toolcards.audit.trail import Act, write_acts
from toolcards.encryption import DecryptionError
from toolcards.models import Delivery, PushBrowser
from toolcards.models.notifications import PUSH
from toolcards.notifications import formats, push, push_encryption, subscriptions


# Ends push notifications where a person signs out, or is deactivated.
def digest_device(request: HttpRequest, person: User) -> str:
    """Return a digest of the browser's cookie, "" without one."""
    device = throttle.find_device(request, person.pk)
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


MAX_BROWSERS = 10  # of one person
_AGENTS = (
    (r"Edg", "Edge"), (r"OPR/", "Opera"), (r"SamsungBrowser", "Samsung Internet"), (r"Firefox|FxiOS", "Firefox"),
    (r"Chrome|CriOS", "Chrome"), (r"Safari", "Safari"),
)  # fmt: skip
_SYSTEMS = (
    (r"Android", "Android"), (r"iPhone|iPod", "iPhone"), (r"iPad", "iPad"), (r"Windows", "Windows"),
    (r"Mac OS X|Macintosh", "macOS"), (r"CrOS", "ChromeOS"), (r"Linux", "Linux"),
)  # fmt: skip


@require_http_methods(["GET", "HEAD", "POST"])
@needs()
def browsers(request: HttpRequest) -> HttpResponse:
    """Show the person's browsers; POST adds the one that it comes from."""
    person = get_signed_in_person(request)
    if request.method != "POST":
        return _render_page(request, person)
    form = BrowserForm(request.POST)
    if not form.is_valid():
        text = next((str(errors[0]) for errors in form.errors.values()), "This browser cannot be added.")
        return _render_page(request, person, trouble=text, status=422)
    try:
        is_added = _add_browser(request, person, form)
        text = "" if is_added else f"You already have {MAX_BROWSERS} browsers. Remove one first."
    except DecryptionError:
        text = "This browser cannot be added: the server cannot decrypt its push key."
    if text:
        return _render_page(request, person, trouble=text, status=422)
    messages.success(request, "Push notifications are on in this browser.")
    return redirect("push")


@require_POST
@needs()
def change_browser(request: HttpRequest, pk: int, action: str) -> HttpResponse:
    """Remove or test one of the person's browsers, or set its severity."""
    if action not in _ACTIONS:
        raise Http404
    browser = get_object_or_404(PushBrowser, pk=pk, person=get_signed_in_person(request))
    with transaction.atomic():
        text = _ACTIONS[action](request, browser)
        transaction.on_commit(subscriptions.clear_cache)
    messages.success(request, text)
    return redirect("push")


def _render_page(request: HttpRequest, person: User, trouble: str = "", status: int = 200) -> HttpResponse:
    try:
        key = push_encryption.get_public_key()
    except DecryptionError:
        key = ""
    rows = [
        row for row in PushBrowser.objects.filter(person=person).order_by("pk") if push.is_signed_in_by(row, person)
    ]
    context = {"rows": rows, "key": key, "trouble": trouble, "is_full": len(rows) >= MAX_BROWSERS, "most": MAX_BROWSERS}
    return render(request, "notifications/push.html", context | {"severities": SeverityForm.CHOICES}, status=status)


def _add_browser(request: HttpRequest, person: User, form: BrowserForm) -> bool:
    """Add the browser, or give it to this person; return False if they have too many."""
    endpoint = form.cleaned_data["endpoint"]
    digest = hashlib.sha256(endpoint.encode()).hexdigest()
    with transaction.atomic():
        User.objects.select_for_update().get(pk=person.pk)  # so that two requests do not exceed the limit together
        _delete_signed_out(person)
        push_encryption.store_key()
        own = PushBrowser.objects.filter(person=person).exclude(endpoint_sha256=digest)
        if own.count() >= MAX_BROWSERS:
            return False
        label = describe_browser(request.headers.get("User-Agent", ""))
        PushBrowser.objects.update_or_create(
            endpoint_sha256=digest,
            defaults={
                "person": person, "endpoint": endpoint, "public_key": form.cleaned_data["public_key"],
                "auth": form.cleaned_data["auth"], "label": label, "trouble": "",
                "sign_in": push.digest_sign_in(person.get_session_auth_hash()),
                "device": digest_device(request, person),
            },
        )  # fmt: skip
        _record(request, "notify.push_on", label)
        transaction.on_commit(subscriptions.clear_cache)
    return True


def describe_browser(user_agent: str) -> str:
    """Return a name such as "Chrome on Android"."""
    program = next((name for pattern, name in _AGENTS if re.search(pattern, user_agent)), "A browser")
    system = next((name for pattern, name in _SYSTEMS if re.search(pattern, user_agent)), "")
    return f"{program} on {system}" if system else program


def _record(request: HttpRequest, act: str, label: str) -> None:
    write_acts(Act(act, "human", request.user.get_username(), detail={"browser": label}))


def _delete_signed_out(person: User) -> None:
    rows = PushBrowser.objects.filter(person=person)
    rows.filter(pk__in=[row.pk for row in rows if not push.is_signed_in_by(row, person)]).delete()


# ---------------------------------------------------------------- actions


def _remove(request: HttpRequest, browser: PushBrowser) -> str:
    browser.delete()
    _record(request, "notify.push_off", browser.label)
    return f"{browser.label} no longer receives notifications."


def _send_test(request: HttpRequest, browser: PushBrowser) -> str:
    now, target = time.time(), f"{PUSH}{browser.pk}"
    if Delivery.objects.filter(target=target, event=formats.TEST, state="pending").exists():
        return f"A test is already being sent to {browser.label}."
    payload = formats.build_test_payload()
    Delivery.objects.create(
        target=target, event_id=payload["id"], event=formats.TEST, severity="low",
        payload=json.dumps(payload), created_at=now, next_at=now,
    )  # fmt: skip
    return f"A test is being sent to {browser.label}."


def _set_severity(request: HttpRequest, browser: PushBrowser) -> str:
    form = SeverityForm(request.POST)
    if not form.is_valid():
        raise Http404
    browser.severity = form.cleaned_data["severity"]
    browser.save(update_fields=["severity"])
    return "Saved."


_ACTIONS: dict[str, Callable[[HttpRequest, PushBrowser], str]] = {
    "remove": _remove, "try": _send_test, "severity": _set_severity,
}  # fmt: skip
