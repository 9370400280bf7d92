"""Proved capabilities of each source: observe, gate, edit, stream, and what it does while the server is down.

A proof is a call in the log, of a probe or of real traffic; the newest of each is kept. Proofs are gathered when a page
shows them and before retention deletes calls, which they outlive.
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
FAILS_CLOSED, FAILS_OPEN = "Closed", "Open"  # how the explanation of `fails` begins
RELEASED = ("claimed", "succeeded", "failed")
MAX_RUNS = 50  # runs that are searched where no index helps


@dataclass(frozen=True, slots=True)
class Evidence:
    """An observation: its time, run and call, and an explanation for people."""

    at: datetime
    run: Run
    call: ToolCall
    words: str


@dataclass(frozen=True, slots=True)
class SearchedRuns:
    """The runs to search: all of them where an index helps, else the newest with calls."""

    runs: QuerySet[Run]
    newest: list[int]


FindEvidence = Callable[[SearchedRuns], Evidence | None]


def list_proofs(source: Source) -> dict[str, list[Proof]]:
    """Gather the source's proofs and return them by ability, real traffic first."""
    gather_proofs(source)
    proofs: dict[str, list[Proof]] = {ability: [] for ability in ABILITIES}
    for proof in Proof.objects.filter(source=source).order_by("-by", "-at"):
        proofs[proof.ability].append(proof)
    return proofs


def find_gating_sources(sources: Iterable[int]) -> set[int]:
    """Return the sources that have held a call for a person."""
    source_ids = list(sources)
    approvals = Approval.objects.filter(build_handed_over_filter(), run__source__in=source_ids, asked=True)
    proofs = Proof.objects.filter(source__in=source_ids, ability=GATE)
    return {*approvals.values_list("run__source", flat=True).distinct(), *proofs.values_list("source", flat=True)}


def gather_expiring() -> None:
    """Gather the proofs of calls that retention is about to delete."""
    days = settings.TOOLCARDS.retention_days
    if days:
        expiring_runs = Run.objects.filter(ended_at__lt=timezone.now() - timedelta(days=days))
        for source in Source.objects.filter(pk__in=expiring_runs.values("source")):
            gather_proofs(source)


def gather_proofs(source: Source) -> None:
    """Store what the source's newest calls prove."""
    probes = Q(name__startswith=RUN_PREFIX)
    for origin, condition in ((PROBE, probes), (TRAFFIC, ~probes)):
        runs = Run.objects.filter(condition, source=source)
        newest = runs.filter(calls__gt=0).order_by("-id").values_list("pk", flat=True)[:MAX_RUNS]
        among = SearchedRuns(runs, list(newest))
        for ability, find_evidence in _FINDERS.items():
            evidence = find_evidence(among)
            if evidence is not None:
                _store_proof(source, ability, origin, evidence)


def _store_proof(source: Source, ability: str, origin: str, evidence: Evidence) -> None:
    columns = {
        "at": evidence.at, "run": evidence.run.name, "call": evidence.call.public_id,
        "protocol": evidence.run.protocol, "words": evidence.words[:300],
    }  # fmt: skip
    before = Proof.objects.filter(source=source, ability=ability, by=origin).first()
    if before is None or before.at < evidence.at:
        Proof.objects.update_or_create(source=source, ability=ability, by=origin, defaults=columns)


# ---------------------------------------------------------------- what proves what


def _find_observed(among: SearchedRuns) -> Evidence | None:
    call = _find_newest(
        ToolCall.objects.filter(run__in=among.newest, started_at__isnull=False).exclude(tool=OFFLINE_TOOL)
    )
    return Evidence(call.started_at or call.run.started_at, call.run, call, "A call was received.") if call else None


def _find_gated(among: SearchedRuns) -> Evidence | None:
    """Find a call that was held until a person answered."""
    approvals = Approval.objects.filter(build_handed_over_filter(), run__in=among.runs, asked=True)
    row = approvals.select_related("run", "call").order_by("-decided_at").first()
    if row is None:
        return None
    word = "denied; it did not run" if row.state == "denied" else "approved and released"
    seconds = max(0.0, row.decided_at - row.requested_at)
    return Evidence(_to_datetime(row.decided_at), row.run, row.call, f"A call was held for {seconds:.0f} s, {word}.")


def build_handed_over_filter() -> Q:
    """Return a filter for approvals that the agent obeyed."""
    is_used = Q(state__in=RELEASED) | Q(state="approved", call__state="output-available")
    return Q(by_kind="human", decided_at__gt=0) & (is_used | Q(state="denied", call__state="output-denied"))


def _find_edited(among: SearchedRuns) -> Evidence | None:
    """Find a call that ran with arguments that a person edited."""
    for event in _list_events(among, "approval-answered")[:100]:
        try:
            is_edited = getattr(event.decoded_fact, "has_input", False) and event.applied
        except DecryptionError:
            continue
        if not is_edited:
            continue
        call = ToolCall.objects.select_related("run").filter(run=event.run_id, ordinal=event.ordinal).first()
        if call is not None and call.state in {"output-available", "output-error"}:
            return Evidence(
                _to_datetime(event.at), call.run, call, "A call ran with arguments that a person had edited."
            )
    return None


def _find_streamed(among: SearchedRuns) -> Evidence | None:
    event = _list_events(among, "input-delta").first()
    if event is None:
        return None
    call = ToolCall.objects.select_related("run").filter(run=event.run_id, ordinal=event.ordinal).first()
    if call is None:
        return None
    return Evidence(_to_datetime(event.at), call.run, call, "Arguments were received while the model wrote them.")


def _list_events(among: SearchedRuns, kind: str) -> QuerySet[Event]:
    """Return the facts of that type in the newest runs, the latest first."""
    return Event.objects.filter(run__in=among.newest, fact__startswith=f'{{"type":"{kind}"').order_by("-run", "-seq")


def _find_failure_mode(among: SearchedRuns) -> Evidence | None:
    """Find the newest call that was denied while the server was down, or that ran without a decision."""
    denied_check = _find_newest(ToolCall.objects.filter(run__in=among.newest, tool=OFFLINE_TOOL, state="output-denied"))
    ungoverned_call = _find_newest(ToolCall.objects.filter(run__in=among.newest, run__mode="gate", beyond_control=True))
    evidence = []
    if denied_check is not None:
        explanation = _describe_check(denied_check)
        evidence.append(Evidence(_get_end_time(denied_check), denied_check.run, denied_check, explanation))
    if ungoverned_call is not None:
        explanation = f"{FAILS_OPEN}: it ran a call without a decision."
        evidence.append(Evidence(_get_end_time(ungoverned_call), ungoverned_call.run, ungoverned_call, explanation))
    return max(evidence, key=lambda each: each.at, default=None)


def _describe_check(call: ToolCall) -> str:
    card = call.as_shown_card()
    how = card.input.get("checked", "") if isinstance(card.input, dict) else ""
    return f"{FAILS_CLOSED}: {how}; {card.denied}"


def _find_newest(calls: QuerySet[ToolCall]) -> ToolCall | None:
    return calls.select_related("run").order_by("-id").first()


def _get_end_time(call: ToolCall) -> datetime:
    return call.finished_at or call.started_at or call.run.updated_at


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


_FINDERS: dict[str, FindEvidence] = {
    OBSERVE: _find_observed,
    GATE: _find_gated,
    EDIT: _find_edited,
    STREAM: _find_streamed,
    FAILS: _find_failure_mode,
}

__all__ = [
    "ABILITIES",
    "FAILS_CLOSED",
    "FAILS_OPEN",
    "PROBE",
    "TRAFFIC",
    "find_gating_sources",
    "gather_expiring",
    "gather_proofs",
    "list_proofs",
]
