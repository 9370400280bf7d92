"""The draft of the policy: activating it, its default effect, and replacing it as a whole."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from dashboard.accounts.access import EDIT_POLICY, needs
from dashboard.policy import view_models
from dashboard.policy.forms import ActivateForm, DefaultForm, ImportForm
from dashboard.policy.views import handle_unreadable_version, render_editable_policy
from toolcards import gate
from toolcards.core.policy.language.document import PolicyError
from toolcards.core.policy.language.presets import PRESETS
from toolcards.gate import VersionConflict, policy_draft, policy_store
from toolcards.models import PolicyVersion


@require_POST
@needs(EDIT_POLICY)
def activate(request: HttpRequest) -> HttpResponse:
    """Activate the reviewed draft."""
    form = ActivateForm(request.POST)
    if not form.is_valid():
        message = "The version that you compared the draft with is missing."
        return render_editable_policy(request, message=message, status=422)
    form_data, review = form.cleaned_data, view_models.review_draft()
    if review.refusals:
        return render_editable_policy(request, message="The draft has errors and cannot be activated.", status=422)
    if form_data["draft_sha256"] and form_data["draft_sha256"] != review.sha256:
        return render_editable_policy(
            request, message="The draft has changed since you reviewed it. Review it again.", status=409
        )
    try:
        new_version = policy_store.activate(
            review.document,
            author=request.user.get_username(),
            note=form_data["note"],
            expected_active=form_data["expected_active"],
        )
    except VersionConflict as late:
        message = f"Version {late.active} was activated in the meantime. Review the changes again."
        return render_editable_policy(request, message=message, status=409)
    messages.success(request, f"Version {new_version.number} is active.")
    if form_data["apply_to_waiting"]:
        counts = gate.reevaluate_waiting(request.user.get_username())
        message = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count)
        messages.success(request, f"Applied to the waiting calls: {message or 'there were none'}.")
    return redirect("policy")


@require_POST
@needs(EDIT_POLICY)
def set_default(request: HttpRequest) -> HttpResponse:
    """Set the effect for calls that no rule matches."""
    form = DefaultForm(request.POST)
    if not form.is_valid():
        return render_editable_policy(request, message="Choose deny, ask or allow.", status=422)
    form_data, ask = form.cleaned_data, dict(policy_draft.load_draft().get("default_ask") or {})
    ask.pop("allow_requester", None)
    ask |= {"allow_requester": True} if form_data["allow_requester"] else {}
    changes = {"default": form_data["default"], "default_ask": ask or None}
    policy_draft.update_draft_head(changes, author=request.user.get_username())
    return redirect("policy")


@require_POST
@needs(EDIT_POLICY)
def take_pack(request: HttpRequest, name: str) -> HttpResponse:
    """Replace the draft by a starter policy, perhaps with another default."""
    default = request.POST.get("default") or None
    if name not in PRESETS or default not in {None, "allow", "ask", "deny"}:
        raise Http404
    document = PRESETS[name].with_default(default)
    return _replace_draft(request, document, f"The draft is now the starter policy “{PRESETS[name].title}”.")


@require_POST
@needs(EDIT_POLICY)
@handle_unreadable_version
def copy_version(request: HttpRequest, number: int) -> HttpResponse:
    """Copy an older version to the draft, to review and activate it."""
    row = get_object_or_404(PolicyVersion, number=number)
    document = policy_store.load_document(row)
    return _replace_draft(request, document, f"The draft is a copy of version {number}.", row.text)


@require_POST
@needs(EDIT_POLICY)
def import_document(request: HttpRequest) -> HttpResponse:
    """Replace the draft by a file or a pasted document."""
    form = ImportForm(request.POST, request.FILES)
    if form.is_valid():
        try:
            text = form.cleaned_data["text"]
            return _replace_draft(request, form.cleaned_data["read"], "The draft is the imported document.", text)
        except PolicyError as refused:
            for finding in refused.findings[:20]:
                form.add_error(None, f"{finding.pointer or 'The document'}: {finding.message}")
    return render_editable_policy(request, import_form=form, status=422)


def _replace_draft(request: HttpRequest, document: dict[str, Any], message: str, text: str = "") -> HttpResponse:
    policy_draft.replace_draft(document, author=request.user.get_username(), text=text)
    messages.info(request, f"{message} Nothing changes until you activate it.")
    return redirect("policy")
