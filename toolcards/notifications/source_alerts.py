"""Alerts about sources that lost contact, fail, or may fail open: one when it starts, one when it ends.

Deliveries are the record of past alerts: their ids are numbered per source and badge, so that several processes send
each alert once. Without webhooks, sources are not checked.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

from toolcards.audit.verification import TrailFinding
from toolcards.core.calls import tool_events as h
from toolcards.core.calls.call_json import format_time
from toolcards.models import Source
from toolcards.models.notifications import Delivery
from toolcards.notifications import subscriptions
from toolcards.sources import badges as health

CHECK_SECONDS = 30.0  # seconds between two checks
# For each badge: its event, the severity, and whether a recovery is sent.
_ALERTS = {"silent": (h.SILENT, "medium", True), "failing": (h.FAILING, "high", True),
           "fails-open": (h.FAILS_OPEN, "low", False)}  # fmt: skip
_ID = re.compile(r"evt_s(\d+)-([a-z-]+?)-(\d+)(-over)?")


def write_source_alerts(now: float | None = None) -> int:
    """Write the alerts that are due; return the number of deliveries."""
    if not subscriptions.list_webhooks():
        return 0
    now = time.time() if now is None else now
    return _write_deliveries(_find_changes(now), now)


def write_audit_alert(finding: TrailFinding, now: float | None = None) -> int:
    """Write an alert about the audit trail; return the number of deliveries.

    There is one alert per fault.
    """
    now = time.time() if now is None else now
    event_id = f"evt_audit-{hashlib.sha256(finding.fault.encode()).hexdigest()[:16]}"
    content = {
        "event": h.AUDIT_BROKEN, "v": 1, "id": event_id, "ts": format_time(now), "source": "", "call": "",
        "url": "/settings/audit/", "kind": finding.kind, "title": finding.title, "why": finding.fault,
    }  # fmt: skip
    return _write_deliveries([(0, "critical", content)], now)


def _write_deliveries(alerts: Iterable[tuple[int, str, dict[str, Any]]], now: float) -> int:
    rows = [
        Delivery(webhook_id=webhook.pk, target=str(webhook.pk), event_id=payload["id"], event=payload["event"],
                 severity=severity, payload=json.dumps(payload), created_at=now, next_at=now)
        for source, severity, payload in alerts
        for webhook in subscriptions.list_webhooks()
        if webhook.wants(payload["event"], source, severity)
    ]  # fmt: skip
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def _find_changes(now: float) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield the changes since the latest alerts: source, severity and payload."""
    latest_alerts, names = _load_latest_alerts(), dict(Source.objects.values_list("pk", "name"))
    for source, badges in health.list_badges(now=now).items():
        why = {badge.code: badge.why for badge in badges}
        for code, (event, severity, ends) in _ALERTS.items():
            number, is_over = latest_alerts.get((source, code), (0, True))
            if code in why and is_over:
                payload = _build_payload(event, f"evt_s{source}-{code}-{number + 1}", source, names[source], code, now)
                yield source, severity, payload | {"why": why[code]}
            elif ends and code not in why and not is_over:
                payload = _build_payload(
                    h.RECOVERED, f"evt_s{source}-{code}-{number}-over", source, names[source], code, now
                )
                yield source, severity, payload


def _load_latest_alerts() -> dict[tuple[int, str], tuple[int, bool]]:
    """Return the latest alert per source and badge: its sequence number, and whether recovery was sent."""
    events = [h.RECOVERED, *(event for event, *_ in _ALERTS.values())]
    latest: dict[tuple[int, str], tuple[int, bool]] = {}
    for event_id in Delivery.objects.filter(event__in=events).order_by("id").values_list("event_id", flat=True):
        parts = _ID.fullmatch(event_id)
        if parts:
            latest[int(parts[1]), parts[2]] = int(parts[3]), bool(parts[4])
    return latest


def _build_payload(event: str, event_id: str, source: int, name: str, code: str, now: float) -> dict[str, Any]:
    return {
        "event": event, "v": 1, "id": event_id, "ts": format_time(now), "source": name, "badge": code, "call": "",
        "url": f"/sources/{source}/",
    }  # fmt: skip
