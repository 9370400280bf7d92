"""The pages of sources: connected agent programs, their keys, whether their calls can be stopped, and proofs of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.db.models import Count, Max, Min, Q, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts.access import KEYS, needs
from dashboard.cards import labels
from dashboard.cards.trace import step_log as skipped
from dashboard.sources.control import describe_control, load_yesterday
from dashboard.sources.forms import KeyForm
from toolcards import connect, gate, hooks
from toolcards.adapters import ADAPTERS
from toolcards.core.runs.run_context import SkippedFrames
from toolcards.gate import policy_store
from toolcards.models import AgentKey, Proof, Run, Source, ToolCall
from toolcards.sources import badges as health
from toolcards.sources import capabilities
from toolcards.sources import capabilities as proofs

REVOKE = "toolcards.change_agentkey"
CHANGE = "toolcards.change_source"
RECENT = timedelta(days=1)


@dataclass(slots=True)
class SourceRow:
    """One source on the page."""

    source: Source
    keys: list[AgentKey]
    runs: int = 0
    last_run: Any = None
    modes: set[str] = field(default_factory=set)
    protocols: set[str] = field(default_factory=set)
    calls: int = 0
    failed: int = 0
    skipped: int = 0  # frames of unknown kinds, in runs of the last day
    health: list[health.Badge] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)  # names of its agents: at most two of them
    control: str = ""  # what applies to its calls, in a sentence
    has_held_call: bool = False  # one of its calls was held and answered

    @property
    def live_keys(self) -> list[AgentKey]:
        """Return the keys that are valid today."""
        now = timezone.now()
        return [k for k in self.keys if not k.revoked_at and (k.expires_at is None or k.expires_at > now)]

    @property
    def seen_at(self) -> Any:
        """Return when the source was last active."""
        times = [
            time_seen
            for time_seen in (self.source.seen_at, self.last_run, *(key.used_at for key in self.keys))
            if time_seen
        ]
        return max(times, default=None)

    @property
    def gates(self) -> str:
        """Return whether its calls are gated, observed, or both."""
        if not self.modes:
            return "not seen yet"
        if len(self.modes) > 1:
            return "partly gated"
        return "gates" if "gate" in self.modes else "observes"


@require_GET
@needs()
def sources(request: HttpRequest) -> HttpResponse:
    """List all sources."""
    return _render_sources(request)


def _render_sources(
    request: HttpRequest, *, form: KeyForm | None = None, status: int = 200, **context: Any
) -> HttpResponse:
    context = {"rows": _list_rows(), "plugins": hooks.list_statuses(), "key_form": form or KeyForm(), **context}
    return render(request, "sources/sources.html", context, status=status)


@require_GET
@needs()
def source(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one source: its keys, latest runs, and latest failures."""
    row = get_object_or_404(Source, pk=pk)
    arguments = f"--url {request.build_absolute_uri('/').rstrip('/')}"
    failed_calls = (
        ToolCall.objects.not_removed().filter(run__source=row, state="output-error", soft=False).order_by("-id")[:10]
    )
    runs = Run.objects.filter(source=row).order_by("-id")[:20]
    source_row = _list_rows(pk)[0]
    context = {
        "row": source_row,
        "abilities": list_abilities(row),
        "probe": build_proof_command(row, arguments),
        "runs": [(run, labels.get_run_label(run.status)) for run in runs],
        "failed": failed_calls.select_related("run").defer("card", "text"),
        "key_form": KeyForm(initial={"name": row.name}),
        "running_agents": _count_running_agents(row),
        "tools": row.tools.order_by("name", "id")[:500],
        "skipped": skipped.describe_skipped_frames(_count_skipped_frames(source_row)),
        "unanswerable": policy_store.is_default_unanswerable(row),
        "people": get_user_model().objects.filter(is_active=True).order_by("username")[:500],
    }
    return render(request, "sources/source.html", context)


@require_GET
@needs()
def unknown_frames(request: HttpRequest) -> HttpResponse:
    """Show help for unknown frames, and the version of each protocol."""
    return render(request, "sources/unknown_frames.html", {"protocols": ADAPTERS.values()})


@require_POST
@needs(CHANGE)
def set_owner(request: HttpRequest, pk: int) -> HttpResponse:
    """Set the owner of the source; rules may exclude owners from approving."""
    row = get_object_or_404(Source, pk=pk)
    name = request.POST.get("owner", "")
    owner = get_object_or_404(get_user_model(), username=name, is_active=True) if name else None
    row.change(owner=owner)
    messages.success(request, f"{row} works for {name or 'no one'}.")
    return redirect("source", pk)


@require_POST
@needs(CHANGE)
def accept_tool(request: HttpRequest, pk: int) -> HttpResponse:
    """Accept a tool's new schema."""
    row = gate.accept_tool(pk, request.user.get_username())
    if row is None:
        raise Http404
    messages.success(request, f"{row.name} is accepted in its current form.")
    return redirect("source", row.source_id)


@require_POST
@needs(KEYS)
def make_key(request: HttpRequest) -> HttpResponse:
    """Create a key; only this answer shows its secret."""
    form = KeyForm(request.POST)
    if not form.is_valid():
        return _render_sources(request, form=form, status=422)
    key, secret = form.issue()
    return _render_sources(request, made=key, secret=secret)


@require_POST
@needs(REVOKE)
def revoke_key(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke a key; its open connections close within seconds."""
    key = get_object_or_404(AgentKey.objects.select_related("source"), pk=pk)
    AgentKey.objects.filter(pk=pk, revoked_at=None).update(
        revoked_at=timezone.now()
    )  # which rings the bell, unlike a save
    messages.success(request, f"Key {key.prefix}… of {key.source} is revoked.")
    return redirect("sources")


@require_POST
@needs(KEYS)
def rotate_key(request: HttpRequest, pk: int) -> HttpResponse:
    """Replace a key of a source; the answer shows the new secret.

    `end=now` cuts off what is connected with the old one.
    """
    key = get_object_or_404(AgentKey.objects.select_related("source").filter(revoked_at=None), pk=pk)
    new_key, secret = AgentKey.objects.rotate(key, at_once=request.POST.get("end") == "now")
    key.refresh_from_db()
    return _render_sources(request, made=new_key, secret=secret, replaced_key=key)


def _list_rows(pk: int | None = None) -> list[SourceRow]:
    queryset = Source.objects.filter(pk=pk) if pk else Source.objects.all()
    rows = {
        source_row.pk: SourceRow(source_row, list(source_row.keys.all()))
        for source_row in queryset.order_by("name").prefetch_related("keys__replaced_by")[:500]
    }
    kinds = Run.objects.filter(source__in=rows).order_by().values("source", "mode", "protocol")
    recent = Q(updated_at__gte=timezone.now() - RECENT)
    skips = Sum("skipped", filter=recent, default=0)
    numbers = kinds.annotate(runs=Count("id"), last=Max("updated_at"), frames=skips)
    for kind in numbers.annotate(first_agent=Min("agent"), last_agent=Max("agent")):
        row = rows[kind["source"]]
        row.runs += kind["runs"]
        row.skipped += kind["frames"]
        row.agents |= {kind["first_agent"], kind["last_agent"]} - {""}
        row.modes.add(kind["mode"])
        row.protocols |= {kind["protocol"]} - {""}
        row.last_run = max(filter(None, (row.last_run, kind["last"])), default=None)
    for pk_, calls, failed_count in _count_recent_calls(rows):
        rows[pk_].calls, rows[pk_].failed = calls, failed_count
    for pk_ in capabilities.find_gating_sources(rows):
        rows[pk_].has_held_call = True
    for pk_, badges in health.list_badges(rows).items():
        rows[pk_].health = badges
    counts = load_yesterday(rows)
    for pk_, row in rows.items():
        row.control = describe_control(row.gates, sorted(row.agents), row.protocols, counts.get(pk_))
    return list(rows.values())


def _count_recent_calls(rows: dict[int, SourceRow]) -> list[tuple[int, int, int]]:
    """Return the calls and failures of the last day, by source."""
    recent = ToolCall.objects.filter(run__source__in=rows, run__updated_at__gte=timezone.now() - RECENT).order_by()
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in recent.values("run__source", "state", "soft").annotate(count=Count("id")):
        counts[row["run__source"]][0] += row["count"]
        if row["state"] == "output-error" and not row["soft"]:  # an inferred end is unknown, not failed
            counts[row["run__source"]][1] += row["count"]
    return [(pk, calls, failed_count) for pk, (calls, failed_count) in counts.items()]


def _count_running_agents(source: Source) -> list[tuple[str, int]]:
    """Return the agents whose runs have not ended, the busiest first, with their numbers of runs."""
    runs = Run.objects.active().filter(source=source).order_by("-id").values_list("agent", flat=True)[:500]
    return Counter(agent or source.name for agent in runs).most_common(10)


def _count_skipped_frames(row: SourceRow) -> SkippedFrames:
    """Return the frames of unknown kinds in the source's runs of the last day.

    Kinds are from its latest 1,000 such runs.
    """
    runs = Run.objects.filter(source=row.source, skipped__gt=0, updated_at__gte=timezone.now() - RECENT)
    frames = SkippedFrames()
    for run in runs.order_by("-id").only("skipped", "skipped_kinds")[:1_000]:
        frames.add(run.skipped_frames)
    frames.total = max(frames.total, row.skipped)
    return frames


@dataclass(frozen=True, slots=True)
class AbilityRow:
    """One row: `word` for people, `how` to prove it, and the latest evidence."""

    name: str
    word: str
    how: str
    proofs: list[Proof] = field(default_factory=list)

    @property
    def icon(self) -> str:
        """Return a warning icon if the source runs tools without a decision."""
        has_open_proof = any(proof.words.startswith(proofs.FAILS_OPEN) for proof in self.proofs)
        return "triangle-alert" if self.name == proofs.FAILS and has_open_proof else "circle-check"


_ROWS = (
    (proofs.OBSERVE, "Observes calls", "no call has been received yet."),
    (proofs.GATE, "Holds calls for approval", "no call has been held and answered yet."),
    (proofs.EDIT, "Runs edited arguments", "edit the arguments of a waiting call, then approve it."),
    (proofs.STREAM, "Streams arguments", "no arguments have been received while they were written."),
    (proofs.FAILS, "If this server is down", "the probe tests it where it can."),
)


def list_abilities(source: Source) -> list[AbilityRow]:
    """Return the rows of the source, with new evidence from the log."""
    all_proofs = proofs.list_proofs(source)
    return [AbilityRow(name, word, how, all_proofs[name]) for name, word, how in _ROWS]


def build_proof_command(source: Source, where: str) -> str:
    """Return the command to run where the agent runs.

    It uses the key that the agent's recipe has written, or asks for one.
    """
    names = {recipe.name for recipe in connect.RECIPES}
    if source.name in names:
        return f"toolcards connect {source.name} --only-probe {where}"
    return f"toolcards connect anything --only-probe {where} --key A-KEY-OF-THIS-SOURCE"
