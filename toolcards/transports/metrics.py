"""How the server is doing, in numbers for Prometheus (`/metrics`)."""

from __future__ import annotations

import asyncio
import hmac
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from django.conf import settings
from django.db.models import Count, Sum
from django.http import HttpResponse
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import CollectorRegistry

from toolcards import __version__, gate, outages
from toolcards.audit import verification
from toolcards.core.review.review_answer import ANSWERS
from toolcards.database import report_outage
from toolcards.models import Approval, Review, Run, ToolCall
from toolcards.transports.api import sse
from toolcards.transports.api.api_errors import Problem
from toolcards.transports.api.asgi_messages import HEADERS
from toolcards.transports.api.asgi_views import endpoint
from toolcards.transports.background import connections, disk_space, worker_ends

DATABASE_SECONDS = 3.0  # seconds that the database has to answer


@endpoint("GET", anybody=True)
async def metrics(request: Any, caller: None) -> Any:
    """Prometheus text; behind TOOLCARDS_METRICS_TOKEN, where that is set."""
    token = settings.TOOLCARDS.metrics_token
    token_sent = request.headers.get("Authorization", "").partition(" ")[2]
    if token and not hmac.compare_digest(token_sent.encode(), token.get_secret_value().encode()):
        raise Problem(401, "unauthorized", "The metrics token is required.", headers={"WWW-Authenticate": "Bearer"})
    text = await _arender_metrics(await _read_numbers())
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST, headers=HEADERS)


async def _read_numbers() -> list[Metric]:
    """Return the numbers of the database, none of them while it is away: the others must still be seen."""
    try:
        async with asyncio.timeout(DATABASE_SECONDS):
            numbers: list[Metric] = await _acount_rows()
    except Exception as error:
        if not isinstance(error, TimeoutError) and not report_outage(error):
            raise
        return []
    return numbers


def count_rows() -> list[Metric]:
    """Return the numbers of the database."""
    calls = _count_by(ToolCall.objects.not_removed(), "state")
    event_count = Run.objects.aggregate(all=Sum("seq"))["all"] or 0
    return [
        _build_family("toolcards_runs", "Runs by status", "status", _count_by(Run.objects.all(), "status")),
        _build_family("toolcards_calls", "Tool calls by state", "state", calls),
        _build_gauge("toolcards_approvals_waiting", "Pending approvals", Approval.objects.waiting().count()),
        _build_family("toolcards_reviews", "Answers of reviewers", "answer", _count_reviews()),
        _build_gauge("toolcards_events", "Events in the log", event_count),
    ]


def _count_reviews() -> dict[str, int]:
    """Count the finished reviews by answer; `failed` and `skipped` have none."""
    rows = Review.objects.filter(state="done").order_by().values_list("answer", "is_failure")
    counts = Counter(dict.fromkeys((*ANSWERS, "failed", "skipped"), 0))
    for answer, is_failure, count in rows.annotate(Count("id")):
        counts[answer or ("failed" if is_failure else "skipped")] += count
    return counts


class MetricsCollector:
    """Collects the numbers at each scrape; those of the database are given."""

    def __init__(self, numbers: list[Metric]) -> None:
        self._numbers = numbers

    def collect(self) -> Iterator[Metric]:
        """See prometheus-client."""
        yield InfoMetricFamily("toolcards", "The version of this server", value={"version": __version__})
        yield from self._numbers
        last_result = verification.get_last_result()
        if last_result is not None:
            description = "1 if the audit trail was intact when it was last verified, else 0"
            yield _build_gauge("toolcards_audit_whole", description, 0 if last_result.finding.fault else 1)
        ended_workers = worker_ends.read_ends().count
        description = "Worker processes that ended, hung or were killed, and were replaced"
        yield CounterMetricFamily("toolcards_worker_restarts", description, value=ended_workers)
        if (share := disk_space.read_used_share()) is not None:
            yield _build_gauge("toolcards_disk_used_share", "Used share of the data directory's disk, 0 to 1", share)
        yield from self._collect_process()

    @staticmethod
    def _collect_process() -> Iterator[Metric]:
        """Collect what each process counts for itself.

        Several processes share one address, so each names itself.
        """
        backlog, failing_parts = gate.count_backlog(), {outage.part for outage in outages.list_outages()}
        streams = len(sse.open_rights)
        yield _build_own_gauge("toolcards_journal_backlog", "Frames received and not yet committed", backlog)
        yield _build_own_gauge("toolcards_connections", "Open connections of agents", len(connections.connections))
        yield _build_own_gauge("toolcards_event_streams", "Open event streams", streams)
        family = GaugeMetricFamily("toolcards_outage", "1 while a part does not work", labels=["process", "part"])
        for part in outages.PARTS:
            family.add_metric([str(os.getpid()), part], part in failing_parts)
        yield family


def _count_by(rows: Any, column: str) -> dict[str, int]:
    return dict(rows.order_by().values_list(column).annotate(Count("id")))


def _build_family(name: str, text: str, label: str, values: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for word, number in sorted(values.items()):
        family.add_metric([word], number)
    return family


def _build_gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _build_own_gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return _build_family(name, text, "process", {str(os.getpid()): int(value)})


def _render_metrics(numbers: list[Metric]) -> bytes:
    registry = CollectorRegistry()
    registry.register(MetricsCollector(numbers))
    return generate_latest(registry)


_acount_rows = database_sync_to_async(count_rows, thread_sensitive=False)
_arender_metrics = sync_to_async(_render_metrics, thread_sensitive=False)
