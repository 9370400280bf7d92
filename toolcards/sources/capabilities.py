"""What was seen of each source: that it can be watched, held, edited, streamed, and what it does without a server.

Nothing here is a promise: a proof is a call in the log, of a probe or of real traffic, and the newest of each is kept.
They are gathered from the log when somebody looks and before retention deletes calls, which they outlive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from toolcards.connect.probe import OFFLINE_TOOL, RUN_PREFIX
from toolcards.encryption import DecryptionError
from toolcards.models import Approval, Event, Proof, Run, Source, ToolCall

OBSERVE, GATE, EDIT, STREAM, FAILS = ABILITIES = ("observe", "gate", "edit", "stream", "fails")
PROBE, TRAFFIC = "probe", "traffic"
CLOSED, OPEN = "Closed", "Open"  # how the words about `fails` begin
RELEASED = ("claimed", "succeeded", "failed")
MAX_RUNS = 50  # runs that are looked through for what no index finds


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that was seen: when, in which call of which run, and what it was in words."""

    at: datetime
    run: Run
    call: ToolCall
    words: str


@dataclass(frozen=True, slots=True)
class SearchedRuns:
    """The runs that are looked at: all of them where an index helps, else the newest that made calls."""

    runs: QuerySet[Run]
    newest: list[int]


FindEvidence = Callable[[SearchedRuns], Evidence | None]


def list_proofs(source: Source) -> dict[str, list[Proof]]:
    """Return the proofs of the source by ability, real traffic first; what is new is written down."""
    gather_proofs(source)
    found: dict[str, list[Proof]] = {ability: [] for ability in ABILITIES}
    for proof in Proof.objects.filter(source=source).order_by("-by", "-at"):
        found[proof.ability].append(proof)
    return found


def find_gating_sources(sources: Iterable[int]) -> set[int]:
    """Return those of these sources of which a call was held until a person had answered, now or long ago."""
    wanted = list(sources)
    seen = Approval.objects.filter(build_handed_over_filter(), run__source__in=wanted, asked=True)
    kept = Proof.objects.filter(source__in=wanted, ability=GATE)
    return {*seen.values_list("run__source", flat=True).distinct(), *kept.values_list("source", flat=True)}


def gather_expiring() -> None:
    """Write down what the calls prove that retention is about to delete."""
    days = settings.TOOLCARDS.retention_days
    if days:
        due = Run.objects.filter(ended_at__lt=timezone.now() - timedelta(days=days))
        for source in Source.objects.filter(pk__in=due.values("source")):
            gather_proofs(source)


def gather_proofs(source: Source) -> None:
    """Look through the source's newest calls and keep what they prove."""
    probes = Q(name__startswith=RUN_PREFIX)
    for by, which in ((PROBE, probes), (TRAFFIC, ~probes)):
        runs = Run.objects.filter(which, source=source)
        newest = runs.filter(calls__gt=0).order_by("-id").values_list("pk", flat=True)[:MAX_RUNS]
        among = SearchedRuns(runs, list(newest))
        for ability, look in _FINDERS.items():
            seen = look(among)
            if seen is not None:
                _store_proof(source, ability, by, seen)


def _store_proof(source: Source, ability: str, by: str, seen: Evidence) -> None:
    kept = {
        "at": seen.at, "run": seen.run.name, "call": seen.call.public_id, "protocol": seen.run.protocol,
        "words": seen.words[:300],
    }  # fmt: skip
    before = Proof.objects.filter(source=source, ability=ability, by=by).first()
    if before is None or before.at < seen.at:
        Proof.objects.update_or_create(source=source, ability=ability, by=by, defaults=kept)


# ---------------------------------------------------------------- what proves what


def _find_observed(among: SearchedRuns) -> Evidence | None:
    call = _find_newest(
        ToolCall.objects.filter(run__in=among.newest, started_at__isnull=False).exclude(tool=OFFLINE_TOOL)
    )
    return Evidence(call.started_at or call.run.started_at, call.run, call, "A call was seen.") if call else None


def _find_gated(among: SearchedRuns) -> Evidence | None:
    """A call was held until a person had answered."""
    answered = Approval.objects.filter(build_handed_over_filter(), run__in=among.runs, asked=True)
    row = answered.select_related("run", "call").order_by("-decided_at").first()
    if row is None:
        return None
    word = "denied; it did not run" if row.state == "denied" else "approved and released"
    held = max(0.0, row.decided_at - row.requested_at)
    return Evidence(_to_datetime(row.decided_at), row.run, row.call, f"A call was held for {held:.0f} s, {word}.")


def build_handed_over_filter() -> Q:
    """Approvals that a person answered, and whose agent did so: it used the yes, or its call ended denied."""
    used = Q(state__in=RELEASED) | Q(state="approved", call__state="output-available")
    return Q(by_kind="human", decided_at__gt=0) & (used | Q(state="denied", call__state="output-denied"))


def _find_edited(among: SearchedRuns) -> Evidence | None:
    """A person changed the arguments, and what they said was run."""
    for event in _list_events(among, "approval-answered")[:100]:
        try:
            edited = getattr(event.decoded_fact, "has_input", False) and event.applied
        except DecryptionError:
            continue
        if not edited:
            continue
        call = ToolCall.objects.select_related("run").filter(run=event.run_id, ordinal=event.ordinal).first()
        if call is not None and call.state in {"output-available", "output-error"}:
            return Evidence(_to_datetime(event.at), call.run, call, "Arguments that a person had edited were run.")
    return None


def _find_streamed(among: SearchedRuns) -> Evidence | None:
    event = _list_events(among, "input-delta").first()
    if event is None:
        return None
    call = ToolCall.objects.select_related("run").filter(run=event.run_id, ordinal=event.ordinal).first()
    if call is None:
        return None
    return Evidence(_to_datetime(event.at), call.run, call, "Arguments were seen while they were written.")


def _list_events(among: SearchedRuns, kind: str) -> QuerySet[Event]:
    """The facts of that type in the newest runs, the latest first."""
    return Event.objects.filter(run__in=among.newest, fact__startswith=f'{{"type":"{kind}"').order_by("-run", "-seq")


def _find_failure_mode(among: SearchedRuns) -> Evidence | None:
    """The newest of two: it denied while no server was there, or it ran something that nobody had decided about."""
    closed = _find_newest(ToolCall.objects.filter(run__in=among.newest, tool=OFFLINE_TOOL, state="output-denied"))
    opened = _find_newest(ToolCall.objects.filter(run__in=among.newest, run__mode="gate", beyond_control=True))
    found = []
    if closed is not None:
        found.append(Evidence(_get_end_time(closed), closed.run, closed, _describe_check(closed)))
    if opened is not None:
        found.append(Evidence(_get_end_time(opened), opened.run, opened, f"{OPEN}: it ran a call without a decision."))
    return max(found, key=lambda seen: seen.at, default=None)


def _describe_check(call: ToolCall) -> str:
    card = call.as_shown_card()
    how = card.input.get("checked", "") if isinstance(card.input, dict) else ""
    return f"{CLOSED}: {how}; {card.denied}"


def _find_newest(calls: QuerySet[ToolCall]) -> ToolCall | None:
    return calls.select_related("run").order_by("-id").first()


def _get_end_time(call: ToolCall) -> datetime:
    return call.finished_at or call.started_at or call.run.updated_at


def _to_datetime(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


_FINDERS: dict[str, FindEvidence] = {
    OBSERVE: _find_observed,
    GATE: _find_gated,
    EDIT: _find_edited,
    STREAM: _find_streamed,
    FAILS: _find_failure_mode,
}

__all__ = [
    "ABILITIES",
    "CLOSED",
    "OPEN",
    "PROBE",
    "TRAFFIC",
    "find_gating_sources",
    "gather_expiring",
    "gather_proofs",
    "list_proofs",
]
