"""Numbers of the newest calls for each tool or agent: how many, how they ended, how long they took."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Max

from dashboard.url_helpers import format_duration
from toolcards.core.calls.card import ToolCallState
from toolcards.models import ToolCall

MAX_CALLS = 20_000  # newest calls that are counted, so that a page costs the same on a large store
RANGES = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7), "all": None}
BUCKETS = (0.01, 0.1, 1.0, 10.0, 60.0, math.inf)  # upper ends of the histogram's bars, in seconds
BUCKET_LABELS = ("up to 10 ms", "up to 100 ms", "up to 1 s", "up to 10 s", "up to 1 min", "longer")
BAR_HEIGHT = 16  # of the highest bar
SORT_ORDERS = ("calls", "failed", "p50", "p95", "approvals", "denied")
_FINAL_STATES = {ToolCallState.OUTPUT_AVAILABLE, ToolCallState.OUTPUT_ERROR}


class CallRecord(NamedTuple):
    """The columns of a call that are counted."""

    name: str
    state: str
    soft: bool
    started_at: datetime | None
    requested_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class HistogramBar:
    """One bar: its share of the highest one, in units of BAR_HEIGHT."""

    label: str
    count: int
    x: int
    y: float
    height: float


@dataclass(slots=True)
class CallStatistics:
    """The numbers of one tool or agent."""

    name: str
    calls: int = 0
    failed: int = 0
    approvals: int = 0
    denied: int = 0
    open: int = 0
    durations: list[float] = field(default_factory=list)

    def add(self, record: CallRecord) -> None:
        """Count one call.

        A call that ended with its run has no result, but did not fail. The duration runs from the beginning of the
        input to the result. Calls that waited for a person have none, because it would measure the person.
        """
        self.calls += 1
        self.approvals += record.requested_at is not None
        self.denied += record.state == ToolCallState.OUTPUT_DENIED
        self.failed += record.state == ToolCallState.OUTPUT_ERROR and not record.soft
        self.open += record.finished_at is None
        has_duration = record.state in _FINAL_STATES and not record.soft and record.requested_at is None
        if has_duration and record.started_at and record.finished_at:
            self.durations.append(max(0.0, (record.finished_at - record.started_at).total_seconds()))

    @property
    def row_id(self) -> str:
        """Return the id of its row on a page."""
        return f"row-{hashlib.sha256(self.name.encode(errors='surrogatepass')).hexdigest()[:20]}"

    @property
    def failure_rate(self) -> str:
        """Return the percentage of finished calls that failed, or ""."""
        finished = self.calls - self.open
        return f"{100 * self.failed / finished:.0f} %" if finished else ""

    @property
    def p50(self) -> str:
        """Return the median duration for people, "" without one."""
        return self._format_percentile(0.5)

    @property
    def p95(self) -> str:
        """Return the 95th percentile of the duration for people, "" without one."""
        return self._format_percentile(0.95)

    @property
    def histogram(self) -> list[HistogramBar]:
        """Return the bars of the durations, empty without any."""
        counts = [0] * len(BUCKETS)
        for duration in self.durations:
            counts[next(index for index, end in enumerate(BUCKETS) if duration <= end)] += 1
        highest = max(counts)
        if not highest:
            return []
        heights = [max(1.0, round(BAR_HEIGHT * count / highest, 1)) if count else 0.0 for count in counts]
        return [
            HistogramBar(label, count, index * 8, round(BAR_HEIGHT - height, 1), height)
            for index, (label, count, height) in enumerate(zip(BUCKET_LABELS, counts, heights, strict=True))
        ]

    def get_sort_value(self, order: str) -> float:
        """Return the number to sort by, one of SORT_ORDERS."""
        if order in ("p50", "p95"):
            return compute_percentile(self.durations, 0.5 if order == "p50" else 0.95) or 0.0
        return float(getattr(self, order))

    def _format_percentile(self, share: float) -> str:
        value = compute_percentile(self.durations, share)
        return "" if value is None else format_duration(value)


def compute_percentile(values: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile, None without values.

    `share`: between 0 and 1.
    """
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def compute_statistics(records: Iterable[CallRecord], order: str = "calls") -> list[CallStatistics]:
    """Return the numbers of each name, the highest first."""
    rows: dict[str, CallStatistics] = {}
    for record in records:
        if record.name not in rows:
            rows[record.name] = CallStatistics(record.name)
        rows[record.name].add(record)
    return sorted(rows.values(), key=lambda row: (-row.get_sort_value(order), -row.calls, row.name))


def fetch_records(column: str, earliest: datetime | None) -> list[CallRecord]:
    """Return the newest calls that began after `earliest`, at most MAX_CALLS.

    `column`: of the name, such as "tool" or "run__agent".
    """
    newest = ToolCall.objects.aggregate(newest=Max("pk"))["newest"] or 0
    rows = ToolCall.objects.not_removed().filter(pk__gt=newest - MAX_CALLS)
    if earliest is not None:
        rows = rows.filter(started_at__gte=earliest)
    columns = (column, "state", "soft", "started_at", "requested_at", "finished_at")
    return [CallRecord(*row) for row in rows.values_list(*columns)]
