"""An approval as JSON: the risk while it waits, and the agent's questions with their options."""

from __future__ import annotations

from typing import Any

import pytest

from toolcards import gate
from toolcards.models import Approval
from toolcards.transports.approval_json import serialize_approval

pytestmark = pytest.mark.django_db


def serialize() -> dict[str, Any]:
    row = Approval.objects.select_related("run__source", "call").get()
    return serialize_approval(row, row.call.as_shown_card())


@pytest.mark.parametrize(("command", "level"), [("rm -rf /srv", "high"), ("git push", "medium")])
def test_the_risk_is_named_while_the_call_waits(
    a_call: Any, an_approver: Any, ballot: Any, command: str, level: str
) -> None:
    call = a_call("approval-requested", tool="Bash", input={"command": command})
    risk = serialize()["risk"]
    assert risk["level"] == level and (level == "medium" or risk["reasons"])
    gate.vote(an_approver, ballot(call, "deny"))
    assert serialize()["risk"] is None


def test_the_questions_of_the_agent_have_their_options(a_call: Any) -> None:
    options = [{"label": "blue", "description": ""}, {"label": "red", "description": ""}]
    questions = [{"question": "Color?", "header": "Color", "options": options, "multiSelect": True}]
    a_call("approval-requested", tool="AskUserQuestion", input={"questions": questions})
    (question,) = serialize()["questions"]
    assert question == {
        "text": "Color?", "header": "Color", "options": ["blue", "red"], "multiple": True, "free_text": True,
        "required": True,
    }  # fmt: skip


def test_other_calls_ask_nothing(a_call: Any) -> None:
    a_call("approval-requested")
    assert serialize()["questions"] == []
