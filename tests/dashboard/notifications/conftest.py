"""A person who switches push notifications on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from toolcards.notifications import subscriptions


@pytest.fixture(autouse=True)
def _nobody_yet(db: None) -> Iterator[None]:
    subscriptions.clear_cache()
    yield
    subscriptions.clear_cache()


@pytest.fixture
def ann(client: Client, an_approver: Any) -> Client:
    """A browser that signed in on the page, so that it has the cookie of a browser."""
    assert client.post("/login/", {"username": "ann", "password": "a password for tests"}).status_code == 302
    return client
