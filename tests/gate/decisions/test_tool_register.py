"""Announced tools: a changed one needs approval until an admin accepts it."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread
from django.test import Client

from tests.support.gated_calls import ALLOW, DECIDE, QUESTION
from toolcards.audit.rows import AuditRow
from toolcards.models import (
    SeenTool,
    Source,
)

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_changed_tool_needs_approval_until_an_admin_accepts_it(
    call: Any,
    policy: Any,
    an_approver: Any,
    a_person: Any,
) -> None:
    await in_thread(policy)({"rules": [ALLOW], "changed_tool": "ask"})
    first = {"tool": {"name": "bash", "schema_sha256": "a" * 64}}
    other = {"tool": {"name": "bash", "schema_sha256": "b" * 64}}
    assert (await call("POST", DECIDE, QUESTION | first))[1]["decision"] == "allow"
    decision = (await call("POST", DECIDE, QUESTION | other | {"call_id": "d"}))[1]
    assert (decision["decision"], decision["reason"]["code"]) == ("ask", "changed_tool")
    assert (await call("POST", DECIDE, QUESTION | {"call_id": "e"}))[1]["decision"] == "ask"  # silence is no proof
    row = await SeenTool.objects.aget(accepted_at=None)
    admin = await in_thread(a_person)("admin", "root")

    def accept() -> int:
        client = Client()
        client.force_login(admin)
        assert f"/sources/tools/{row.pk}/accept/" in client.get(f"/sources/{row.source_id}/").content.decode()
        return client.post(f"/sources/tools/{row.pk}/accept/").status_code

    assert await in_thread(accept)() == 302
    assert (await call("POST", DECIDE, QUESTION | other | {"call_id": "f"}))[1]["decision"] == "allow"
    assert await AuditRow.objects.filter(act__in=["tool.changed", "tool.accepted"]).acount() == 2


async def test_a_schema_that_a_run_announces_is_remembered(agent: Any, policy: Any, source: Source) -> None:
    await in_thread(policy)({"rules": [ALLOW | {"match": {"tool": ["deploy"]}}], "changed_tool": "deny"})
    for number, expected in enumerate(("allow", "deny")):
        tools = [{"name": "deploy", "inputSchema": {"type": "object", "maxProperties": 5 + number}}]
        async with agent(run=f"r{number}", mode="gate") as socket:
            await socket.say({"type": "run.started", "tools": tools})
            await socket.say({"type": "tool.input.available", "call_id": "c", "tool": "deploy", "input": {}})
            assert (await socket.hear("decision"))["decision"] == expected
