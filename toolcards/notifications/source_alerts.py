"""Tells of sources that fell silent, fail, or would run things unasked: once when it begins, once when it is over.

What was told is read from the deliveries themselves, whose ids are counted per source and badge, so that processes
beside each other tell it once. Nobody listens: nothing is looked at.
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

CHECK_SECONDS = 30.0  # seconds between two looks
# The badge: its event, how much that matters, and whether it can be over.
_ALERTS = {"silent": (h.SILENT, "medium", True), "failing": (h.FAILING, "high", True),
           "fails-open": (h.FAILS_OPEN, "low", False)}  # fmt: skip
_ID = re.compile(r"evt_s(\d+)-([a-z-]+?)-(\d+)(-over)?")


def write_source_alerts(now: float | None = None) -> int:
    """Write down what is to be told of the sources as they are now; return how many deliveries that is."""
    if not subscriptions.list_webhooks():
        return 0
    now = time.time() if now is None else now
    return _write_deliveries(_find_changes(now), now)


def write_audit_alert(finding: TrailFinding, now: float | None = None) -> int:
    """Write down, once per fault, that the audit trail is not whole; return how many deliveries that is."""
    now = time.time() if now is None else now
    event_id = f"evt_audit-{hashlib.sha256(finding.fault.encode()).hexdigest()[:16]}"
    content = {
        "event": h.AUDIT_BROKEN, "v": 1, "id": event_id, "ts": format_time(now), "source": "", "call": "",
        "url": "/settings/audit/", "kind": finding.kind, "title": finding.title, "why": finding.fault,
    }  # fmt: skip
    return _write_deliveries([(0, "critical", content)], now)


def _write_deliveries(news: Iterable[tuple[int, str, dict[str, Any]]], now: float) -> int:
    rows = [
        Delivery(webhook_id=webhook.pk, target=str(webhook.pk), event_id=said["id"], event=said["event"],
                 severity=severity, payload=json.dumps(said), created_at=now, next_at=now)
        for source, severity, said in news
        for webhook in subscriptions.list_webhooks()
        if webhook.wants(said["event"], source, severity)
    ]  # fmt: skip
    Delivery.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def _find_changes(now: float) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Every change since it was last told: the source, how much it matters, and the payload."""
    told, names = _load_latest_alerts(), dict(Source.objects.values_list("pk", "name"))
    for source, badges in health.list_badges(now=now).items():
        why = {badge.code: badge.why for badge in badges}
        for code, (event, severity, ends) in _ALERTS.items():
            count, over = told.get((source, code), (0, True))
            if code in why and over:
                said = _build_payload(event, f"evt_s{source}-{code}-{count + 1}", source, names[source], code, now)
                yield source, severity, said | {"why": why[code]}
            elif ends and code not in why and not over:
                said = _build_payload(
                    h.RECOVERED, f"evt_s{source}-{code}-{count}-over", source, names[source], code, now
                )
                yield source, severity, said


def _load_latest_alerts() -> dict[tuple[int, str], tuple[int, bool]]:
    """What was told last of every source and badge: the how manieth it was, and whether it was said to be over."""
    events = [h.RECOVERED, *(event for event, *_ in _ALERTS.values())]
    found: dict[tuple[int, str], tuple[int, bool]] = {}
    for event_id in Delivery.objects.filter(event__in=events).order_by("id").values_list("event_id", flat=True):
        parts = _ID.fullmatch(event_id)
        if parts:
            found[int(parts[1]), parts[2]] = int(parts[3]), bool(parts[4])
    return found


def _build_payload(event: str, event_id: str, source: int, name: str, code: str, now: float) -> dict[str, Any]:
    return {
        "event": event, "v": 1, "id": event_id, "ts": format_time(now), "source": name, "badge": code, "call": "",
        "url": f"/sources/{source}/",
    }  # fmt: skip
