"""Models of the gate's answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.openapi import is_valid
from toolcards import gate


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("effect", ["allow", "ask", "deny"])
def test_real_decisions_fit_their_schema(source: Any, policy: Any, an_approver: Any, effect: str) -> None:
    policy({"default": effect})
    decision = gate.decide(source, gate.DecisionRequest(run="r", call_id="c", tool="bash", args={}))
    assert decision["decision"] == effect and is_valid("Decision", decision) == []
