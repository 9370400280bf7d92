"""People and groups in the admin: Django's pages, with a fresh sign-in and a remaining admin required."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import AdminPasswordChangeForm, UserChangeForm
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from dashboard.accounts import roles
from dashboard.accounts.audit_signals import save_person
from dashboard.accounts.sign_in_log import is_freshly_signed_in

SUPERUSER_FIELDS = ("is_superuser", "user_permissions")


class ProtectedForm(UserChangeForm):
    """Django's form; at least one admin remains, and no two people share a name."""

    def clean(self) -> dict[str, Any]:
        """Refuse changes that leave the server without an admin."""
        form_data = super().clean() or self.cleaned_data
        roles.lock_people()
        other_people = User.objects.exclude(pk=self.instance.pk)
        if other_people.filter(username__iexact=form_data.get("username", "")).exists():
            raise ValidationError({"username": "Another account already has this name. Letter case is ignored."})
        if roles.is_only_admin(User.objects.get(pk=self.instance.pk)) and not self._keeps(form_data):
            raise ValidationError("This is the only admin. Make someone else admin first.")
        return dict(form_data)

    def _keeps(self, form_data: dict[str, Any]) -> bool:
        above = form_data.get("is_superuser", self.instance.is_superuser)
        group_names = {group.name for group in form_data.get("groups", ())}
        return bool(form_data.get("is_active", True) and (above or "admin" in group_names))


class RecordedPasswordForm(AdminPasswordChangeForm):
    """Django's form; its page, unlike the other ones, has no transaction."""

    def save(self, commit: bool = True) -> User:
        """Save the new password with its row of the audit trail."""
        person: User = super().save(commit=False)
        if commit:
            save_person(person)
        return person


if TYPE_CHECKING:
    _ModelAdmin = admin.ModelAdmin
else:
    _ModelAdmin = object


class _FreshSignInAdmin(_ModelAdmin):
    """Readable at any time, changed only shortly after signing in; superusers only by superusers."""

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        """Require a fresh sign-in."""
        return is_freshly_signed_in(request) and super().has_add_permission(request, *args)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Require a fresh sign-in."""
        return (
            _is_within_reach(request, obj)
            and is_freshly_signed_in(request)
            and super().has_change_permission(request, obj)
        )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Require a fresh sign-in; refuse for the only admin and for roles."""
        is_protected = (isinstance(obj, User) and roles.is_only_admin(obj)) or (
            isinstance(obj, Group) and obj.name in roles.ROLES
        )
        may = not is_protected and _is_within_reach(request, obj) and is_freshly_signed_in(request)
        return may and super().has_delete_permission(request, obj)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Remove the action that deletes many people at once."""
        actions = super().get_actions(request)
        return {name: action for name, action in actions.items() if name != "delete_selected"}


def _is_within_reach(request: HttpRequest, obj: Any) -> bool:
    """Return whether this admin may change the person, or the group and its members."""
    if isinstance(obj, User):
        return roles.can_change(request.user, obj)  # type: ignore[arg-type]
    if isinstance(obj, Group) and not request.user.is_superuser:
        return not obj.user_set.filter(is_superuser=True).exists()
    return True


admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class PersonAdmin(_FreshSignInAdmin, UserAdmin):
    """People. Only superusers give all rights or single ones."""

    form = ProtectedForm
    change_password_form = RecordedPasswordForm

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Let only superusers give rights other than roles."""
        return (*super().get_readonly_fields(request, obj), *(() if request.user.is_superuser else SUPERUSER_FIELDS))


@admin.register(Group)
class RoleAdmin(_FreshSignInAdmin, GroupAdmin):
    """Roles and groups. Rules name them, so the names of roles cannot be changed."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Make the name of a role read-only."""
        name_field = ("name",) if obj is not None and obj.name in roles.ROLES else ()
        return (*super().get_readonly_fields(request, obj), *name_field)
