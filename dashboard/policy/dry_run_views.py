"""The page to test a call: what policy would decide. Nothing is executed."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from dashboard import url_helpers
from dashboard.accounts.access import EDIT_POLICY, needs
from dashboard.policy import dry_run, view_models
from dashboard.policy.forms import TryForm
from toolcards.gate import policy_store
from toolcards.models import Approval, ToolCall


@require_http_methods(["GET", "POST"])
@needs()
def try_call(request: HttpRequest) -> HttpResponse:
    """Show what the active policy and the draft decide about a call."""
    form = (
        TryForm(request.POST)
        if request.method == "POST"
        else TryForm(initial=_get_call_values(request.GET.get("call", "")))
    )
    results = []
    if request.method == "POST" and form.is_valid():
        results = _build_results(request, form.cleaned_data)
    page = "policy/_trial.html" if request.headers.get("HX-Request") else "policy/try.html"
    status = 422 if form.is_bound and form.errors else 200
    return render(request, page, {"try_form": form, "results": results, "tries": list_recent_examples()}, status=status)


def _build_results(request: HttpRequest, form_data: dict[str, Any]) -> list[dict[str, Any]]:
    question = dry_run.build_request(
        form_data["tool"], form_data["args"], agent=form_data["agent"], source=form_data["source"]
    )
    results = []
    try:
        active = policy_store.get_active_policy()
        results.append(
            {"name": f"Active policy, version {active.version}", "trial": dry_run.try_call(active, question)}
        )
    except policy_store.NoActivePolicy:
        active = None
    if request.user.has_perm(EDIT_POLICY):
        review = view_models.review_draft()
        if review.policy is not None and (review.changes or active is None):
            results.append({"name": "Draft", "trial": dry_run.try_call(review.policy, question)})
    return results


def _get_call_values(public_id: str) -> dict[str, Any]:
    """Return the form's values for a past call."""
    call = find_call(public_id)
    if call is None:
        return {}
    card = call.as_shown_card()
    args = json.dumps(card.shown_input, indent=2, ensure_ascii=False)
    return {"tool": card.tool.name, "source": card.tool.source, "agent": list(card.agent_path), "args": args}


def find_call(public_id: str) -> ToolCall | None:
    """Return the call with that id, or None."""
    call_id = url_helpers.read_public_id(public_id)
    if call_id is None:
        return None
    rows = ToolCall.objects.not_removed().select_related("run", "run__source")
    return rows.filter(run_id=call_id[0], ordinal=call_id[1]).first()


def list_recent_examples() -> list[ToolCall]:
    """Return the latest calls that needed approval."""
    approvals = Approval.objects.filter(asked=True).order_by("-requested_at").values_list("call_id", flat=True)[:5]
    return list(ToolCall.objects.filter(pk__in=list(approvals)).defer("card", "text").order_by("-id"))
