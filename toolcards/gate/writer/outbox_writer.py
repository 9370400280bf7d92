"""Turns events of a transaction into payloads for hooks, and these into deliveries of the same transaction.

Without subscriptions, no rows are written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from toolcards import hooks
from toolcards.core.calls import facts as f
from toolcards.core.calls import tool_events as h
from toolcards.core.calls.call_json import format_time
from toolcards.core.calls.card import Card
from toolcards.core.calls.tool_events import END_EVENTS, PendingEnd
from toolcards.core.review.review_answer import find_asked_reviewer
from toolcards.core.summaries.summary import summarize
from toolcards.database import is_transient
from toolcards.encryption import get_redactor
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.models.notifications import PLUGIN, PUSH, Delivery
from toolcards.notifications import push, subscriptions

log = logging.getLogger(__name__)


class PayloadOutbox:
    """The payloads of one transaction, in order."""

    def __init__(self) -> None:
        self.payloads: list[tuple[RunMemory, dict[str, Any]]] = []

    def add(self, memory: RunMemory, before: Card | None, after: Card, fact: f.AnyFact, events: list[str]) -> None:
        """Add the payloads of what happened to a call.

        An error here changes no outcome.
        """
        self._add(memory, before, after, events, memory.seq, fact.at)

    def add_settled(self, memory: RunMemory, pending: PendingEnd) -> None:
        """Add the payloads of a call that succeeded some facts ago."""
        card = pending.card
        self._add(memory, None, card, list(END_EVENTS), pending.position, card.times.finished)

    def _add(
        self, memory: RunMemory, before: Card | None, after: Card, events: list[str], position: int, timestamp: float
    ) -> None:
        try:
            for event in events:
                self.payloads.append((memory, build_payload(event, memory, after, before, timestamp, position)))
        except Exception as error:
            if is_transient(error):
                raise
            log.exception("outbox: event %s of %s is not delivered", after.call_id, memory.row.name)

    def add_run_end(self, memory: RunMemory, fact: f.RunEnded) -> None:
        """Add the payload of a failed run."""
        if fact.outcome in {"error", "truncated"} and not fact.lane:
            self.payloads.append((memory, build_run_payload(memory, fact)))

    def write(self, now: float) -> None:
        """Write the deliveries, last before the commit."""
        try:
            rows = [row for memory, payload in self.payloads for row in _build_deliveries(memory, payload, now)]
        except Exception as error:
            if is_transient(error):  # later writes would be rolled back silently
                raise
            log.exception("outbox: no event of this transaction is delivered")
            rows = []
        if rows:
            Delivery.objects.bulk_create(rows, ignore_conflicts=True)
        self.payloads = []


def build_payload(
    event: str, memory: RunMemory, card: Card, before: Card | None, timestamp: float, position: int
) -> dict[str, Any]:
    """Build the payload for hooks, as docs/hooks.md describes it.

    It has no arguments and no results, and its texts are redacted.
    """
    call, attempt = f"{memory.row.pk}-{card.ordinal}", h.get_attempt(card)
    times = card.times
    payload: dict[str, Any] = _build_head(event, memory, f"{call}-{attempt}", position, timestamp) | {
        "call": call, "call_id": card.call_id, "attempt": attempt, "agent_path": list(card.agent_path),
        "tool": {"name": card.tool.name, "source": card.tool.source, "kind": card.tool.kind},
        "state": str(card.state), "phase": "execute",
        "summary": get_redactor().text(summarize(get_redactor().card(card))),
        "duration_ms": round((times.finished - (times.decided or times.available)) * 1000)
        if times.finished and (times.decided or times.available) else None,
        "decision_id": f"dec_{call}" if card.decision else None,
        "args_sha256": card.decision.args_sha256 if card.decision else None,
        "repair": {"method": card.repair, "tool": card.original_tool or card.tool.name} if card.repair else None,
    }  # fmt: skip
    return payload | _build_details(event, card, before)


def build_run_payload(memory: RunMemory, fact: f.RunEnded) -> dict[str, Any]:
    """Build the payload of a run that ended badly."""
    head = _build_head(h.RUN_FAILED, memory, f"{memory.row.pk}", memory.seq, fact.at)
    error = {"code": fact.outcome, "message": get_redactor().text(fact.reason[: h.MAX_MESSAGE_LENGTH])}
    return head | {"call": "", "outcome": fact.outcome, "error": error}


def get_severity(payload: dict[str, Any]) -> str:
    """Return how much the event matters: low, medium, high or critical."""
    if payload["event"] == h.UNGOVERNED:
        return "critical"
    if payload["event"] == h.APPROVAL_REQUESTED:
        return str(payload.get("severity") or "medium")
    if payload["event"] == h.APPROVAL_ESCALATED:  # the first approvers did not answer
        return "critical" if payload.get("severity") == "critical" else "high"
    if payload["event"] == h.RUN_FAILED:
        return "high"
    if payload["event"] in (h.EXECUTE_ERROR, h.EXECUTE_CORRECTED):
        return "medium"
    return "low"


def _build_head(event: str, memory: RunMemory, subject: str, position: int, timestamp: float) -> dict[str, Any]:
    return {
        "event": event, "v": 1, "id": h.build_event_id(subject, event, position),
        "seq": h.compute_event_seq(position, event), "position": position, "ts": format_time(timestamp),
        "run_id": memory.row.name, "run": memory.row.pk, "source": memory.row.source.name, "url": get_run_link(memory),
    }  # fmt: skip


def get_run_link(memory: RunMemory) -> str:
    """Return the path of the run's page."""
    return memory.row.url


def _build_details(event: str, card: Card, before: Card | None) -> dict[str, Any]:
    if event == h.EXECUTE_ERROR:
        error_fields = h.build_error(card, before) or {}
        if error_fields:
            error_fields["error"]["message"] = get_redactor().text(error_fields["error"]["message"])
        return error_fields
    if event == h.EXECUTE_SETTLED:
        return {"outcome": h.get_outcome(card, before)}
    if event == h.EXECUTE_CORRECTED:
        return {"outcome": h.get_outcome(card, before)} | _build_details(h.EXECUTE_ERROR, card, before)
    if event in (h.APPROVAL_REQUESTED, h.APPROVAL_ESCALATED, h.APPROVAL_RESOLVED) and card.approval is not None:
        ask = card.approval
        escalation = {"escalated_to": h.list_escalated(before, card)} if event == h.APPROVAL_ESCALATED else {}
        return {
            "approval": {"id": ask.id, "state": ask.state, "expires_at": format_time(ask.expires_at)},
            "severity": ask.terms.get("severity", "medium"), "url": "/approvals/",
            "reason": get_redactor().text(ask.request_reason[:500]),
        } | escalation | _describe_review(event, card)  # fmt: skip
    if event == h.UNGOVERNED:
        return {"anomalies": [code for code, _ in card.anomalies]}
    return {"phase": "before"} if event == h.EXECUTE_BEFORE else {}


def _describe_review(event: str, card: Card) -> dict[str, Any]:
    """Return the reviewer of a new question, and until when people are not notified."""
    reviewer = find_asked_reviewer(card)
    if event != h.APPROVAL_REQUESTED or not reviewer or card.approval is None:
        return {}
    return {"review": {"by": reviewer, "until": format_time(card.approval.terms["review_until"])}}


def _find_first_time(payload: dict[str, Any], now: float) -> float:
    """Return when the event is sent: at once, or after the review of its question."""
    review = payload.get("review")
    return datetime.fromisoformat(review["until"]).timestamp() if review else now


def _build_deliveries(memory: RunMemory, payload: dict[str, Any], now: float) -> Iterable[Delivery]:
    event, severity = payload["event"], get_severity(payload)
    text = json.dumps(payload)
    common = {
        "event_id": payload["id"],
        "event": event,
        "severity": severity,
        "payload": text,
        "created_at": now,
        "next_at": _find_first_time(payload, now),
    }
    for webhook in subscriptions.list_webhooks():
        if webhook.wants(event, memory.row.source_id, severity, payload.get("escalated_to", ())):
            yield Delivery(webhook_id=webhook.pk, target=str(webhook.pk), **common)
    if event in push.EVENTS:
        # An answer matters as much as its question, so that it can replace it.
        importance = str(payload.get("severity") or severity) if event == h.APPROVAL_RESOLVED else severity
        for browser in subscriptions.list_browsers(importance):
            yield Delivery(target=f"{PUSH}{browser}", **common)
    if event in (*h.TOOL_EVENTS, h.EXECUTE_CORRECTED):
        for plugin in hooks.list_plugins(event):
            if event != h.EXECUTE_BEFORE:  # guards were consulted during the decision
                yield Delivery(target=f"{PLUGIN}{plugin.name}", **common)
