"""Numbers in addresses, queries and forms: one that cannot be ours finds nothing, and breaks no page."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from dashboard import url_helpers
from tests.repository.test_doors import PAGES, READ_BY_PEOPLE
from toolcards import gate
from toolcards.models import ToolCall

ODD = ["9" * 5000, "9" * 18, "9" * 25, "²", "٣", "1_0", "-1", "1.5", "NaN", "1e999", "+1", " 1"]
QUERIES = ["version", "before", "around", "after", "call", "from", "limit", "cursor", "wait", "days", "page", "id"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(a_person: Any, client: Client) -> Client:
    client.force_login(a_person("admin", "ada"))
    return client


@pytest.mark.parametrize("text", ODD)
def test_a_number_that_is_none_is_not_read_nothing(text: str) -> None:
    assert url_helpers.read_number(text) == (int(text) if text == "9" * 18 else None)
    assert url_helpers.read_public_id(f"{text}-1") == ((int(text), 1) if text == "9" * 18 else None)


@pytest.mark.parametrize("text", ODD)
def test_no_page_breaks_on_an_odd_number(admin: Client, a_call: Any, text: str) -> None:
    call: ToolCall = a_call("approval-requested")
    for address in sorted(READ_BY_PEOPLE | {page for page, (read, _) in PAGES.items() if read != "-"}):
        path = "/" + address.replace("<path:name>", call.run.name)
        path = re.sub("<[^>]+>", lambda _: quote(text), path)
        assert admin.get(path, dict.fromkeys(QUERIES, text)).status_code < 500, path


@pytest.mark.parametrize("text", ODD)
def test_an_exported_version_that_there_is_not_is_not_found(admin: Client, text: str) -> None:
    gate.activate({"v": 1, "default": "ask", "rules": []}, author="ann")
    assert admin.get("/policy/export/").status_code == 200
    assert admin.get("/policy/export/", {"version": text}).status_code == 404


@pytest.mark.parametrize("text", ODD)
def test_an_odd_revision_in_the_admin_is_a_stale_vote(admin: Client, a_call: Any, text: str) -> None:
    call: ToolCall = a_call("approval-requested")
    ask = call.as_card().approval
    assert ask is not None
    fields = {"action": "approve", "_selected_action": ask.id, f"rev-{ask.id}": text, f"sha-{ask.id}": ask.args_sha256}
    assert admin.post("/admin/toolcards/approval/", fields).status_code in {200, 302}
    assert ToolCall.objects.get(pk=call.pk).state == "approval-requested"
