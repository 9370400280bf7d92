"""The Now page: waiting calls, active runs, failures, and calls per minute, on one screen."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Q, TextField
from django.db.models.functions import Cast, Substr
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.accounts.access import needs
from dashboard.cards import labels
from dashboard.environment import PROGRAM
from dashboard.runs.tables import RunRow, build_run_rows, compute_state_bar
from dashboard.search.search_terms import get_shown_state
from toolcards import demo
from toolcards.core.calls.card import Card
from toolcards.core.summaries.summary import summarize
from toolcards.core.text.terminal_sequences import flatten_text
from toolcards.models import Run, ToolCall

FIRST_WAITING_CALLS = 3
FAILURES = 5  # lines
MAX_MESSAGE = 160  # characters of an error in a line
TILES = 8
MINUTES = 60
MAX_CALLS = 20_000  # newest calls that are counted
BAR_HEIGHT = 48  # of 50, the height of the picture
_ACTIVE = ("waiting", "running")
_FAILED = ("error", "truncated")


@require_GET
@needs()
def show_now(request: HttpRequest) -> HttpResponse:
    """Show the Now page."""
    calls = list_first_waiting_calls()
    more = ToolCall.objects.waiting().count() - len(calls) if len(calls) == FIRST_WAITING_CALLS else 0
    waiting = {"calls": calls, "more_waiting": max(0, more)}
    return render(request, "now/now.html", build_now_parts() | waiting | {"base": _get_base_url(request)})


def list_first_waiting_calls() -> list[ToolCall]:
    """Return the newest waiting calls, as many as the first page shows."""
    return list(ToolCall.objects.waiting().reverse().select_related("run", "run__source")[:FIRST_WAITING_CALLS])


def _get_base_url(request: HttpRequest) -> str:
    return f"{request.scheme}://{request.get_host()}"


def build_now_parts() -> dict[str, Any]:
    """Return the parts of the Now page below the waiting calls."""
    now = timezone.now()
    started_calls = count_started_calls(now - timedelta(hours=1))
    bars = count_by_minute(started_calls, now)
    tiles, active_runs = list_run_tiles()
    effects, states = Counter[str](), Counter[str]()
    has_runs = Run.objects.exists()
    for call in started_calls:
        effects[call.effect] += call.calls
        states[call.state] += call.calls
    return {
        "tiles": tiles, "active": active_runs,
        "minutes": bars, "peak": max((bar.calls for bar in bars), default=0), "call_count": effects.total(),
        "effects": [(name, word, effects[name]) for name, word in EFFECTS.items()],
        "shares": compute_state_bar(states),
        "failed": [_describe_failure(call) for call in find_failed_calls()],
        "any": has_runs, "is_demo": has_runs and not Run.objects.exclude(source__name=demo.SOURCE).exists(),
        "program": PROGRAM,
    }  # fmt: skip


# ---------------------------------------------------------------- runs as tiles


@dataclass(frozen=True, slots=True)
class RunTile:
    """A run with its waiting or latest call, if any."""

    row: RunRow
    call: ToolCall | None

    @property
    def card(self) -> Card | None:
        """Return the call as it is shown."""
        return self.call.as_shown_card() if self.call else None

    @property
    def summary(self) -> str:
        """Return the call's input in one line."""
        return summarize(self.card) if self.card else ""


class TileOrder:
    """The places of the runs: those that wait for a person lead, and as few tiles as possible move."""

    def __init__(self) -> None:
        self._places: list[int] = []
        self._lock = threading.Lock()

    def arrange(self, waiting: list[int], running: list[int], failed_runs: list[int], quiet: list[int]) -> list[int]:
        """Return the runs in their places.

        Each list has the newest first; where there is no room for all, the earlier lists go first. A run keeps its
        place while it has a tile, but makes room for one that waits.
        """
        with self._lock:
            places, runs = self._places, list[int]()
            for group in (waiting[::-1], running[::-1], failed_runs, quiet):
                in_order = [pk for pk in group if pk in places] + [pk for pk in group if pk not in places]
                runs += in_order[: TILES - len(runs)]
            new = iter(sorted(set(runs).difference(places)))
            filled_places = [pk if pk in runs else next(new, 0) for pk in places]
            self._places = _lead_with([pk for pk in [*filled_places, *new] if pk], set(waiting))
            return list(self._places)


def _lead_with(places: list[int], waiting: set[int]) -> list[int]:
    """Exchange runs that wait with others in front of them."""
    first = len(waiting.intersection(places))
    in_front = [pk for pk in places[:first] if pk not in waiting]
    behind = [pk for pk in places[first:] if pk in waiting]
    exchanged_places = dict(zip([*in_front, *behind], [*behind, *in_front], strict=True))
    return [exchanged_places.get(pk, pk) for pk in places]


tile_order = TileOrder()


def list_run_tiles() -> tuple[list[RunTile], int]:
    """Return the tiles of runs, and how many runs are active.

    Those that wait are first.
    """
    runs = Run.objects.order_by("-pk")
    waiting, running = (list(runs.filter(status=status).values_list("pk", flat=True)[:200]) for status in _ACTIVE)
    recent = list(runs.exclude(status__in=_ACTIVE).values_list("pk", "status")[: 2 * TILES])
    failed_runs, quiet = (
        [pk for pk, status in recent if (status in _FAILED) is is_failed] for is_failed in (True, False)
    )
    places = tile_order.arrange(waiting, running, failed_runs, quiet)
    by_pk = Run.objects.select_related("source").in_bulk(places)
    rows = build_run_rows([by_pk[pk] for pk in places if pk in by_pk])
    tiles = [RunTile(row, _find_current_call(row.run.pk)) for row in rows]
    return tiles, len(waiting) + len(running)


def _find_current_call(run: int) -> ToolCall | None:
    calls = ToolCall.objects.not_removed().filter(run=run).order_by("-ordinal")
    return calls.filter(waiting=True).first() or calls.first()


# ---------------------------------------------------------------- calls per minute

# How calls were decided. A call that was asked about and then denied counts as asked.
EFFECTS = {"allow": "Allowed", "ask": "Asked", "deny": "Denied"}


@dataclass(frozen=True, slots=True)
class StartedCall:
    """The counted values of calls: when they began, their state in bars, whether a person was asked."""

    started_at: datetime | None
    state: str
    is_gated: bool
    calls: int = 1  # calls of the same minute with the same values

    @property
    def effect(self) -> str:
        """Return a name of `EFFECTS`; calls without a decision count as allowed."""
        return "ask" if self.is_gated else "deny" if self.state == "output-denied" else "allow"


def count_started_calls(start: datetime) -> list[StartedCall]:
    """Count the newest calls that began after `start`, by minute and outcome.

    The database counts them. Of the newest `MAX_CALLS` rows only, so that it costs the same on a large store.
    """
    newest = ToolCall.objects.aggregate(newest=Max("pk"))["newest"] or 0
    rows = ToolCall.objects.not_removed().filter(pk__gt=newest - MAX_CALLS, started_at__gte=start)
    # As text in UTC, which both databases write as 2026-11-23 13:28:00; to cut it off is faster than TruncMinute.
    minute = Substr(Cast("started_at", TextField()), 1, 16)
    marked_rows = rows.annotate(minute=minute, is_gated=Q(requested_at__isnull=False)).order_by()
    groups = marked_rows.values_list("minute", "state", "soft", "is_gated").annotate(calls=Count("pk"))
    return [
        StartedCall(_parse_minute(minute), get_shown_state(state, soft=soft), is_gated, calls)
        for minute, state, soft, is_gated, calls in groups
    ]


def _parse_minute(text: str) -> datetime:
    """Return the middle of the minute."""
    return datetime.fromisoformat(text).replace(second=30, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MinuteBarPart:
    """The calls of one effect in one minute, and where their part of the bar lies."""

    effect: str
    count: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class MinuteBar:
    """One bar: the calls that began in that minute by effect, and how many of them failed."""

    at: datetime
    x: float
    parts: list[MinuteBarPart]
    failed: int

    @property
    def calls(self) -> int:
        """Return how many calls began."""
        return sum(part.count for part in self.parts)


def count_by_minute(started_calls: Iterable[StartedCall], now: datetime) -> list[MinuteBar]:
    """Return sixty bars, oldest first, up to the minute of `now`."""
    end = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    counts = [Counter[str]() for _ in range(MINUTES)]
    for call in started_calls:
        place = MINUTES - 1 - int((end - call.started_at).total_seconds() // 60) if call.started_at else -1
        if 0 <= place < MINUTES:
            counts[place][call.effect] += call.calls
            counts[place]["failed"] += call.calls if call.state == "output-error" else 0
    peak = max([1, *(sum(count[effect] for effect in EFFECTS) for count in counts)])
    return [
        MinuteBar(end - timedelta(minutes=MINUTES - index), index * 10, _stack_parts(count, peak), count["failed"])
        for index, count in enumerate(counts)
    ]


def _stack_parts(count: Counter[str], peak: int) -> list[MinuteBarPart]:
    """Return the parts of a bar from bottom to top.

    Each part with calls is visible.
    """
    parts, y = [], 0.0
    for effect in EFFECTS:
        height = round(max(2.0, count[effect] / peak * BAR_HEIGHT), 1) if count[effect] else 0.0
        parts.append(MinuteBarPart(effect, count[effect], round(y, 1), height))
        y += height
    return parts


# ---------------------------------------------------------------- failures


def find_failed_calls() -> list[ToolCall]:
    """Return the newest calls that failed or were denied.

    Uses a query for each, because only then an index has them in order.
    """
    rows = ToolCall.objects.not_removed().select_related("run__source").order_by("-pk")
    newest = [*rows.filter(state="output-error", soft=False)[:FAILURES], *rows.filter(state="output-denied")[:FAILURES]]
    return sorted(newest, key=lambda call: -call.pk)[:FAILURES]


def _describe_failure(call: ToolCall) -> dict[str, Any]:
    card = call.as_shown_card()
    message = flatten_text(card.error.message if card.error else card.denied, MAX_MESSAGE)
    text = message or labels.describe_missing_reason(card)
    return {"call": call, "label": labels.get_label(card), "message": text, "at": call.finished_at}
