"""Fixtures for the tests of pages and live sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client


@pytest.fixture
def signed_in(a_person: Callable[..., Any]) -> Client:
    client = Client()
    client.force_login(a_person("approver", "eve"))
    return client


@pytest.fixture
def viewer(client: Client, a_person: Callable[..., Any]) -> Client:
    client.force_login(a_person("viewer", "vera"))
    return client
