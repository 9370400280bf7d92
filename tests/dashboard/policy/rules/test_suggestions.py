"""Rules suggested from a call, with the past calls that each would match."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from dashboard.policy.rules import suggestions
from dashboard.policy.simulation.past_calls import Span, iterate_calls_of_tool_first
from tests.support.policy_pages import SECRET, rungs
from toolcards.core.calls import facts as f
from toolcards.models import ToolCall

pytestmark = pytest.mark.django_db


def test_the_ladder_counts_past_calls_from_narrow_to_broad(admin: Client, a_call: Any) -> None:
    for number, command in enumerate(("git push origin", "git push", "git status", "git push origin", "$X push")):
        a_call(call_id=f"c{number}", tool="Bash", input={"command": command, "description": f"{number}"})
    tool_call = rungs(admin, ToolCall.objects.get(call_id="c0"))
    assert tool_call == {"exact": 1, "command": 2, "words": 3, "program": 4, "tool": 5, "kind": 5}
    assert list(tool_call) == ["exact", "command", "words", "program", "tool", "kind"]


def test_the_ladder_tells_the_calls_of_this_run_from_those_of_all(admin: Client, a_call: Any) -> None:
    for number in range(3):
        a_call(call_id=f"c{number}", tool="Bash", input={"command": "git push"}, run="other" if number else "this")
    tool_call = admin.get(f"/calls/{ToolCall.objects.get(run__name='this').public_id}/rule/").context["ladder"].rungs
    assert {(rung.count, rung.in_run) for rung in tool_call if rung.name == "exact"} == {(3, 1)}


def test_the_ladder_counts_calls_of_the_tool_on_a_busy_server(
    admin: Client, policy: Any, a_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest calls of all tools hold none of this one, and there is no time to read more than those."""
    policy("watch")
    refund = f.InputReady("c0", "refund", {"amount": 5}, True)
    a_run("this", refund)
    a_run("other", refund)
    a_run("busy", *(f.InputReady(f"c{number}", "Read", {"path": f"{number}"}, True) for number in range(600)))
    call = ToolCall.objects.select_related("run", "run__source").get(run__name="this")
    order = [past_call.tool for past_call in iterate_calls_of_tool_first(call, Span(calls=10))]
    assert order == ["refund"] * 2 + ["Read"] * 8
    monkeypatch.setattr(suggestions, "LOOKED_AT", Span(calls=10, days=30))
    answer = admin.get(f"/calls/{call.public_id}/rule/", {"rung": "exact", "effect": "deny", "scope": "all"})
    exact = next(rung for rung in answer.context["ladder"].rungs if rung.name == "exact")
    assert (exact.count, exact.in_run) == (2, 1) and answer.context["ladder"].examined_count == 10


@pytest.mark.parametrize(("tool", "value", "names"), [
    ("Edit", {"file_path": "/srv/app/a.py", "old": "x"}, ["exact", "path", "folder", "tool", "kind"]),
    ("Edit", {"file_path": "/srv/../a.py"}, ["exact", "tool", "kind"]),
    ("WebFetch", {"url": "https://example.org/a?b", "prompt": "x"}, ["exact", "url", "host", "tool", "kind"]),
    ("Bash", {"command": "echo $(id)"}, ["exact", "tool", "kind"]),
    ("Bash", {"command": "git status && rm -rf x"}, ["exact", "words", "program", "tool", "kind"]),
    ("Bash", {"command": "git push -f"}, ["exact", "deletes", "words", "program", "tool", "kind"]),
    ("Bash", {"command": "curl", "token": SECRET}, ["tool", "kind"]),
    ("mystery", [1, 2], ["exact", "tool"]),
    ("any*", {"a": 1}, []),
])  # fmt: skip
def test_each_kind_of_call_has_its_rungs(admin: Client, a_call: Any, tool: str, value: Any, names: list[str]) -> None:
    assert list(rungs(admin, a_call(tool=tool, input=value))) == names


def test_a_rung_says_what_an_allow_rule_does_not_cover(admin: Client, a_call: Any) -> None:
    call = a_call(tool="Bash", input={"command": "awk -f prog f && cat f"})
    words = {rung.name: rung.words for rung in admin.get(f"/calls/{call.public_id}/rule/").context["ladder"].rungs}
    assert "awk can run other programs" in words["program"] and "harmless forms" in words["program"]
    harmless = a_call(tool="Bash", input={"command": "cat f | wc -l"}, call_id="c2")
    words = {rung.name: rung.words for rung in admin.get(f"/calls/{harmless.public_id}/rule/").context["ladder"].rungs}
    assert words["program"] == "commands that start with “cat” or “wc”"
