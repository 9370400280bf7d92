"""Numbers in addresses, queries and forms: one that cannot be ours finds nothing, and breaks no page."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from dashboard import url_helpers
from tests.support.odd_numbers import ODD_NUMBERS
from toolcards import gate
from toolcards.models import ToolCall

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("text", ODD_NUMBERS)
def test_an_invalid_number_is_read_as_none(text: str) -> None:
    assert url_helpers.read_number(text) == (int(text) if text == "9" * 18 else None)
    assert url_helpers.read_public_id(f"{text}-1") == ((int(text), 1) if text == "9" * 18 else None)


@pytest.mark.parametrize("text", ODD_NUMBERS)
def test_an_exported_version_that_there_is_not_is_not_found(admin: Client, text: str) -> None:
    gate.activate({"v": 1, "default": "ask", "rules": []}, author="ann")
    assert admin.get("/policy/export/").status_code == 200
    assert admin.get("/policy/export/", {"version": text}).status_code == 404


@pytest.mark.parametrize("text", ODD_NUMBERS)
def test_an_odd_revision_in_the_admin_is_a_stale_vote(admin: Client, a_call: Any, text: str) -> None:
    call: ToolCall = a_call("approval-requested")
    ask = call.as_card().approval
    assert ask is not None
    fields = {"action": "approve", "_selected_action": ask.id, f"rev-{ask.id}": text, f"sha-{ask.id}": ask.args_sha256}
    assert admin.post("/admin/toolcards/approval/", fields).status_code in {200, 302}
    assert ToolCall.objects.get(pk=call.pk).state == "approval-requested"
