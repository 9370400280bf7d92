"""People and groups: Django's own pages, with what the site asks of its own: a fresh sign-in, and an admin left."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from dashboard import people
from dashboard.views.emergency import fresh

ALL_RIGHTS = ("is_superuser", "user_permissions")


class KeptForm(UserChangeForm):
    """Django's form, which never leaves a server without an admin."""

    def clean(self) -> dict[str, Any]:
        """Refuse to take away what makes this person the only admin."""
        said = super().clean() or self.cleaned_data
        people.lock()
        if people.only_admin(User.objects.get(pk=self.instance.pk)) and not self._keeps(said):
            raise ValidationError("This is the only admin. Make somebody else admin first.")
        return dict(said)

    def _keeps(self, said: dict[str, Any]) -> bool:
        above = said.get("is_superuser", self.instance.is_superuser)
        named = {group.name for group in said.get("groups", ())}
        return bool(said.get("is_active", True) and (above or "admin" in named))


class _Fresh:
    """Read at any time, changed only shortly after signing in."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        """With a fresh sign-in."""
        return fresh(request) and super().has_add_permission(request, *args)  # type: ignore[misc]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """With a fresh sign-in."""
        return fresh(request) and super().has_change_permission(request, obj)  # type: ignore[misc]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """With a fresh sign-in; never the only admin, nor the roles themselves."""
        kept = (isinstance(obj, User) and people.only_admin(obj)) or (
            isinstance(obj, Group) and obj.name in people.ROLES
        )
        return not kept and fresh(request) and super().has_delete_permission(request, obj)  # type: ignore[misc]

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Nobody is deleted by the dozen."""
        actions = super().get_actions(request)  # type: ignore[misc]
        return {name: action for name, action in actions.items() if name != "delete_selected"}


admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class PersonAdmin(_Fresh, UserAdmin):
    """People. Only who has all rights gives all rights, or single ones."""

    form = KeptForm

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Rights beside the roles are for superusers to give."""
        return (*super().get_readonly_fields(request, obj), *(() if request.user.is_superuser else ALL_RIGHTS))


@admin.register(Group)
class RoleAdmin(_Fresh, GroupAdmin):
    """Roles and groups; rules name them, so the roles' own names stay."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """A role keeps its name."""
        named = ("name",) if obj is not None and obj.name in people.ROLES else ()
        return (*super().get_readonly_fields(request, obj), *named)
