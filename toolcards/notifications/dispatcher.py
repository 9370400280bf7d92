"""Sends the deliveries that the gate has written, to plugins, webhooks, chats, mail and browsers, at least once each.

It runs apart from the gate and never delays it. A process takes a delivery under a lease; if the process dies, another
one takes the delivery when the lease ends. A failure here never changes a call.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connections, transaction

from toolcards import hooks, outages
from toolcards.audit.trail import Act, write_acts
from toolcards.core.calls import tool_events as h
from toolcards.database import is_transient, report_outage
from toolcards.models import ToolCall
from toolcards.models.notifications import KEEP_DAYS, PLUGIN, PUSH, Delivery, Webhook
from toolcards.notifications import formats, push, subscriptions, webhooks
from toolcards.notifications.retries import BROWSER_BACKOFF, finish, retry
from toolcards.notifications.webhooks import NotDelivered, UnsafeUrl


# Quiet hours: until when a notification to people waits.
def get_quiet_end(webhook: Webhook, severity: str, now: float) -> float:
    """Return the end of the current quiet hours, 0 for none.

    `critical` notifications are never delayed, nor are those in the `webhook` format.
    """
    if not webhook.quiet_from or not webhook.quiet_to or severity == "critical" or webhook.format == "webhook":
        return 0
    local_time = datetime.fromtimestamp(now, ZoneInfo(webhook.zone))
    start, end = (_parse_minute(local_time, text) for text in (webhook.quiet_from, webhook.quiet_to))
    minute = local_time.hour * 60 + local_time.minute
    is_quiet = start <= minute < end if start <= end else minute >= start or minute < end
    if not is_quiet or start == end:
        return 0
    return now + ((end - minute) % 1440) * 60 - local_time.second


def _parse_minute(local_time: datetime, text: str) -> int:
    hour, _, minute = text.partition(":")
    return int(hour) * 60 + int(minute or 0)


log = logging.getLogger(__name__)
LEASE = 30.0  # seconds for which a process holds a delivery
BATCH = 100
AT_ONCE, SLOW_AT_ONCE = 8, 4  # targets served at the same time, and how many of them may be slow ones
SLOW, TURN = 2.0, 5.0  # seconds after which a delivery counts as slow, and after which a turn ends
PRUNE_EVERY = 3600.0
_last_prune = 0.0
_HTTP_GONE = 410


class DeliveryTurns:
    """Serves each target separately and in order, so that no target waits for a slow one.

    Each thread serves one turn. Slow targets get at most half of the threads, so the others always find one.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="deliver")
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._slow: set[str] = set()

    def begin(self) -> None:
        """Start a turn for each target with due deliveries."""
        global _last_prune
        if subscriptions.has_listeners():
            with self._lock:
                excluded_targets = self._busy | (self._slow if len(self._busy & self._slow) >= SLOW_AT_ONCE else set())
            for target in (
                Delivery.objects.select_due(time.time())
                .exclude(target__in=excluded_targets)
                .values_list("target")[:BATCH]
            ):
                self._begin_one(target[0])
        if time.monotonic() - _last_prune > PRUNE_EVERY:
            _last_prune = time.monotonic()
            delete_old_deliveries()
        outages.report_success(outages.SENDING)

    def close(self) -> None:
        """Start no more turns."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _begin_one(self, target: str) -> None:
        with self._lock:
            is_full = len(self._busy) >= AT_ONCE
            is_held_back = target in self._slow and len(self._busy & self._slow) >= SLOW_AT_ONCE
            if is_full or is_held_back or target in self._busy:
                return
            self._busy.add(target)
        self._pool.submit(self._turn, target)

    def _turn(self, target: str) -> None:
        slow, began = False, time.monotonic()
        try:
            while not slow and time.monotonic() - began < TURN:
                pks = list(
                    Delivery.objects.select_due(time.time()).filter(target=target).values_list("pk", flat=True)[:BATCH]
                )
                for pk in pks:
                    sending = time.monotonic()
                    _send(pk, time.time())
                    slow = time.monotonic() - sending > SLOW
                    if slow or time.monotonic() - began >= TURN:
                        break
                if not pks:
                    break
        except Exception as error:  # the delivery is due again when its lease ends
            if not report_outage(error, outages.SENDING):
                log.exception("dispatch: a turn of %s failed", target)
        finally:
            connections.close_all()  # the thread may be idle for long
            with self._lock:
                self._busy.discard(target)
                (self._slow.add if slow else self._slow.discard)(target)


def send_due(now: float | None = None) -> int:
    """Send what is due, one after the other; return the number."""
    now = time.time() if now is None else now
    return sum(_send(pk, now) for pk in list(Delivery.objects.select_due(now).values_list("pk", flat=True)[:BATCH]))


def delete_old_deliveries(now: float | None = None) -> int:
    """Delete old finished deliveries; return the number.

    Those of webhooks are kept for two weeks, those of plugins and browsers for a day.
    """
    now = time.time() if now is None else now
    of_webhooks, _ = Delivery.objects.filter(done_at__lt=now - KEEP_DAYS * 86_400).delete()
    of_plugins, _ = Delivery.objects.filter(webhook=None, done_at__lt=now - 86_400).delete()
    return of_webhooks + of_plugins


def _send(pk: int, now: float) -> bool:
    if not Delivery.objects.take(pk, now, LEASE):
        return False
    delivery = Delivery.objects.select_related("webhook").get(pk=pk)
    try:
        if delivery.target.startswith(PUSH):
            _send_to_browser(delivery, now)
        elif delivery.webhook is None:
            _send_to_plugin(delivery, now)
        else:
            _send_to_webhook(delivery, delivery.webhook, now)
    except Exception as error:
        if is_transient(error):
            raise  # the delivery is due again when its lease ends
        log.exception("dispatch: delivery %s", pk)
        retry(delivery, "It could not be sent.", 0, None, now)
    outages.report_success(outages.SENDING)  # a slow receiver is no outage
    return True


# ---------------------------------------------------------------- plugins and browsers


def _send_to_plugin(delivery: Delivery, now: float) -> None:
    name = delivery.target.removeprefix(PLUGIN)
    plugin = next((plugin for plugin in hooks.list_plugins() if plugin.name == name), None)
    if plugin is None:
        finish(delivery, "dropped", now, error="not_plugged_in")
        return
    code = hooks.observe(plugin, _add_bodies(delivery.decoded_payload))
    finish(delivery, "failed" if code else "delivered", now, error=code)


def _add_bodies(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the payload with input and output, which plugins in this process receive and webhooks do not."""
    run, _, ordinal = str(payload.get("call", "")).partition("-")
    call = ToolCall.objects.filter(run_id=run, ordinal=ordinal).first() if run and ordinal else None
    if call is None:
        return payload
    card = call.as_card()
    output = {"output": card.output} if payload["event"] == h.EXECUTE_AFTER else {}
    return payload | {"input": card.shown_input} | output


def _send_to_browser(delivery: Delivery, now: float) -> None:
    try:
        status = push.send(delivery, now)
    except push.NotWanted as reason:
        return finish(delivery, "dropped", now, error=str(reason))
    except UnsafeUrl as error:
        return finish(delivery, "failed", now, error=str(error))
    except NotDelivered as error:
        if push.is_final(error):
            return finish(delivery, "failed", now, error=str(error), status=error.status)
        return retry(delivery, str(error), error.status, error.retry_after, now, BROWSER_BACKOFF)
    return finish(delivery, "delivered", now, status=status)


# ---------------------------------------------------------------- webhooks


def _send_to_webhook(delivery: Delivery, webhook: Webhook, now: float) -> None:
    if not webhook.enabled:
        return finish(delivery, "dropped", now, error="It is turned off.")
    quiet_end = get_quiet_end(webhook, delivery.severity, now)
    if quiet_end:
        Delivery.objects.filter(pk=delivery.pk).update(next_at=quiet_end, attempts=delivery.attempts - 1)
        return None
    try:
        status = _SENDERS[webhook.format](delivery, webhook)
    except UnsafeUrl as error:
        return finish(delivery, "failed", now, error=str(error))
    except NotDelivered as error:
        return _handle_failure(delivery, webhook, error, now)
    return finish(delivery, "delivered", now, status=status)


def _handle_failure(delivery: Delivery, webhook: Webhook, error: NotDelivered, now: float) -> None:
    if error.status == _HTTP_GONE:
        with transaction.atomic():
            Webhook.objects.filter(pk=webhook.pk).update(enabled=False, trouble="The receiver answered 410 Gone.")
            write_acts(Act("notify.gone", "gate", detail={"name": webhook.name, "enabled": {"was": True, "is": False}}))
        return finish(delivery, "failed", now, error=str(error), status=error.status)
    return retry(delivery, str(error), error.status, error.retry_after, now)


def _send_signed(delivery: Delivery, webhook: Webhook) -> int:
    payload = delivery.decoded_payload
    body = json.dumps({"type": delivery.event, "timestamp": payload.get("ts"), "data": payload}).encode()
    headers = webhooks.sign(webhook.secrets(), delivery.event_id, body)
    return webhooks.post(webhook.url, body, {"Content-Type": "application/json", **headers})


def _send_chat(delivery: Delivery, webhook: Webhook) -> int:
    body, headers = formats.TEMPLATES[webhook.format](
        formats.build_message(delivery.decoded_payload, delivery.severity)
    )
    return webhooks.post(webhook.url, body, headers)


def _send_mail(delivery: Delivery, webhook: Webhook) -> int:
    try:
        formats.send(webhook.to, formats.build_message(delivery.decoded_payload, delivery.severity))
    except OSError as error:  # also the base of smtplib's errors
        raise NotDelivered(f"The mail server did not accept it: {type(error).__name__}.") from error
    return 250


_SENDERS: dict[str, Callable[[Delivery, Webhook], int]] = {
    "webhook": _send_signed, "ntfy": _send_chat, "slack": _send_chat, "discord": _send_chat, "email": _send_mail,
}  # fmt: skip
