"""How many past calls a lasting answer covers: of the same source, without the question itself."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.policy.record.coverage import describe_coverage
from toolcards import gate
from toolcards.models import Source, ToolCall

pytestmark = pytest.mark.django_db


def test_each_lasting_answer_says_how_many_past_calls_of_its_source_it_covers(
    a_call: Any, policy: Any, source: Any
) -> None:
    policy({"default": "ask"})
    for number, command in enumerate(("git push origin a", "git push origin main", "git push origin main", "make")):
        a_call("approval-requested", tool="Bash", input={"command": command}, call_id=f"c{number}")
    covered = describe_coverage(ToolCall.objects.get(call_id="c2"))
    assert covered["always:command:any"] == covered["always:command:run"] == "1 of 3 past calls"


def test_calls_of_other_sources_and_masked_inputs_are_not_counted(a_call: Any, policy: Any, source: Any) -> None:
    policy({"default": "ask"})
    other_source = Source.objects.create(name="another")
    gate.decide(
        other_source, gate.DecisionRequest(run="x", call_id="x", tool="Bash", args={"command": "git push origin m"})
    )
    a_call("approval-requested", tool="Bash", input={"command": "git push origin m"}, call_id="mine")
    assert set(describe_coverage(ToolCall.objects.get(call_id="mine")).values()) == {"0 of 0 past calls"}
