"""From calls to policy and back: blast radius, simulations, why a call was denied, a rule from a call, YAML."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.policy.simulation.past_calls import Span, iterate_calls_of_tool_first, iterate_past_calls
from toolcards.core.calls import facts as f
from toolcards.models import ToolCall
from toolcards.models.write_guard import allow_log_writes

pytestmark = pytest.mark.django_db


def test_calls_of_the_run_come_before_newer_ones_of_the_tool(a_run: Any) -> None:
    a_run("this", *(f.InputReady(f"c{number}", "Bash", {"command": f"{number}"}, True) for number in range(3)))
    a_run("busy", *(f.InputReady(f"c{number}", "Bash", {"command": f"{number}"}, True) for number in range(5)))
    call = ToolCall.objects.get(run__name="this", call_id="c1")
    past_calls = list(iterate_calls_of_tool_first(call, Span(calls=6)))
    assert [past_call.question.run for past_call in past_calls] == ["this"] * 3 + ["busy"] * 3
    assert len({past_call.pk for past_call in iterate_calls_of_tool_first(call, Span())}) == 8


def test_the_span_bounds_number_tool_agent_and_age(a_call: Any) -> None:
    for number in range(5):
        a_call(call_id=f"c{number}", tool="Bash" if number else "Edit")
    assert len(list(iterate_past_calls(Span(calls=3, days=0)))) == 3
    assert len(list(iterate_past_calls(Span(days=0, tool="Edit")))) == 1
    assert len(list(iterate_past_calls(Span(days=0, agent="nobody")))) == 0
    assert len(list(iterate_past_calls(Span(days=1)))) == 5
    with allow_log_writes():
        ToolCall.objects.filter(call_id__in=("c0", "c1")).update(started_at="2020-01-01T00:00:00Z")
    assert len(list(iterate_past_calls(Span(days=1)))) == 3
