"""The first page: what waits for people, what runs, what went wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.accounts.access import needs
from dashboard.cards import labels
from dashboard.runs.tables import build_run_row, compute_state_bar, get_shown_state, list_waiting_calls
from toolcards.models import Run, ToolCall

FIRST_WAITING_CALLS = 5


@require_GET
@needs()
def now(request: HttpRequest) -> HttpResponse:
    """Everything at a glance."""
    return render(
        request,
        "now/now.html",
        build_overview() | {"calls": list_first_waiting_calls(), "base": _get_base_url(request)},
    )


def list_first_waiting_calls() -> list[ToolCall]:
    """Return the longest-waiting calls, as many as the first page shows."""
    return list_waiting_calls(FIRST_WAITING_CALLS)


def _get_base_url(request: HttpRequest) -> str:
    return f"{request.scheme}://{request.get_host()}"


@dataclass(frozen=True, slots=True)
class MinuteBar:
    """One bar: calls that began in that minute, those that failed or were denied among them, and their heights."""

    at: datetime
    calls: int
    bad: int
    x: float
    high: float
    high_bad: float


def build_overview() -> dict[str, Any]:
    """Return what the first page shows below its waiting strip."""
    hour = timezone.now() - timedelta(hours=1)
    recent = ToolCall.objects.not_removed().filter(started_at__gte=hour).values_list("started_at", "state", "soft")
    rows = recent.order_by("-pk")[:20_000]
    started_calls = [(started_at, get_shown_state(state, soft=soft)) for started_at, state, soft in rows]
    bars = count_by_minute(started_calls)
    failed = ToolCall.objects.not_removed().filter(Q(state="output-error", soft=False) | Q(state="output-denied"))
    runs = Run.objects.select_related("source")
    active = runs.filter(status__in=("running", "waiting"))
    over = runs.exclude(status__in=("running", "waiting")).order_by("-pk")
    return {
        "running": [build_run_row(run) for run in active.order_by("-updated_at")[:8]],
        "finished": [build_run_row(run) for run in over[:5]],
        "minutes": bars, "peak": max((bar.calls for bar in bars), default=0), "begun": len(started_calls),
        "shares": compute_state_bar(Counter(state for _, state in started_calls)),
        "failed": [_describe_failure(call) for call in failed.select_related("run__source").order_by("-pk")[:6]],
        "any": Run.objects.exists(),
    }  # fmt: skip


def count_by_minute(started_calls: list[tuple[datetime | None, str]]) -> list[MinuteBar]:
    """Return sixty bars, oldest first."""
    end = timezone.now().replace(second=0, microsecond=0) + timedelta(minutes=1)
    calls, bad = [0] * 60, [0] * 60
    for started_at, state in started_calls:
        place = 59 - int((end - started_at).total_seconds() // 60) if started_at else -1
        if 0 <= place < 60:
            calls[place] += 1
            bad[place] += state in ("output-error", "output-denied")
    peak = max([*calls, 1])
    return [
        MinuteBar(
            end - timedelta(minutes=60 - n),
            calls[n],
            bad[n],
            n * 10,
            _scale_height(calls[n], peak),
            _scale_height(bad[n], peak),
        )
        for n in range(60)
    ]


def _scale_height(count: int, peak: int) -> float:
    return round(max(2.0, count / peak * 48), 1) if count else 0.0


def _describe_failure(call: ToolCall) -> dict[str, Any]:
    card = call.as_shown_card()
    message = (card.error.message if card.error else card.denied) or labels.describe_missing_reason(card)
    return {"call": call, "label": labels.get_label(card), "said": message[:160], "at": call.finished_at}
