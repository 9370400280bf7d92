"""Policy: what is active, in sentences; the draft and what activating it would change; versions and the way back."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from dashboard import url_helpers
from dashboard.accounts.access import EDIT_POLICY, needs
from dashboard.policy import dry_run_views, suggestions, view_models
from dashboard.policy.forms import ActivateForm, DefaultForm, ImportForm, SimulationForm, TryForm
from dashboard.policy.rule_form import RuleForm, rule_to_fields
from dashboard.policy.simulation import impact, jobs
from dashboard.policy.yaml_comments import write_with_comments
from toolcards import gate
from toolcards.core.policy.language.diff import compare_documents
from toolcards.core.policy.language.document import PolicyError
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate import VersionConflict, policy_store
from toolcards.models import DraftRule, PolicyVersion

# ---------------------------------------------------------------- what is active


def _handle_unreadable_version(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Answer with a page that names the version that cannot be read, and says what to do."""

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
@_handle_unreadable_version
def policy(request: HttpRequest) -> HttpResponse:
    """The active version in sentences."""
    version = PolicyVersion.objects.filter(active=True).first()
    document = policy_store.load_document(version) if version else {}
    rows = (
        view_models.build_rows(policy_store.compile_version(version), view_models.count_recent_hits())
        if version
        else []
    )
    changes = []
    if version and request.user.has_perm(EDIT_POLICY):
        changes = view_models.review_draft().changes
    context = {
        "version": version, "groups": view_models.group_by_effect(rows), "model": view_models.describe_model(document),
        "changes": changes, "try_form": TryForm(), "tries": dry_run_views.list_recent_examples(), "packs": PRESETS,
    }  # fmt: skip
    return render(request, "policy/policy.html", context)


@require_GET
@needs()
def versions(request: HttpRequest) -> HttpResponse:
    """Every version there was, newest first."""
    rows = PolicyVersion.objects.defer("document")[:500]
    return render(request, "policy/versions.html", {"versions": rows})


@require_GET
@needs()
@_handle_unreadable_version
def version(request: HttpRequest, number: int) -> HttpResponse:
    """One version in sentences, and what it changed."""
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
    """Return the version that a version is compared with; None without one that can be read."""
    try:
        return policy_store.load_document(before) if before else None
    except policy_store.UnreadablePolicy:
        return None


@require_GET
@needs()
@_handle_unreadable_version
def export(request: HttpRequest) -> HttpResponse:
    """The active version, a numbered one, or the draft, as a file."""
    version_text = request.GET.get("version", "")
    if version_text == "draft":
        if not request.user.has_perm(EDIT_POLICY):
            raise Http404
        document, text, name = policy_store.load_draft(), policy_store.load_draft_text(), "draft"
    else:
        number = url_helpers.read_number(version_text)
        if version_text and number is None:
            raise Http404
        chosen = {"active": True} if number is None else {"number": number}
        row = get_object_or_404(PolicyVersion, **chosen)
        document, text, name = policy_store.load_document(row), row.text, f"v{row.number}"
    form = "yaml" if request.GET.get("as") == "yaml" else "json"
    if form == "yaml":
        answer = HttpResponse(write_with_comments(document, text), content_type="application/yaml; charset=utf-8")
    else:
        answer = JsonResponse(document, json_dumps_params={"indent": 2, "ensure_ascii": False})
    answer["Content-Disposition"] = f'attachment; filename="toolcards-policy-{name}.{form}"'
    return answer


# ---------------------------------------------------------------- the draft


@require_GET
@needs(EDIT_POLICY)
def draft(request: HttpRequest) -> HttpResponse:
    """The policy being written, and what activating it would change."""
    return _render_draft(request)


def _render_draft(request: HttpRequest, *, message: str = "", status: int = 200, form: Any = None) -> HttpResponse:
    review = view_models.review_draft()
    context = {
        "review": review, "groups": view_models.group_by_effect(view_models.list_draft_rows()),
        "packs": PRESETS, "told": message,
        "model": view_models.describe_model(review.document), "import_form": form or ImportForm(),
        "default_form": DefaultForm(initial=_get_default_values(review.document)),
        "activate_form": ActivateForm(initial={"expected_active": review.active, "draft_sha256": review.sha256}),
        "blast": impact.estimate_draft_impact(review), "simulation_form": SimulationForm(),
        "going": next((job for job in jobs.list_jobs() if job.going), None), "try_form": TryForm(),
        "tries": dry_run_views.list_recent_examples(),
    }  # fmt: skip
    return render(request, "policy/draft.html", context, status=status)


def _get_default_values(document: dict[str, Any]) -> dict[str, Any]:
    """What the form of the default shows."""
    default_ask = document.get("default_ask") or {}
    return {"default": document.get("default", "ask"), "allow_requester": default_ask.get("allow_requester", False)}


@require_POST
@needs(EDIT_POLICY)
def activate(request: HttpRequest) -> HttpResponse:
    """Make the reviewed draft the policy."""
    form = ActivateForm(request.POST)
    if not form.is_valid():
        return _render_draft(request, message="Say which version you compared the draft with.", status=422)
    form_data, review = form.cleaned_data, view_models.review_draft()
    if review.refusals:
        return _render_draft(request, message="The draft cannot be activated as it is.", status=422)
    if form_data["draft_sha256"] and form_data["draft_sha256"] != review.sha256:
        return _render_draft(
            request, message="The draft has changed since you reviewed it. Look at it again.", status=409
        )
    try:
        activated = policy_store.activate(
            review.document,
            author=request.user.get_username(),
            note=form_data["note"],
            expected_active=form_data["expected_active"],
        )
    except VersionConflict as late:
        message = f"Version {late.active} was activated in the meantime. Look at the changes again."
        return _render_draft(request, message=message, status=409)
    messages.success(request, f"Version {activated.number} is active.")
    if form_data["apply_to_waiting"]:
        counts = gate.reevaluate_waiting(request.user.get_username())
        message = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count)
        messages.success(request, f"Applied to the waiting calls: {message or 'there were none'}.")
    return redirect("policy")


@require_POST
@needs(EDIT_POLICY)
def set_default(request: HttpRequest) -> HttpResponse:
    """Change the answer where no rule matches."""
    form = DefaultForm(request.POST)
    if not form.is_valid():
        return _render_draft(request, message="Choose deny, ask or allow.", status=422)
    form_data, ask = form.cleaned_data, dict(policy_store.load_draft().get("default_ask") or {})
    ask.pop("allow_requester", None)
    ask |= {"allow_requester": True} if form_data["allow_requester"] else {}
    changes = {"default": form_data["default"], "default_ask": ask or None}
    policy_store.update_draft_head(changes, author=request.user.get_username())
    return redirect("policy-draft")


@require_POST
@needs(EDIT_POLICY)
def take_pack(request: HttpRequest, name: str) -> HttpResponse:
    """Make a starter policy the draft."""
    if name not in PRESETS:
        raise Http404
    return _replace_draft(
        request, dict(PRESETS[name].document), f"The draft is now the starter policy “{PRESETS[name].title}”."
    )


@require_POST
@needs(EDIT_POLICY)
@_handle_unreadable_version
def copy_version(request: HttpRequest, number: int) -> HttpResponse:
    """Make an older version the draft: the way back leads through the same review."""
    row = get_object_or_404(PolicyVersion, number=number)
    document = policy_store.load_document(row)
    return _replace_draft(request, document, f"The draft is a copy of version {number}.", row.text)


@require_POST
@needs(EDIT_POLICY)
def import_document(request: HttpRequest) -> HttpResponse:
    """Make a file or a pasted document the draft."""
    form = ImportForm(request.POST, request.FILES)
    if form.is_valid():
        try:
            text = form.cleaned_data["text"]
            return _replace_draft(request, form.cleaned_data["read"], "The draft is the imported document.", text)
        except PolicyError as refused:
            for finding in refused.findings[:20]:
                form.add_error(None, f"{finding.pointer or 'The document'}: {finding.message}")
    return _render_draft(request, form=form, status=422)


def _replace_draft(request: HttpRequest, document: dict[str, Any], message: str, text: str = "") -> HttpResponse:
    policy_store.replace_draft(document, author=request.user.get_username(), text=text)
    messages.info(request, f"{message} Nothing changes until you activate it.")
    return redirect("policy-draft")


# ---------------------------------------------------------------- its rules


@require_http_methods(["GET", "POST"])
@needs(EDIT_POLICY)
def new_rule(request: HttpRequest) -> HttpResponse:
    """Write a rule, perhaps beginning with a call that was seen."""
    form = RuleForm(request.POST) if request.method == "POST" else RuleForm(initial=_get_initial_rule(request))
    return _save_rule(request, form, {"new": True})


@require_http_methods(["GET", "POST"])
@needs(EDIT_POLICY)
def edit_rule(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Change a rule of the draft."""
    row = get_object_or_404(DraftRule, rule_id=rule_id)
    posted = [request.POST] if request.method == "POST" else []
    form = RuleForm(*posted, initial=rule_to_fields(policy_store.build_rule_document(row)), instead_of=rule_id)
    return _save_rule(request, form, {"rule": row})


def _save_rule(request: HttpRequest, form: RuleForm, context: dict[str, Any]) -> HttpResponse:
    if form.is_bound and form.is_valid():
        form.save(request.user.get_username())
        messages.success(request, "Saved to draft. Activate to apply.")
        return redirect("policy-draft")
    return render(request, "policy/rule.html", {"form": form} | context, status=422 if form.is_bound else 200)


def _get_initial_rule(request: HttpRequest) -> dict[str, Any]:
    """What a link may fill in: ?tool=Bash&effect=ask&path=/command&op=cmd&value=git+push, or ?from=<call>&rung=…"""
    call = dry_run_views.find_call(request.GET.get("from", ""))
    if call is not None:
        return rule_to_fields(suggestions.build_rule(call, call.as_card(), request.GET.dict()))
    initial: dict[str, Any] = {
        name: request.GET[name] for name in ("effect", "path", "op", "value") if name in request.GET
    }
    return initial | {name: request.GET.getlist(name) for name in ("tool", "kind") if name in request.GET}


@require_POST
@needs(EDIT_POLICY)
def switch_rule(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Turn a rule of the draft on or off."""
    if not policy_store.set_rule_enabled(rule_id, request.POST.get("to") == "on", author=request.user.get_username()):
        raise Http404
    return redirect("policy-draft")


@require_POST
@needs(EDIT_POLICY)
def remove_rule(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Take a rule out of the draft."""
    if not policy_store.remove_rule(rule_id, author=request.user.get_username()):
        raise Http404
    return redirect("policy-draft")
