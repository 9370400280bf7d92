"""The health of sources: silent, failing, failing open, or running tools without a decision."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count, Q

from toolcards.connect.probe import OFFLINE_TOOL
from toolcards.models import AgentKey, Proof, Run, Source, ToolCall

SILENT = timedelta(minutes=10)  # without a frame in an open run
RECENT = timedelta(hours=1)
FAILING_SHARE, FAILING_MINIMUM = 0.5, 5  # share of failed calls, of at least so many
# Programs that run calls while this server is down, unless configured to deny them, as `connect` does.
FAILS_OPEN = frozenset({"claude-code", "opencode"})


@dataclass(frozen=True, slots=True)
class Badge:
    """A remark about a source: its code, a word and an explanation for people, style and icon."""

    code: str
    word: str
    why: str
    st: str
    icon: str


_SILENT = Badge("silent", "silent", "An open run has sent nothing for 10 minutes.", "off", "clock")
_FAILING = Badge("failing", "failing", "At least half of its calls failed in the last hour.", "err", "triangle-alert")
_OPEN = Badge(
    "fails-open",
    "may fail open",
    "Not verified: that it stops while this server is unreachable. `toolcards connect` configures and checks this.",
    "ask",
    "shield",
)
_EXPOSED = Badge(
    "key-exposed",
    "key exposed",
    "An agent sent a key, so a model has read it. Rotate the key.",
    "err",
    "triangle-alert",
)
_UNGOVERNED = Badge(
    "ungoverned", "ungoverned", "It ran a tool without a decision in the last 24 hours.", "err", "triangle-alert"
)


def list_badges(sources: Iterable[int] | None = None, now: float | None = None) -> dict[int, list[Badge]]:
    """Return the badges of these (or all) sources, the worst first.

    `now` is in epoch seconds.
    """
    moment = datetime.fromtimestamp(time.time() if now is None else now, UTC)
    ids = list(Source.objects.values_list("pk", flat=True)) if sources is None else list(sources)
    badges: dict[int, list[Badge]] = {pk: [] for pk in ids}
    for badge, matches in (
        (_EXPOSED, _find_exposed(ids)),
        (_UNGOVERNED, _find_ungoverned(ids, moment)),
        (_FAILING, _find_failing(ids, moment)),
        (_SILENT, _find_silent(ids, moment)),
        (_OPEN, _find_failing_open(ids)),
    ):
        for pk in matches:
            badges[pk].append(badge)
    return badges


def _find_exposed(source_ids: list[int]) -> set[int]:
    keys = AgentKey.objects.live().filter(source__in=source_ids, exposed_at__isnull=False)
    return set(keys.values_list("source", flat=True))


def _find_silent(source_ids: list[int], moment: datetime) -> set[int]:
    """Return sources with a silent run; a run that waits for a person does not count."""
    silent_runs = Run.objects.filter(source__in=source_ids, status="running", updated_at__lt=moment - SILENT)
    return set(silent_runs.values_list("source", flat=True))


def _find_failing(source_ids: list[int], moment: datetime) -> set[int]:
    finished_calls = ToolCall.objects.filter(run__source__in=source_ids, finished_at__gte=moment - RECENT).order_by()
    counts = finished_calls.values("run__source").annotate(
        n=Count("id"), bad=Count("id", filter=Q(state="output-error", soft=False))
    )
    return {
        row["run__source"] for row in counts if row["n"] >= FAILING_MINIMUM and row["bad"] >= FAILING_SHARE * row["n"]
    }


def _find_failing_open(source_ids: list[int]) -> set[int]:
    gated_runs = Run.objects.filter(source__in=source_ids, protocol__in=FAILS_OPEN)
    denied_checks = ToolCall.objects.filter(run__source__in=source_ids, tool=OFFLINE_TOOL, state="output-denied")
    proofs = Proof.objects.filter(source__in=source_ids, ability="fails", by="probe")  # kept when the call is deleted
    safe_sources = {*denied_checks.values_list("run__source", flat=True), *proofs.values_list("source", flat=True)}
    return set(gated_runs.values_list("source", flat=True).distinct()) - safe_sources


def _find_ungoverned(source_ids: list[int], moment: datetime) -> set[int]:
    """Return sources that ran a call without a decision in a gated run."""
    calls = ToolCall.objects.filter(
        beyond_control=True, run__source__in=source_ids, run__mode="gate", finished_at__gte=moment - timedelta(days=1)
    )
    return set(calls.values_list("run__source", flat=True).distinct())


__all__ = ["Badge", "list_badges"]
