"""The active policy in sentences, its versions, and exports."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from dashboard import url_helpers
from dashboard.accounts.access import EDIT_POLICY, needs
from dashboard.policy import dry_run, view_models
from dashboard.policy.forms import ActivateForm, DefaultForm, ImportForm, SimulationForm, TryForm
from dashboard.policy.simulation import impact, jobs
from dashboard.policy.text.yaml_comments import write_with_comments
from toolcards.core.policy.language.diff import compare_documents
from toolcards.core.policy.language.presets import PRESETS, find_newer_form
from toolcards.gate import policy_draft, policy_store
from toolcards.models import PolicyVersion


def handle_unreadable_version(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Answer with a page about the version that cannot be read."""

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except policy_store.UnreadablePolicy as error:
            active = policy_store.get_active_version_number() == error.number
            return render(request, "policy/unreadable.html", {"number": error.number, "active": active}, status=409)

    return answer


@require_GET
@needs()
@handle_unreadable_version
def policy(request: HttpRequest) -> HttpResponse:
    """Show the policy in sentences; editors see the draft with its changes."""
    if request.user.has_perm(EDIT_POLICY):
        return render_editable_policy(request)
    version = PolicyVersion.objects.filter(active=True).first()
    document, rows = {}, []
    if version:
        document = policy_store.load_document(version)
        rows = view_models.build_rows(policy_store.compile_version(version), view_models.count_recent_hits())
    context = {
        "version": version, "groups": view_models.group_by_effect(rows), "model": view_models.describe_model(document),
        "try_form": TryForm(), "tries": dry_run.list_recent_examples(),
    }  # fmt: skip
    return render(request, "policy/policy.html", context)


def render_editable_policy(
    request: HttpRequest, *, message: str = "", status: int = 200, import_form: ImportForm | None = None
) -> HttpResponse:
    """Return the page with the draft and what activating it would change.

    Without changes, the draft is the active version. `message` says why something was refused.
    """
    version = PolicyVersion.objects.filter(active=True).first()
    review = view_models.review_draft()
    is_unreadable = review.is_unreadable
    newer_form, own_default = find_newer_form(version.sha256) if version else ("", "")
    blast = None if is_unreadable else impact.estimate_draft_impact(review)
    rows = view_models.list_draft_rows(review, view_models.count_recent_hits(), blast.changed_by_rule if blast else {})
    context = {
        "version": version, "unreadable": is_unreadable, "review": review, "blast": blast, "error": message,
        "groups": view_models.group_by_effect(rows), "model": view_models.describe_model(review.document),
        "default_form": DefaultForm(initial=_get_default_values(review.document)),
        "activate_form": ActivateForm(initial={"expected_active": review.active, "draft_sha256": review.sha256}),
        "newer_form": newer_form, "starter": PRESETS.get(newer_form), "own_default": own_default, "packs": PRESETS,
        "import_form": import_form or ImportForm(), "simulation_form": SimulationForm(),
        "going": next((job for job in jobs.list_jobs() if job.going), None),
        "try_form": TryForm(), "tries": dry_run.list_recent_examples(),
    }  # fmt: skip
    return render(request, "policy/policy.html", context, status=409 if is_unreadable and status == 200 else status)


def _get_default_values(document: dict[str, Any]) -> dict[str, Any]:
    """Return the initial values of the form for the default."""
    default_ask = document.get("default_ask") or {}
    return {"default": document.get("default", "ask"), "allow_requester": default_ask.get("allow_requester", False)}


@require_GET
@needs()
def versions(request: HttpRequest) -> HttpResponse:
    """List every version, newest first."""
    rows = PolicyVersion.objects.defer("document")[:500]
    return render(request, "policy/versions.html", {"versions": rows})


@require_GET
@needs()
@handle_unreadable_version
def version(request: HttpRequest, number: int) -> HttpResponse:
    """Show one version in sentences, with its changes."""
    row = get_object_or_404(PolicyVersion, number=number)
    before = PolicyVersion.objects.filter(number__lt=number).first()
    document = policy_store.load_document(row)
    rows = view_models.build_rows(policy_store.compile_version(row), view_models.RuleHits())
    context = {
        "version": row,
        "groups": view_models.group_by_effect(rows),
        "model": view_models.describe_model(document), "before": before,
        "changes": compare_documents(_get_previous_document(before), document),
    }  # fmt: skip
    return render(request, "policy/version.html", context)


def _get_previous_document(before: PolicyVersion | None) -> dict[str, Any] | None:
    """Return the version to compare with; None without a readable one."""
    try:
        return policy_store.load_document(before) if before else None
    except policy_store.UnreadablePolicy:
        return None


@require_GET
@needs()
@handle_unreadable_version
def export(request: HttpRequest) -> HttpResponse:
    """Return the active version, another version, or the draft as a file."""
    version_text = request.GET.get("version", "")
    if version_text == "draft":
        if not request.user.has_perm(EDIT_POLICY):
            raise Http404
        document, text, name = policy_draft.load_draft(), policy_store.load_draft_text(), "draft"
    else:
        number = url_helpers.read_number(version_text)
        if version_text and number is None:
            raise Http404
        version_filter = {"active": True} if number is None else {"number": number}
        row = get_object_or_404(PolicyVersion, **version_filter)
        document, text, name = policy_store.load_document(row), row.text, f"v{row.number}"
    form = "yaml" if request.GET.get("as") == "yaml" else "json"
    if form == "yaml":
        answer = HttpResponse(write_with_comments(document, text), content_type="application/yaml; charset=utf-8")
    else:
        answer = JsonResponse(document, json_dumps_params={"indent": 2, "ensure_ascii": False})
    answer["Content-Disposition"] = f'attachment; filename="toolcards-policy-{name}.{form}"'
    return answer
