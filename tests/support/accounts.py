"""People of tests: how they sign in, and what the audit trail has of it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.test import Client

from dashboard.accounts.audit_signals import record_as_one_act
from toolcards.audit.rows import AuditRow

PASSWORD = "a password for tests"
HERE = "127.0.0.1"
SESSION, DEVICES = settings.SESSION_COOKIE_NAME, settings.DEVICE_COOKIE_NAME


def write_person(name: str, role: str) -> User:
    """Write the rows that `roles.create_person` writes, without its checks, which took a fifth of many tests."""
    person = User(username=name, password=make_password(PASSWORD), is_staff=role == "admin")
    with record_as_one_act("person.created", name):
        User.objects.bulk_create([person])
        memberships = [User.groups.through(user=person, group=group) for group in Group.objects.filter(name=role)]
        User.groups.through.objects.bulk_create(memberships)
    return person


def read_last(act: str) -> AuditRow:
    return AuditRow.objects.filter(act=act).latest("seq")


def read_details(act: str) -> list[dict[str, Any]]:
    return [row.details for row in AuditRow.objects.filter(act=act).order_by("seq")]


def in_admin(person: User, **changed: Any) -> dict[str, Any]:
    """What the Django admin's form of a person sends."""
    fields = {
        "username": person.username, "is_active": "on" if person.is_active else "",
        "is_staff": "on" if person.is_staff else "", "is_superuser": "on" if person.is_superuser else "",
        "groups": list(person.groups.values_list("pk", flat=True)), "date_joined_0": "2026-01-01",
        "date_joined_1": "00:00:00",
    } | changed  # fmt: skip
    return {name: value for name, value in fields.items() if value != ""}


def sign_in(client: Client, name: str = "bea", password: str = PASSWORD, address: str = HERE, **more: str) -> Any:
    return client.post("/login/", {"username": name, "password": password, **more}, REMOTE_ADDR=address)
