"""Keys in the admin: each secret is shown once."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.support.admin_pages import address
from toolcards.models import AgentKey

pytestmark = pytest.mark.django_db


def test_a_keys_secret_is_shown_once_and_kept_nowhere(admin: Client) -> None:
    answer = admin.post(address("agentkey", "add"), {"name": "robot", "scopes": ["ingest", "read"]})
    secret = answer.content.decode().split("data-secret>")[1].split("<")[0]
    key = AgentKey.objects.find_by_secret(secret)
    assert key is not None and key.scopes == "ingest read" and key.source.name == "robot"
    for url in (address("agentkey"), address("agentkey", "change", key.pk)):
        page = admin.get(url).content.decode()
        assert secret not in page and key.digest not in page
    admin.post(address("agentkey"), {"action": "revoke", "_selected_action": key.pk})
    assert AgentKey.objects.find_by_secret(secret) is None
