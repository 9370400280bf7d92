"""What a document would decide about one call or past calls, for admins' programs. Writes nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts.access import EDIT_POLICY, api, body_of, needs
from dashboard.policy import dry_run, view_models
from dashboard.policy.api import build_error, handle_policy_errors, require_object, serialize_decision
from dashboard.policy.forms import SimulationForm
from dashboard.policy.simulation import impact, jobs
from dashboard.policy.simulation.past_calls import DAY, PastCall, Span, iterate_past_calls
from dashboard.policy.simulation.simulation import simulate as run_simulation
from dashboard.policy.simulation.simulation_result import SimulationResult
from toolcards.core.policy.decision import Effect, RuleSet, decide
from toolcards.core.policy.language import document as documents
from toolcards.gate import policy_draft, policy_store
from toolcards.models import ToolCall


# Simulations of the draft over past calls: start, watch and cancel them.
@require_POST
@needs(EDIT_POLICY)
def begin_simulation(request: HttpRequest) -> HttpResponse:
    """Start a comparison of the draft with the active policy."""
    form, review = SimulationForm(request.POST), view_models.review_draft()
    if not form.is_valid() or review.policy is None:
        return redirect("policy")
    form_data = form.cleaned_data
    span = Span(int(form_data["calls"]), float(form_data["days"]), form_data["tool"], form_data["agent"])
    job = jobs.create_job(
        review.document, draft=review.sha256, active=review.active, span=span, author=request.user.get_username()
    )
    jobs.start_job(job)
    return _render_job(request, job)


@require_GET
@needs(EDIT_POLICY)
def simulation(request: HttpRequest, pk: str) -> HttpResponse:
    """Show the progress or the result."""
    return _render_job(request, _find_job(pk))


@require_POST
@needs(EDIT_POLICY)
def cancel_simulation(request: HttpRequest, pk: str) -> HttpResponse:
    """Cancel the job."""
    jobs.cancel_job(_find_job(pk).id)
    return _render_job(request, _find_job(pk))


def _find_job(pk: str) -> jobs.Job:
    job = jobs.find_job(pk)
    if job is None:
        raise Http404
    return job


def _render_job(request: HttpRequest, job: jobs.Job) -> HttpResponse:
    piece = bool(request.headers.get("HX-Request"))
    if request.method == "POST" and not piece:
        return redirect("policy-simulation", job.id)
    return render(request, "policy/_simulation.html" if piece else "policy/simulation.html", build_job_context(job))


def build_job_context(job: jobs.Job) -> dict[str, Any]:
    """Return the context for a page's part about a job."""
    review = view_models.review_draft()
    impact_view = impact.build_impact(job.tally, job) if job.state in {"done", "cancelled"} else None
    stale = not job.fits(review.sha256, review.active)
    return {"job": job, "job_blast": impact_view, "stale": stale, "simulation_form": SimulationForm()}


MOST = 2_000  # calls that one request evaluates; a job on the policy page evaluates 100,000
USUAL = 300
LISTED = 200
SECONDS = 5.0
LATEST = 1e11  # epoch seconds
_FILTER = {"since", "limit", "tool", "agent"}


@api(EDIT_POLICY, "POST")
@handle_policy_errors
def simulate(request: HttpRequest) -> JsonResponse:
    """Compare a document with the active policy, for `call` or past calls."""
    body = require_object(body_of(request))
    call, filters = body.pop("call", None), require_object(body.pop("filter", None) or {}, "/filter")
    if "limit" in body:
        filters.setdefault("limit", body.pop("limit"))
    explain, everything = bool(body.pop("explain", False)), bool(body.pop("all", False))
    document = body.pop("document", None) or body.pop("draft", None) or body or policy_draft.load_draft()
    policy_store.check_document(document)
    old, new = _load_active_policy(), documents.parse(document)
    if call is not None:
        return JsonResponse(_compare_call(old, new, require_object(call, "/call")))
    span = _read_span(filters)
    return JsonResponse(_PastComparison(old, new, explain, everything).summarize(span))


def _load_active_policy() -> RuleSet:
    try:
        return policy_store.get_active_policy()
    except policy_store.NoActivePolicy:
        return RuleSet(default=Effect.DENY)  # the gate denies every call then


# ---------------------------------------------------------------- one call


def _compare_call(old: RuleSet, new: RuleSet, call: dict[str, Any]) -> dict[str, Any]:
    tool, path = call.get("tool"), call.get("agent_path") or []
    if not isinstance(tool, str) or not tool:
        raise build_error("/call/tool", "missing", "The name of the tool is required.")
    if not isinstance(path, list) or not all(isinstance(name, str) for name in path):
        raise build_error("/call/agent_path", "type", "This must be a list of names.")
    source = call.get("source") or call.get("tool_source") or ""
    args = call.get("args", call.get("input"))
    question = dry_run.build_request(tool, args, agent=path, source=str(source))
    before, after = dry_run.try_call(old, question), dry_run.try_call(new, question)
    answer: dict[str, Any] = {
        "tool": tool,
        "old": serialize_decision(before.decision),
        "new": serialize_decision(after.decision),
    }
    answer |= {"changed": before.effect != after.effect, **_explain_trial(after)}
    return {**serialize_decision(after.decision), "calls": [answer], "trace": list(after.decision.trace)}


def _explain_trial(trial: dry_run.Trial) -> dict[str, Any]:
    """Return the matching rules and the nearest one, with its first failed condition."""
    near = trial.nearest
    missed_condition = near.failed_conditions[0] if near and near.failed_conditions else None
    near_miss = None
    if near and missed_condition:
        near_miss = {"rule": near.rule, "condition": missed_condition.condition, "value": missed_condition.value}
    return {
        "matched": [rule.rule for rule in (*trial.winners, *trial.overruled, *trial.watching)],
        "near_miss": near_miss,
    }


# ---------------------------------------------------------------- the past


def _read_span(filters: dict[str, Any]) -> Span:
    for name in filters:
        if name not in _FILTER:
            raise build_error(f"/filter/{name}", "unknown_field", "Unknown field.")
    limit = filters.get("limit", USUAL)
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise build_error("/limit", "type", "This must be a whole number.")
    for name in ("tool", "agent"):
        if not isinstance(filters.get(name, ""), str):
            raise build_error(f"/filter/{name}", "type", "This must be text.")
    earliest = _parse_time(filters.get("since"))
    days = max(0.0001, min((time.time() - earliest) / DAY, 20_000)) if earliest else 0.0
    return Span(max(1, min(limit, MOST)), days, filters.get("tool", ""), filters.get("agent", ""))


def _parse_time(value: Any) -> float:
    """Return epoch seconds; accepts ISO 8601 with a zone, None for any age."""
    if value is None:
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LATEST:
        return float(value)
    try:
        moment = datetime.fromisoformat(value)
        return moment.timestamp() if moment.tzinfo else 1 / 0
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        raise build_error(
            "/filter/since", "type", "Use epoch seconds, or a time such as 2027-01-31T12:00:00Z."
        ) from None


@dataclass
class _PastComparison:
    """Two policies compared over past calls, with each call listed."""

    old: RuleSet
    new: RuleSet
    explain: bool
    everything: bool
    counts: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    unknown: int = 0
    partial: bool = False

    def summarize(self, span: Span) -> dict[str, Any]:
        """Return the summary, and each call that changes (or every one)."""
        answers = list(self._list_answers(span))
        rows = ToolCall.objects.select_related("run__source").defer("card", "text")
        rows_by_pk = rows.in_bulk([call.pk for call, _ in answers])
        calls = [answer | _get_public_id(rows_by_pk[call.pk]) for call, answer in answers if call.pk in rows_by_pk]
        changed_count = sum(self.counts.values())
        examined_count = self.judged + self.unknown
        summary = {
            "calls": examined_count,
            "unknown": self.unknown,
            "changed": changed_count,
            "changes": dict(self.counts),
        }
        groups = self._groups(span)
        return {"summary": summary, "partial": self.partial, "groups": groups, "calls": calls}

    def _list_answers(self, span: Span) -> Iterator[tuple[PastCall, dict[str, Any]]]:
        deadline, listed_count = time.monotonic() + SECONDS, 0
        for call in iterate_past_calls(span):
            if time.monotonic() > deadline:
                self.partial = True
                return
            answer = self._judge(call)
            if answer and (self.everything or answer["changed"]) and listed_count < LISTED:
                listed_count += 1
                yield call, answer

    def _judge(self, call: PastCall) -> dict[str, Any] | None:
        if call.question is None:
            self.unknown += 1
            return None
        self.judged += 1
        old, new = decide(self.old, call.question), decide(self.new, call.question)
        is_changed = old.effect is not new.effect
        if is_changed:
            self.counts[f"{old.effect} → {new.effect}"] += 1
        if not is_changed and not self.everything:
            return {"changed": False}
        answer = {"tool": call.tool, "old": serialize_decision(old), "new": serialize_decision(new),
                "changed": is_changed,
                "denied_by_person": call.person == "denied" and new.effect == "allow"}  # fmt: skip
        why = (
            _explain_trial(dry_run.try_call(self.new, call.question)) if self.explain else {"matched": list(new.rules)}
        )
        return answer | why

    def _groups(self, span: Span) -> list[dict[str, Any]]:
        if self.partial or not self.counts:
            return []
        tally: SimulationResult = run_simulation(self.old, self.new, span, seconds=SECONDS)
        return [{"tool": group.tool, "old": group.old, "new": group.new, "rule": group.rule, "count": group.count}
                for group in tally.biggest]  # fmt: skip


def _get_public_id(call: ToolCall) -> dict[str, Any]:
    return {"id": call.public_id, "run": call.run.name, "source": call.run.source.name, "call_id": call.call_id}
