"""Fixtures for the tests of pages and live sockets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tests.support.accounts import PASSWORD


@pytest.fixture
def signed_in(a_person: Callable[..., Any]) -> Client:
    client = Client()
    client.force_login(a_person("approver", "eve"))
    return client


@pytest.fixture
def viewer(client: Client, a_person: Callable[..., Any]) -> Client:
    client.force_login(a_person("viewer", "vera"))
    return client


@pytest.fixture
def admin(a_person: Callable[..., Any], client: Client) -> Client:
    """The only admin, who has just signed in."""
    client.force_login(a_person("admin"))
    return client


@pytest.fixture
def tired(admin: Client) -> Client:
    """The same, whose sign-in is an hour old."""
    User.objects.filter(username="a-admin").update(last_login=timezone.now() - timedelta(hours=1))
    return admin


@pytest.fixture
def boss(db: None) -> Client:
    """A superuser, called boss."""
    client = Client()
    client.force_login(User.objects.create_superuser("boss", password=PASSWORD))
    return client
