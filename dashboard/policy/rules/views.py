"""The rules of the draft: create, change, enable and remove them."""

from __future__ import annotations

import itertools
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.accounts.access import EDIT_POLICY, needs
from dashboard.policy import dry_run, view_models
from dashboard.policy.rules import call_rule
from dashboard.policy.rules.form import RuleForm, rule_to_fields
from dashboard.policy.views import handle_unreadable_version, render_editable_policy
from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.language.document import PolicyError
from toolcards.gate import policy_draft
from toolcards.models import DraftRule

_RULE_CHANGED = "This rule has changed since you opened it. Save again to replace it with yours."
_RULE_GONE = "This rule is no longer in the draft. Save again to add it."


@require_http_methods(["GET", "POST"])
@needs(EDIT_POLICY)
def new_rule(request: HttpRequest) -> HttpResponse:
    """Create a rule, optionally from a call."""
    if request.method == "POST":
        return _save_rule(request, RuleForm(request.POST), {"new": True})
    call = dry_run.find_call(request.GET.get("from", ""))
    if call is None:
        form = RuleForm(initial=_read_initial_values(request))
        return _save_rule(request, form, {"new": True, "examples": dry_run.list_recent_examples()})
    rule = call_rule.build_rule(call, call.as_card(), request.GET.dict())
    rule["id"] = _find_free_name(rule["id"])
    form = RuleForm(initial=rule_to_fields(rule))
    return _save_rule(request, form, {"new": True, "sentence": view_models.describe_rule(rule)})


@require_http_methods(["GET", "POST"])
@needs(EDIT_POLICY)
def edit_rule(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Change a rule of the draft."""
    if request.method == "POST":
        return _replace_rule(request, rule_id)
    row = get_object_or_404(DraftRule, rule_id=rule_id)
    rule = policy_draft.build_rule_document(row)
    form = RuleForm(initial=rule_to_fields(rule) | {"based_on": digest(rule)}, instead_of=rule_id)
    return _save_rule(request, form, {"rule": row})


def _replace_rule(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Save the rule, unless it has changed or gone since the page was opened: then keep what the person entered."""
    posted_fields = request.POST.copy()
    row = DraftRule.objects.filter(rule_id=rule_id).first()
    current = digest(policy_draft.build_rule_document(row)) if row else ""
    based_on, posted_fields["based_on"] = posted_fields.get("based_on") or current, current
    form = RuleForm(posted_fields, instead_of=rule_id if row else "")
    if row is None:
        context = {"form": form, "new": True, "action": reverse("rule-new"), "error": _RULE_GONE}
        return render(request, "policy/rule.html", context, status=409)
    if based_on != current:
        return render(request, "policy/rule.html", {"form": form, "rule": row, "error": _RULE_CHANGED}, status=409)
    return _save_rule(request, form, {"rule": row})


def _save_rule(request: HttpRequest, form: RuleForm, context: dict[str, Any]) -> HttpResponse:
    if form.is_bound and form.is_valid():
        form.save(request.user.get_username())
        messages.success(request, "Saved. Activate to apply.")
        return redirect("policy")
    return render(request, "policy/rule.html", {"form": form} | context, status=422 if form.is_bound else 200)


def _find_free_name(name: str) -> str:
    """Return the name, with a number if a rule of the draft has it."""
    used_names = set(DraftRule.objects.filter(rule_id__startswith=name).values_list("rule_id", flat=True))
    candidates = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(candidate for candidate in candidates if candidate not in used_names)


def _read_initial_values(request: HttpRequest) -> dict[str, Any]:
    """Return the form's values in a link's query.

    For example ?tool=Bash&effect=ask&path=/command&op=cmd&value=git+push.
    """
    initial: dict[str, Any] = {
        name: request.GET[name] for name in ("effect", "path", "op", "value") if name in request.GET
    }
    return initial | {name: request.GET.getlist(name) for name in ("tool", "kind") if name in request.GET}


@require_POST
@needs(EDIT_POLICY)
def switch_rule(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Enable or disable a rule of the draft."""
    if not policy_draft.set_rule_enabled(rule_id, request.POST.get("to") == "on", author=request.user.get_username()):
        raise Http404
    return redirect("policy")


@require_POST
@needs(EDIT_POLICY)
def set_effect(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Change the effect of a draft rule; refuse one without consequence."""
    row = get_object_or_404(DraftRule, rule_id=rule_id)
    rule = policy_draft.build_rule_document(row) | {"effect": request.POST.get("effect", "")}
    try:
        policy_draft.check_rule(rule, instead_of=rule_id)
    except PolicyError as refused:
        message = f"{rule_id} was not changed: {refused.findings[0].message}"
        return render_editable_policy(request, message=message, status=422)
    beaten = policy_draft.find_rule_winners(rule, instead_of=rule_id)
    if beaten is not None:
        winners = ", ".join(winner.id for winner in beaten.winners)
        message = f"{rule_id} was not changed: it would have no effect, since {winners} would win each time."
        return render_editable_policy(request, message=message, status=422)
    policy_draft.save_rule(rule, author=request.user.get_username(), instead_of=rule_id)
    return redirect("policy")


@require_POST
@needs(EDIT_POLICY)
@handle_unreadable_version
def restore_rule(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Revoke what the draft changes about a rule."""
    if not policy_draft.restore_rule(rule_id, author=request.user.get_username()):
        raise Http404
    return redirect("policy")


@require_POST
@needs(EDIT_POLICY)
def remove_rule(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Remove a rule from the draft."""
    if not policy_draft.remove_rule(rule_id, author=request.user.get_username()):
        raise Http404
    return redirect("policy")
