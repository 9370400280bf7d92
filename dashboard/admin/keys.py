"""Sources and agent keys in the admin: a secret is shown once; a key is revoked, never changed."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from dashboard.sources.forms import KeyForm
from toolcards.audit.trail import Act, write_acts
from toolcards.models import AgentKey, Source


@admin.register(Source)
class SourceAdmin(admin.ModelAdmin):
    """Connected agent programs."""

    list_display = ("name", "env", "owner", "seen_at", "created_at", "run_count")
    list_select_related = ("owner",)
    search_fields = ("name",)
    readonly_fields = ("created_at", "seen_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Source]:
        """Add the number of runs, in the same query."""
        rows: QuerySet[Source] = super().get_queryset(request).annotate(run_count=Count("runs"))
        return rows

    def save_model(self, request: HttpRequest, obj: Source, form: Any, change: bool) -> None:
        """Save, and record the change in the audit trail."""
        if change:
            obj.change(**{name: form.cleaned_data[name] for name in form.changed_data})
        else:
            obj.save()
            write_acts(
                Act("source.created", detail={"source": obj.name, "env": obj.env, "owner": str(obj.owner or "")})
            )

    @admin.display(description="runs", ordering="run_count")
    def run_count(self, source: Any) -> int:
        """Return the number of runs."""
        return int(source.run_count)


class AgentKeyForm(KeyForm, forms.ModelForm):
    """A new key: the name of the agent program, the scopes of the key, and its end."""

    class Meta:
        model = AgentKey
        fields: tuple[str, ...] = ()

    def save(self, commit: bool = True) -> AgentKey:
        """Do nothing: `save_model` writes."""
        key: AgentKey = self.instance
        return key

    def save_m2m(self) -> None:
        """Do nothing: a key has no relations."""


@admin.register(AgentKey)
class AgentKeyAdmin(admin.ModelAdmin):
    """Agent keys: created (the secret is shown once) and revoked, never changed."""

    form = AgentKeyForm
    list_display = ("prefix", "source", "scopes", "created_at", "used_at", "expires_at", "revoked_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter), "source")
    list_select_related = ("source",)
    search_fields = ("prefix", "source__name")
    actions = ("revoke",)
    _fields_of_existing = ("source", "prefix", "scopes", "created_at", "used_at", "expires_at", "revoked_at")

    def get_fields(self, request: HttpRequest, obj: AgentKey | None = None) -> tuple[str, ...]:
        """Return a form for a new key, read-only fields otherwise."""
        return ("name", "scopes", "expires_in") if obj is None else self._fields_of_existing

    def has_change_permission(self, request: HttpRequest, obj: AgentKey | None = None) -> bool:
        """Refuse: keys are revoked and replaced."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: AgentKey | None = None) -> bool:
        """Refuse: the log names them."""
        return False

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Return whether this person may revoke keys."""
        return request.user.has_perm("toolcards.change_agentkey")

    def save_model(self, request: HttpRequest, obj: AgentKey, form: Any, change: bool) -> None:
        """Issue the key; the secret exists only during this request."""
        key, obj.secret = form.issue()  # type: ignore[attr-defined]
        obj.__dict__.update({name: value for name, value in key.__dict__.items() if name != "_state"})
        obj._state.adding = False

    def response_add(self, request: HttpRequest, obj: AgentKey, post_url_continue: str | None = None) -> HttpResponse:
        """Show the secret once."""
        context = {
            **self.admin_site.each_context(request),
            "key": obj,
            "secret": getattr(obj, "secret", ""),
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/toolcards/agentkey/shown_once.html", context)

    @admin.action(description="Revoke selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[AgentKey]) -> None:
        """Revoke each key; open connections close within seconds."""
        count = queryset.filter(revoked_at=None).update(revoked_at=timezone.now())
        self.message_user(request, f"Revoked: {count}. Open connections close within seconds.")
