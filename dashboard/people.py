"""Who may do what: three roles, each a Django group that holds at least these permissions."""

from collections.abc import Iterable

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction

ROLES = ("viewer", "approver", "admin")

# What admins may change by hand. All else is written by the gate, and only read here.
KEPT_BY_ADMINS = ("source", "agentkey", "draft", "draftrule", "webhook")
STOCK = ("add_", "change_", "delete_", "view_")


def ensure_roles() -> None:
    """Make the three groups, and give them what newer versions have added."""
    for role in ROLES:
        group, _ = Group.objects.get_or_create(name=role)
        group.permissions.add(*_permissions(role))


def create(name: str, *, role: str, password: str = "") -> User:
    """Make a person; without a password they sign in by link. Raises ValueError if the name is taken."""
    users = get_user_model().objects
    with transaction.atomic():
        if users.filter(username=name).exists():
            raise ValueError(f"there is a person called {name} already")
        person = users.create_user(username=name, password=password or None)
        give(person, role)
    return person


def give(person: User, role: str) -> None:
    """Make this the person's one role."""
    ensure_roles()
    person.groups.remove(*Group.objects.filter(name__in=ROLES))
    person.groups.add(Group.objects.get(name=role))
    person.is_staff = role == "admin"
    person.save(update_fields=["is_staff"])


def role_of(person: User) -> str:
    """Return the person's role; the empty string without one."""
    held = set(person.groups.values_list("name", flat=True))
    return next((role for role in reversed(ROLES) if role in held), "")


def _permissions(role: str) -> Iterable[Permission]:
    ours = Permission.objects.filter(content_type__app_label="toolcards").select_related("content_type")
    return [permission for permission in ours if _holds(role, permission)] + _over_people(role)


def _holds(role: str, permission: Permission) -> bool:
    code, table = permission.codename, permission.content_type.model
    if code.startswith("view_"):
        return role == "admin" or table not in ("agentkey", "auditrow", "audithead")
    if code == "vote":
        return role in ("approver", "admin")
    if code == "delete_source":
        return False  # its runs and their log would go with it
    if code.startswith(STOCK):
        return role == "admin" and table in KEPT_BY_ADMINS
    return role == "admin"  # rights of our own making, for example to edit policy


def _over_people(role: str) -> list[Permission]:
    """Admins add and switch off people, and nobody is deleted: the log names them."""
    if role != "admin":
        return []
    codes = ("add_user", "change_user", "view_user", "view_group")
    return list(Permission.objects.filter(content_type__app_label="auth", codename__in=codes))
