"""People of tests: how they sign in, and what the audit trail has of it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from toolcards.audit.rows import AuditRow

PASSWORD = "a password for tests"
HERE = "127.0.0.1"
SESSION, DEVICES = settings.SESSION_COOKIE_NAME, settings.DEVICE_COOKIE_NAME


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
