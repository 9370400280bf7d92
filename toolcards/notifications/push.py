"""Web Push: sends what waits for a person to the browsers in which they switched it on, encrypted for each (RFC 8030).

A message says what other notifications say, and leads to the page of the approval; it decides nothing. When the
approval is over, a second message with the same tag replaces the first.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist

from toolcards.core.calls import tool_events as h
from toolcards.encryption import UnreadableText
from toolcards.models import Approval, Delivery, PushBrowser
from toolcards.models.notifications import PUSH
from toolcards.notifications import formats, push_encryption, webhooks
from toolcards.notifications.push_encryption import encrypt
from toolcards.notifications.webhooks import NotDelivered

EVENTS = (h.APPROVAL_REQUESTED, h.APPROVAL_ESCALATED, h.APPROVAL_RESOLVED)
TEST = formats.TEST
VIEW, VOTE = "toolcards.view_toolcall", "toolcards.vote"
MAX_TITLE, MAX_BODY = 120, 200
HOUR, DAY = 3600, 86_400
_REMOVED_STATUSES = frozenset({404, 410})
_WORTH_RETRYING = frozenset({0, 408, 425, 429})


class NotWanted(Exception):
    """Why a message is not sent, for example because the approval is over."""


def send(delivery: Delivery, now: float) -> int:
    """Send the delivery to its browser; return the status.

    Raises NotWanted, UnsafeUrl or NotDelivered. A browser that is gone is deleted.
    """
    browser = _find_browser(delivery)
    payload = delivery.decoded_payload
    seconds = _check_wanted(delivery, payload, browser.person, now)
    body = encrypt(build_text(payload, delivery.severity, browser.person), browser.public_key, browser.auth)
    headers = {
        "TTL": str(seconds), "Urgency": "normal" if delivery.event == h.APPROVAL_RESOLVED else "high",
        "Topic": build_tag(payload), "Content-Encoding": "aes128gcm", "Content-Type": "application/octet-stream",
        "Authorization": push_encryption.build_authorization(browser.endpoint, now),
    }  # fmt: skip
    try:
        status = webhooks.post(browser.endpoint, body, headers, setting=webhooks.BY_BROWSERS)
    except NotDelivered as error:
        _record_trouble(browser, error)
        raise
    if browser.trouble:
        PushBrowser.objects.filter(pk=browser.pk).update(trouble="")
    return status


def is_final(error: NotDelivered) -> bool:
    """Return whether sending again is no use."""
    return error.status not in _WORTH_RETRYING and error.status < 500


def is_signed_in_by(browser: PushBrowser, person: User) -> bool:
    """Return whether the person is active, with the password of then."""
    hashes = (person.get_session_auth_hash(), *person.get_session_auth_fallback_hash())
    return person.is_active and any(hmac.compare_digest(digest_sign_in(each), browser.sign_in) for each in hashes)


def digest_sign_in(session_hash: str) -> str:
    """Return what a browser's row keeps of Django's session hash."""
    return hashlib.sha256(session_hash.encode()).hexdigest()


def build_tag(payload: dict[str, Any]) -> str:
    """Return the tag of all messages about one approval: 32 letters.

    Of messages with the same tag, the latest replaces the others. The tag reveals nothing about the call. It is also
    the topic for the push service, which then keeps only the latest message.
    """
    subject = payload.get("approval", {}).get("id") or payload["id"]
    return base64.urlsafe_b64encode(hashlib.sha256(f"toolcards {subject}".encode()).digest()[:24]).decode()


def build_text(payload: dict[str, Any], severity: str, person: User) -> bytes:
    """Return the message for the service worker, as JSON."""
    message = formats.build_message(payload, severity)
    approval = payload.get("approval", {})
    is_over = payload["event"] == h.APPROVAL_RESOLVED
    title = "Push notifications work" if payload["event"] == TEST else message.title
    summary = str(payload.get("summary", ""))
    content = {
        "tag": build_tag(payload), "over": is_over, "title": _clean_line(title, MAX_TITLE),
        "body": _clean_line(summary, MAX_BODY),
        "path": f"/approvals/{approval['id']}/" if approval else "/settings/push/",
        "answers": bool(approval) and not is_over and person.has_perm(VOTE),
    }  # fmt: skip
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")


def _clean_line(text: str, most: int) -> str:
    """Return the text as one line, with invisible characters named."""
    return formats.clean(" ".join(text.split()), most)


def _find_browser(delivery: Delivery) -> PushBrowser:
    """Return the browser; raises NotWanted if it has none or its person may not see the call."""
    try:
        browser = PushBrowser.objects.select_related("person").get(pk=delivery.target.removeprefix(PUSH))
    except (ObjectDoesNotExist, ValueError):
        raise NotWanted("This browser was removed.") from None
    if not is_signed_in_by(browser, browser.person):
        browser.delete()
        raise NotWanted("This person is signed out.")
    if not browser.person.has_perm(VIEW):
        raise NotWanted("This person cannot see calls.")
    if UnreadableText in (type(browser.endpoint), type(browser.auth)):
        browser.delete()
        raise NotWanted("No key of this server decrypts the address of this browser.")
    return browser


def _check_wanted(delivery: Delivery, payload: dict[str, Any], person: User, now: float) -> int:
    """Return the seconds for which the push service keeps the message; raises NotWanted."""
    if delivery.event == TEST:
        return HOUR
    approval = Approval.objects.filter(pk=payload["approval"]["id"]).first()
    if delivery.event == h.APPROVAL_RESOLVED:
        _check_shown(delivery, f"evt_{payload['call']}-{payload['attempt']}-")
        return DAY
    if approval is None or approval.state != "pending":
        raise NotWanted("It was already decided.")
    names = payload.get("escalated_to", ())
    if names and not {person.get_username(), *(f"group:{group.name}" for group in person.groups.all())} & {*names}:
        raise NotWanted("It was escalated to others.")
    return _count_seconds_left(payload["approval"].get("expires_at"), now)


def _check_shown(delivery: Delivery, prefix: str) -> None:
    """Raise NotWanted if this browser got no message with this beginning of the id: it replaces nothing."""
    earlier = Delivery.objects.filter(target=delivery.target, state="delivered", event__in=EVENTS, pk__lt=delivery.pk)
    if not earlier.filter(event_id__startswith=prefix).exists():
        raise NotWanted("This browser shows no notification of it.")


def _count_seconds_left(expires_at: Any, now: float) -> int:
    """Return the seconds until a time as payloads have it, at most a day; a day without one."""
    try:
        end = datetime.fromisoformat(str(expires_at)).timestamp()
    except ValueError:
        return DAY
    return max(0, min(DAY, round(end - now)))


def _record_trouble(browser: PushBrowser, error: NotDelivered) -> None:
    """Delete a browser that is gone, else show on its page why nothing arrives."""
    rows = PushBrowser.objects.filter(pk=browser.pk)
    if error.status in _REMOVED_STATUSES:
        rows.delete()
    else:
        rows.update(trouble=str(error)[:300])
