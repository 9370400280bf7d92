"""Rules with their matches in recent calls."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import Client

from tests.support.policy_pages import PUSH
from toolcards import gate
from toolcards.gate import policy_draft
from toolcards.models import ToolCall

pytestmark = pytest.mark.django_db


def test_rules_tell_their_hits_what_they_would_have_said_and_when_they_are_quiet(
    admin: Client, policy: Any, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = {"id": "idle", "effect": "deny", "match": {"tool": ["x"]}}
    rules = [PUSH, {"id": "watching", "effect": "deny", "mode": "monitor"}, idle]
    policy({"default": "allow", "rules": rules})
    policy_draft.replace_draft({"v": 1, "default": "allow", "rules": rules}, author="a test")
    gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="Bash", args={"command": "git push"}))
    page = admin.get("/policy/").content.decode()
    assert "1 recent match" in page and 'data-would="1"' in page and "data-quiet" not in page
    now = time.time()
    monkeypatch.setattr("dashboard.policy.view_models.time.time", lambda: now + 40 * 86_400)
    page = admin.get("/policy/").content.decode()
    assert page.count("data-quiet") == 1 and "no match in 30 days" in page
    call = ToolCall.objects.get(call_id="c")
    assert "watching would have decided: deny" in admin.get(f"/calls/{call.public_id}/").content.decode()
