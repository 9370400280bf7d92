"""The end of a run by an agent's request."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards import gate
from toolcards.gate.agents import run_commands
from toolcards.gate.approvals.delivery import ClaimDelivery
from toolcards.gate.writer import group_commit
from toolcards.models import Source, ToolCall

pytestmark = pytest.mark.django_db
SECRET = "Zx9vK3qLm7pR"


def test_the_reason_a_run_ended_for_is_kept_without_secrets(a_run: Any, source: Source) -> None:
    run = a_run("run-1")
    group_commit.execute(run_commands.EndRun(source, "run-1", "error", f"failed: PASSWORD={SECRET}"))
    run.refresh_from_db()
    assert run.reason.startswith("failed: PASSWORD=‹secret ")


@pytest.mark.parametrize("handover", [0, 3600])
def test_an_approval_is_not_found_by_its_input_before_it_is_handed_over(
    handover: int, source: Source, policy: Any, an_approver: Any, ballot: Any, limits: Any
) -> None:
    limits(handover_seconds=handover)
    policy({"default": "ask"})
    answer = gate.decide(source, gate.DecisionRequest("r", "c", "bash", {"command": "ls"}))

    def find() -> Any:
        decision = group_commit.execute(run_commands.FindDecision(source, "r", "bash", {"command": "ls"}))
        return decision and decision["decision"]

    assert find() == "ask"
    gate.vote(an_approver, ballot(ToolCall.objects.get(), "approve"))
    assert find() is None
    group_commit.execute(ClaimDelivery(answer["approval"]["id"]))
    assert find() == "allow"
