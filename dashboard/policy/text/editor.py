"""The draft as YAML text, with every finding next to its line."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboard.accounts.access import EDIT_POLICY, needs
from dashboard.policy.text import yaml_io
from dashboard.policy.text.yaml_comments import write_with_comments
from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.language.document import PolicyError, PolicyFinding
from toolcards.gate import policy_draft, policy_store


class TextForm(forms.Form):
    """The draft as YAML; `based_on` identifies the draft that the person edited."""

    text = forms.CharField(max_length=512 * 1024, strip=False)
    based_on = forms.CharField(max_length=64, required=False)
    what = forms.ChoiceField(choices=[("save", "Save"), ("check", "Check")], required=False)


@require_http_methods(["GET", "POST"])
@needs(EDIT_POLICY)
def edit_text(request: HttpRequest) -> HttpResponse:
    """Show the draft as YAML; POST checks it, and `save` stores it."""
    text = write_with_comments(policy_draft.load_draft(), policy_store.load_draft_text())
    current = digest(text)  # with the comments: they are people's work, too
    if request.method == "GET":
        return _render_editor(request, {"text": text, "based_on": current}, [])
    form = TextForm(request.POST)
    if form.is_valid():
        return _handle_text(request, form.cleaned_data, current)
    message = "; ".join(str(error) for errors in form.errors.values() for error in errors)
    return _render_editor(
        request, {"text": request.POST.get("text", ""), "based_on": current, "error": message}, [], 422
    )


def _handle_text(request: HttpRequest, form_data: dict[str, Any], current: str) -> HttpResponse:
    context: dict[str, Any] = {"text": form_data["text"], "based_on": form_data["based_on"]}
    read = None
    try:
        read = yaml_io.read_yaml(form_data["text"])
        warnings = policy_store.check_document(read.value)
    except PolicyError as refused:
        return _render_editor(request, context, yaml_io.list_remarks(refused, form_data["text"], read), 422)
    if form_data["what"] == "check":
        return _render_editor(request, context | {"checked": True}, _build_warnings(warnings, form_data["text"], read))
    if form_data["based_on"] != current:
        message = "The draft has changed since you opened this text. Save again to replace it with yours."
        return _render_editor(request, context | {"based_on": current, "error": message}, [], 409)
    policy_draft.replace_draft(read.value, author=request.user.get_username(), text=form_data["text"])
    messages.success(request, "Saved to draft. Activate to apply.")
    return redirect("policy")


def _build_warnings(warnings: list[PolicyFinding], text: str, read: yaml_io.YamlDocument) -> list[yaml_io.Remark]:
    return yaml_io.list_remarks(PolicyError(warnings), text, read)


def _render_editor(
    request: HttpRequest, context: dict[str, Any], remarks: list[yaml_io.Remark], status: int = 200
) -> HttpResponse:
    return render(request, "policy/text.html", context | {"remarks": remarks, "refused": status == 422}, status=status)
