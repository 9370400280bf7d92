"""How sources are doing: silent, failing, failing open, or running things that nobody decided about."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count, Q

from toolcards.connect.probe import OFFLINE_TOOL
from toolcards.models import AgentKey, Proof, Run, Source, ToolCall

SILENT = timedelta(minutes=10)  # a run that is open and says nothing for so long
RECENT = timedelta(hours=1)
FAILING_SHARE, FAILING_MINIMUM = 0.5, 5  # of at least this many calls, this share failed
# Whose program runs its calls while this server is away, unless it is set up not to, as `connect` does.
FAILS_OPEN = frozenset({"claude-code", "opencode"})


@dataclass(frozen=True, slots=True)
class Badge:
    """One thing to know about a source: its code, a word, why, and how it is drawn."""

    code: str
    word: str
    why: str
    st: str
    icon: str


_SILENT = Badge("silent", "silent", "A run is open and has said nothing for 10 minutes.", "off", "clock")
_FAILING = Badge(
    "failing", "failing", "Half or more of its calls failed within the last hour.", "err", "triangle-alert"
)
_OPEN = Badge(
    "fails-open",
    "may fail open",
    "Nobody has seen that it stops when this server cannot be reached; `toolcards connect` sets it up so, and looks.",
    "ask",
    "shield",
)
_EXPOSED = Badge(
    "key-exposed",
    "key exposed",
    "A key was seen in what an agent sent, so a model has read it. Rotate it.",
    "err",
    "triangle-alert",
)
_UNGOVERNED = Badge(
    "ungoverned", "ungoverned", "It ran something without a decision within the last day.", "err", "triangle-alert"
)


def list_badges(sources: Iterable[int] | None = None, now: float | None = None) -> dict[int, list[Badge]]:
    """Return what is to be known of these sources (all of them by default), the worst first."""
    at = datetime.fromtimestamp(time.time() if now is None else now, UTC)
    ids = list(Source.objects.values_list("pk", flat=True)) if sources is None else list(sources)
    badges: dict[int, list[Badge]] = {pk: [] for pk in ids}
    for badge, matches in (
        (_EXPOSED, _find_exposed(ids)),
        (_UNGOVERNED, _find_ungoverned(ids, at)),
        (_FAILING, _find_failing(ids, at)),
        (_SILENT, _find_silent(ids, at)),
        (_OPEN, _find_failing_open(ids)),
    ):
        for pk in matches:
            badges[pk].append(badge)
    return badges


def _find_exposed(wanted: list[int]) -> set[int]:
    keys = AgentKey.objects.live().filter(source__in=wanted, exposed_at__isnull=False)
    return set(keys.values_list("source", flat=True))


def _find_silent(wanted: list[int], at: datetime) -> set[int]:
    """Runs that wait for a person are not silent: we are."""
    quiet = Run.objects.filter(source__in=wanted, status="running", updated_at__lt=at - SILENT)
    return set(quiet.values_list("source", flat=True))


def _find_failing(wanted: list[int], at: datetime) -> set[int]:
    ended = ToolCall.objects.filter(run__source__in=wanted, finished_at__gte=at - RECENT).order_by()
    counts = ended.values("run__source").annotate(
        n=Count("id"), bad=Count("id", filter=Q(state="output-error", soft=False))
    )
    return {
        row["run__source"] for row in counts if row["n"] >= FAILING_MINIMUM and row["bad"] >= FAILING_SHARE * row["n"]
    }


def _find_failing_open(wanted: list[int]) -> set[int]:
    gated = Run.objects.filter(source__in=wanted, protocol__in=FAILS_OPEN)
    stopped = ToolCall.objects.filter(run__source__in=wanted, tool=OFFLINE_TOOL, state="output-denied")
    proven = Proof.objects.filter(source__in=wanted, ability="fails", by="probe")  # stays when the call is deleted
    seen = {*stopped.values_list("run__source", flat=True), *proven.values_list("source", flat=True)}
    return set(gated.values_list("source", flat=True).distinct()) - seen


def _find_ungoverned(wanted: list[int], at: datetime) -> set[int]:
    """The run must be one that should gate."""
    calls = ToolCall.objects.filter(
        beyond_control=True, run__source__in=wanted, run__mode="gate", finished_at__gte=at - timedelta(days=1)
    )
    return set(calls.values_list("run__source", flat=True).distinct())


__all__ = ["Badge", "list_badges"]
