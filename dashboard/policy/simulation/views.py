"""Simulations of the draft over past calls: start, watch and cancel them."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts.access import EDIT_POLICY, needs
from dashboard.policy import view_models
from dashboard.policy.forms import SimulationForm
from dashboard.policy.simulation import impact, jobs
from dashboard.policy.simulation.past_calls import Span


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
