"""Roles: three Django groups with their permissions, and the people who have them."""

import hashlib
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet

from dashboard.accounts import audit_signals, sign_in_links

ROLES = ("viewer", "approver", "admin")

# Tables that admins may change. The gate writes all others, which are read-only here.
ADMIN_TABLES = ("source", "agentkey", "draft", "draftrule", "webhook")
MODEL_PERMISSIONS = ("add_", "change_", "delete_", "view_")
# Admins add and deactivate people. They cannot delete them, because the log names them.
PEOPLE_PERMISSIONS = ("add_user", "change_user", "view_user", "view_group")


class LastAdmin(Exception):
    """The last admin cannot be removed."""


class StalePerson(Exception):
    """Someone else has changed the person in the meantime."""


class NotASuperuser(Exception):
    """Only a superuser, or the command line, changes a superuser."""


@transaction.atomic
def ensure_roles() -> None:
    """Create the three groups with their permissions, also those of newer versions."""
    rights = list(Permission.objects.values_list("pk", "content_type__app_label", "content_type__model", "codename"))
    stored_rights = Group.objects.filter(name__in=ROLES).values_list("name", "permissions")
    present: dict[str, set[int]] = {}
    for name, right in stored_rights:
        present.setdefault(name, set()).add(right)
    for role in ROLES:
        lacking = {pk for pk, *right in rights if _holds_permission(role, *right)} - present.get(role, set())
        if lacking or role not in present:  # else the three are complete, as they are after the first start
            group, _ = Group.objects.get_or_create(name=role)
            group.permissions.add(*lacking)


# ---------------------------------------------------------------- changing people; each is one row of the audit trail


def create_person(name: str, *, role: str, password: str = "", groups: Collection[str] = ()) -> User:
    """Create a person.

    Raises ValueError for a name that is invalid or in use.
    Without a password they sign in by link.
    """
    users = get_user_model()
    name = users.normalize_username(name)  # normalized as on sign-in, so that one name is one person
    try:
        users._meta.get_field("username").run_validators(name)  # rejects names of groups
    except ValidationError as wrong:
        raise ValueError(" ".join(wrong.messages)) from None
    with transaction.atomic():
        lock_people()
        if namesake := users.objects.filter(username__iexact=name).first():
            raise ValueError(f"a person named {namesake.get_username()} already exists")
        with audit_signals.record_as_one_act("person.created", name):
            person = users.objects.create_user(username=name, password=password or None)
            _set_groups(person, role, groups)
    return person


def assign_role(person: User, role: str) -> None:
    """Set the person's role from the command line; raises LastAdmin."""
    with _require_remaining_admin(), audit_signals.record_as_one_act("person.changed", person.get_username()):
        _set_groups(person, role, list_other_groups(person))


def change_person(person: User, *, role: str, groups: Collection[str], seen_digest: str, editor: User) -> None:
    """Set the person's role and other groups; missing groups are created.

    Raises LastAdmin, StalePerson, NotASuperuser.
    """
    with _require_remaining_admin(), audit_signals.record_as_one_act("person.changed", person.get_username()):
        _reload_unchanged(person, seen_digest, editor)
        _set_groups(person, role, groups)


def create_sign_in_link(person: User, base: str, life: int, *, seen_digest: str, editor: User) -> str:
    """Return a new sign-in link; raises StalePerson (also if inactive), NotASuperuser."""
    with transaction.atomic():
        lock_people()
        _reload_unchanged(person, seen_digest, editor)
        if not person.is_active:
            raise StalePerson
        return sign_in_links.make_link(person, base, life)


def set_active(person: User, active: bool, *, seen_digest: str, editor: User) -> None:
    """Activate or deactivate the person; their open pages end within seconds.

    Raises LastAdmin, StalePerson, NotASuperuser.
    """
    with _require_remaining_admin(), audit_signals.record_as_one_act("person.changed", person.get_username()):
        _reload_unchanged(person, seen_digest, editor)
        person.is_active = active
        person.save(update_fields=["is_active"])
        if not active:
            sign_in_links.void_links(person)


def _set_groups(person: User, role: str, groups: Collection[str]) -> None:
    ensure_roles()
    person.groups.set([Group.objects.get_or_create(name=name)[0] for name in {role, *groups} if name])
    person.is_staff = role == "admin"
    person.is_superuser = person.is_superuser and role == "admin"
    person.save(update_fields=["is_staff", "is_superuser"])


@contextmanager
def _require_remaining_admin() -> Iterator[None]:
    """Roll back if no admin would remain; raises LastAdmin."""
    with transaction.atomic():
        lock_people()
        had = list_admins().exists()
        yield
        if had and not list_admins().exists():
            raise LastAdmin


def lock_people() -> None:
    """Lock changes of people until the transaction ends.

    If two admins deactivate each other at the same time, the second one fails.
    """
    list(Group.objects.select_for_update().filter(name="admin"))


def _reload_unchanged(person: User, seen_digest: str, editor: User) -> None:
    """Reload the person under the lock; raises NotASuperuser or StalePerson."""
    person.refresh_from_db()
    if not can_change(editor, person):
        raise NotASuperuser
    if seen_digest != compute_state_digest(person):
        raise StalePerson


# ---------------------------------------------------------------- looking at people


def can_change(editor: User, person: User) -> bool:
    """Return whether the editor may change this person: only superusers change superusers."""
    return editor.is_superuser or not person.is_superuser


def list_admins() -> QuerySet[User]:
    """Return the active people with the role admin or all rights."""
    is_admin = Q(is_superuser=True) | Q(groups__name="admin")
    return get_user_model().objects.filter(is_admin, is_active=True).distinct()


def is_only_admin(person: User) -> bool:
    """Return whether this is the only admin."""
    return not list_admins().exclude(pk=person.pk).exists() and list_admins().filter(pk=person.pk).exists()


def get_role(person: User) -> str:
    """Return the person's role, "" without one; superusers are admins."""
    names = {group.name for group in person.groups.all()}
    return "admin" if person.is_superuser else next((role for role in reversed(ROLES) if role in names), "")


def list_other_groups(person: User) -> list[str]:
    """Return the person's groups other than roles, sorted."""
    return sorted(group.name for group in person.groups.all() if group.name not in ROLES)


def compute_state_digest(person: User) -> str:
    """Return a digest of what pages can change of a person."""
    values = [person.pk, person.is_active, person.is_superuser, sorted(group.name for group in person.groups.all())]
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


def _holds_permission(role: str, app: str, table: str, code: str) -> bool:
    if app != "toolcards":
        return role == "admin" and app == "auth" and code in PEOPLE_PERMISSIONS
    if code.startswith("view_"):
        return role == "admin" or table not in ("agentkey", "auditrow", "audithead")
    if code == "vote":
        return role in ("approver", "admin")
    if code == "delete_source":
        return False  # deletes its runs and their log as well
    if code.startswith(MODEL_PERMISSIONS):
        return role == "admin" and table in ADMIN_TABLES
    return role == "admin"  # permissions that Toolcards defines, for example to edit policy
