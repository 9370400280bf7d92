"""What the pages about runs and calls show: read once, for the page itself and for its live board alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone

from dashboard import url_helpers
from dashboard.cards import labels, skipped_frames
from dashboard.cards.event_log import list_event_lines
from dashboard.cards.timeline import build_timeline
from dashboard.runs.filters import CallFilters, CallPage, RunFilters
from toolcards.core.calls.card import ToolCallState
from toolcards.core.calls.summary import summary
from toolcards.models import Run, ToolCall

__all__ = [
    "build_timeline", "calls_window", "list_event_lines", "newest_call", "now", "run_head", "run_rows", "run_window",
    "waiting_window",
]  # fmt: skip

CARDS = 200  # articles on a run's page
PAGE = 50
WAITING = 200


# ---------------------------------------------------------------- cards


def run_window(run: int, *, before: int = 0, removed: bool = False) -> list[ToolCall]:
    """Return the run's newest calls (before that ordinal), oldest first; `removed` with those that are gone."""
    rows = ToolCall.objects.filter(run=run).select_related("run", "run__source").order_by("-ordinal")
    rows = rows if removed else rows.filter(removed=False)
    return list(reversed((rows.filter(ordinal__lt=before) if before else rows)[:CARDS]))


def calls_window(filters: CallFilters, *, before: int = 0) -> CallPage:
    """Return a page of calls, newest first."""
    return filters.page(PAGE, before)


def waiting_window() -> list[ToolCall]:
    """Return the calls that wait for a person, oldest first."""
    return list(ToolCall.objects.waiting().select_related("run", "run__source")[:WAITING])


# ---------------------------------------------------------------- runs


@dataclass(frozen=True, slots=True)
class Share:
    """One state's part of a state bar: where it lies on a line of 100."""

    state: str
    word: str
    count: int
    x: float
    width: float


def shares(counts: Mapping[str, int]) -> list[Share]:
    """Return the parts of a state bar, in the order of a call's life."""
    total = sum(counts.values())
    found, x = [], 0.0
    for state in map(str, ToolCallState):
        if count := counts.get(state, 0):
            width = count / total * 100
            found.append(Share(state, labels.STATE_LABELS[state].word, count, round(x, 2), round(width, 2)))
            x += width
    return found


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the table shows it."""

    run: Run
    look: labels.StateLabel
    shares: list[Share]
    lasted: str

    @property
    def url(self) -> str:
        """Where its page is."""
        return self.run.url


def run_row(run: Run) -> RunRow:
    """Return the run with what the table says of it."""
    look = labels.RUN_LABELS.get(run.status, labels.RUN_LABELS["running"])
    end = run.ended_at or (run.updated_at if run.status not in ("running", "waiting") else None)
    lasted = url_helpers.format_duration((end - run.started_at).total_seconds()) if end else ""
    return RunRow(run, look, shares(run.count_by_state), lasted)


def run_rows(filters: RunFilters, *, before: int = 0) -> tuple[list[RunRow], int]:
    """Return a page of runs, and where the next one begins (0: there is none)."""
    rows = filters.rows()
    runs = list((rows.filter(pk__lt=before) if before else rows)[: PAGE + 1])
    more = runs[PAGE - 1].pk if len(runs) > PAGE else 0
    return [run_row(run) for run in runs[:PAGE]], more


def newest_call(run: Run) -> dict[str, Any] | None:
    """Return the run's newest call in one line, None without any."""
    call = ToolCall.objects.not_removed().filter(run=run).order_by("-ordinal").first()
    return {"call": call, "summary": summary(call.as_shown_card())} if call else None


def run_head(run: Run) -> dict[str, Any]:
    """Return what the run page's header says."""
    agents = ToolCall.objects.filter(run=run, removed=False).exclude(agent="").values_list("agent", flat=True)
    shown = {"run": run, "row": run_row(run), "agents": sorted(set(agents.distinct()[:20]))}
    return shown | {"skipped": skipped_frames.describe_skipped_frames(run.skipped_frames)}


# ---------------------------------------------------------------- now


@dataclass(frozen=True, slots=True)
class Minute:
    """One bar: calls that began in that minute, those that failed or were denied among them, and their heights."""

    at: datetime
    calls: int
    bad: int
    x: float
    high: float
    high_bad: float


def now() -> dict[str, Any]:
    """Return what the first page shows below its waiting strip."""
    hour = timezone.now() - timedelta(hours=1)
    recent = ToolCall.objects.not_removed().filter(started_at__gte=hour).values_list("started_at", "state")
    begun = list(recent.order_by("-pk")[:20_000])
    bars = minutes(begun)
    failed = ToolCall.objects.not_removed().filter(Q(state="output-error", soft=False) | Q(state="output-denied"))
    runs = Run.objects.select_related("source")
    over = runs.exclude(status__in=("running", "waiting")).order_by("-pk")
    return {
        "running": [run_row(run) for run in runs.filter(status__in=("running", "waiting")).order_by("-updated_at")[:8]],
        "finished": [run_row(run) for run in over[:5]],
        "minutes": bars, "peak": max((bar.calls for bar in bars), default=0), "begun": len(begun),
        "shares": shares(Counter(state for _, state in begun)),
        "failed": [_failure(call) for call in failed.select_related("run__source").order_by("-pk")[:6]],
        "any": Run.objects.exists(),
    }  # fmt: skip


def minutes(begun: list[tuple[datetime | None, str]]) -> list[Minute]:
    """Return sixty bars, oldest first."""
    end = timezone.now().replace(second=0, microsecond=0) + timedelta(minutes=1)
    calls, bad = [0] * 60, [0] * 60
    for at, state in begun:
        place = 59 - int((end - at).total_seconds() // 60) if at else -1
        if 0 <= place < 60:
            calls[place] += 1
            bad[place] += state in ("output-error", "output-denied")
    peak = max([*calls, 1])
    return [
        Minute(end - timedelta(minutes=60 - n), calls[n], bad[n], n * 10, _high(calls[n], peak), _high(bad[n], peak))
        for n in range(60)
    ]


def _high(count: int, peak: int) -> float:
    return round(max(2.0, count / peak * 48), 1) if count else 0.0


def _failure(call: ToolCall) -> dict[str, Any]:
    card = call.as_shown_card()
    said = card.error.message if card.error else card.denied
    return {"call": call, "look": labels.get_label(card), "said": said[:160], "at": call.finished_at}
