"""Results without a claim."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async as in_thread

from tests.support.gated_calls import ASK, DECIDE, QUESTION
from toolcards.audit.rows import AuditRow
from toolcards.models import (
    ToolCall,
)

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_result_without_a_claim_is_ungoverned(call: Any, policy: Any, an_approver: Any) -> None:
    await in_thread(policy)({"rules": [ASK]})
    await call("POST", DECIDE, QUESTION)
    assert (await call("POST", "/api/v1/calls/c/result", {"run": "r", "outcome": "ok"}))[0] == 200
    assert "ungoverned" in dict((await ToolCall.objects.aget()).as_card().anomalies)
    assert await AuditRow.objects.filter(act="ungoverned").aexists()
