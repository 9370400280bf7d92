"""An admin who is signed in."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from toolcards.gate import policy_draft


@pytest.fixture
def admin(a_person: Any, client: Client) -> Client:
    policy_draft.ensure_first_version()
    client.force_login(a_person("admin"))
    return client
