"""The policy in the admin: the draft with the site's form and checks, and earlier versions."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from dashboard.admin.log import ReadOnlyAdmin, indent_json
from dashboard.policy.rules.argument_rows import build_fields, count_drawn_rows, count_rows
from dashboard.policy.rules.form import RuleForm, rule_to_fields
from toolcards.gate import policy_draft, policy_store
from toolcards.models import DraftRule, PolicyVersion


class DraftRuleForm(RuleForm, forms.ModelForm):
    """The site's rule form within the admin."""

    class Meta:
        model = DraftRule
        fields: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        row = kwargs.get("instance")
        if row is not None and row.pk:
            kwargs["initial"] = rule_to_fields(policy_draft.build_rule_document(row)) | (kwargs.get("initial") or {})
            kwargs["instead_of"] = row.rule_id
        super().__init__(*args, **kwargs)

    def save(self, commit: bool = True) -> DraftRule:  # type: ignore[override]  # the admin's forms have this one
        """Do nothing: `save_model` writes."""
        row: DraftRule = self.instance
        return row

    def save_m2m(self) -> None:
        """Do nothing: a rule has no relations."""


@admin.register(DraftRule)
class DraftRuleAdmin(admin.ModelAdmin):
    """The rules of the draft, with the site's form and checks."""

    form = DraftRuleForm
    list_display = ("rule_id", "effect", "sentence", "enabled", "updated_at", "updated_by")
    list_filter = ("effect", "enabled")
    search_fields = ("rule_id", "body")
    actions = ("switch_on", "switch_off")
    change_list_template = "admin/toolcards/draftrule/change_list.html"

    def get_fields(self, request: HttpRequest, obj: DraftRule | None = None) -> Any:
        """Return the fields, with rows that have values and spare ones."""
        last_row = count_rows(rule_to_fields(policy_draft.build_rule_document(obj)) if obj else request.POST)
        hidden_fields = build_fields(count_drawn_rows(max(last_row, count_rows(request.POST))) + 1)
        return [name for name in RuleForm.base_fields if name not in hidden_fields]

    @admin.display(description="in words")
    def sentence(self, rule: DraftRule) -> str:
        """Return the rule as a sentence."""
        return policy_draft.describe_rule(rule)

    def save_model(self, request: HttpRequest, obj: DraftRule, form: Any, change: bool) -> None:
        """Save the rule through the draft's own function."""
        rule = policy_draft.save_rule(form.rule, author=request.user.get_username(), instead_of=form.instead_of)
        obj.__dict__.update({name: value for name, value in rule.__dict__.items() if name != "_state"})
        obj._state.adding = False

    def delete_model(self, request: HttpRequest, obj: DraftRule) -> None:
        """Remove the rule through the draft's own function."""
        policy_draft.remove_rule(obj.rule_id, author=request.user.get_username())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[DraftRule]) -> None:
        """Remove each rule through the draft's own function."""
        for rule in queryset:
            policy_draft.remove_rule(rule.rule_id, author=request.user.get_username())

    @admin.action(description="Turn on", permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[DraftRule]) -> None:
        """Enable each rule."""
        for rule in queryset:
            policy_draft.set_rule_enabled(rule.rule_id, True, author=request.user.get_username())

    @admin.action(description="Turn off", permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[DraftRule]) -> None:
        """Disable each rule."""
        for rule in queryset:
            policy_draft.set_rule_enabled(rule.rule_id, False, author=request.user.get_username())


@admin.register(PolicyVersion)
class PolicyVersionAdmin(ReadOnlyAdmin):
    """Every policy version: read-only, or copied to the draft."""

    list_display = ("number", "active", "author", "note", "created_at", "sha256")
    list_filter = ("active",)
    search_fields = ("author", "note", "sha256")
    actions = ("copy_to_draft",)
    fields = ("number", "active", "author", "note", "created_at", "sha256", "shown_document")
    change_list_template = "admin/toolcards/draftrule/change_list.html"

    def has_edit_permission(self, request: HttpRequest) -> bool:
        """Return whether this person may change the policy."""
        return request.user.has_perm("toolcards.edit_policy")

    @admin.display(description="document")
    def shown_document(self, version: PolicyVersion) -> str:
        """Return the complete document."""
        return indent_json(version.document)

    @admin.action(description="Copy to the draft", permissions=["edit"])
    def copy_to_draft(self, request: HttpRequest, queryset: QuerySet[PolicyVersion]) -> None:
        """Copy the selected version to the draft."""
        if queryset.count() != 1:
            self.message_user(request, "Select exactly one version.", messages.WARNING)
            return
        version = queryset.get()
        try:
            document = policy_store.load_document(version)
            policy_draft.replace_draft(document, author=request.user.get_username(), text=version.text)
        except policy_store.UnreadablePolicy as error:
            self.message_user(request, f"Version {error.number} cannot be read by this release.", messages.WARNING)
            return
        link = format_html('<a href="{}">Review and activate it</a>', reverse("policy"))
        self.message_user(request, format_html("The draft is a copy of version {}. {}.", version.number, link))
