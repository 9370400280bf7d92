"""A draft over calls that really came: what would change, what a person had said, and the job that looks at many."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.policy.simulation.past_calls import Span, iterate_past_calls, split_span
from dashboard.policy.simulation.simulation import simulate
from dashboard.policy.simulation.simulation_result import SimulationResult, merge_results
from tests.support.simulations import ANY, PUSH, draft

pytestmark = pytest.mark.django_db


def changes(old: Any, new: Any, span: Span = ANY) -> list[tuple[str, str, str, str, int]]:
    return [(g.tool, g.old, g.new, g.rule, g.count) for g in simulate(old, new, span).groups]


def test_only_calls_that_the_new_rule_meets_change(a_call: Any) -> None:
    for number, command in enumerate(("git push", "git pull", "sudo git push origin")):
        a_call(call_id=f"c{number}", tool="Bash", input={"command": command})
    tally = simulate(draft(), draft(PUSH), ANY)
    assert (tally.judged, tally.unknown, tally.changed, tally.hits) == (3, 0, 2, {"no-push": 2})
    assert changes(draft(), draft(PUSH)) == [("Bash", "allow", "deny", "no-push", 2)]


@pytest.mark.parametrize("rule", [
    PUSH,
    {"id": "x", "effect": "allow", "match": {"args": [{"path": "/command", "op": "cmd", "value": "ls"}]}},
    {"id": "x", "effect": "ask", "match": {"args": [{"path": "/nowhere", "op": "gt", "value": 1}]}},
    {"id": "x", "effect": "deny", "match": {"kind": ["execute"]},
     "unless": [{"args": [{"path": "/command", "op": "eq", "value": "ls"}]}]},
    {"id": "x", "effect": "deny", "match": {"agent": ["bot", "an agent"]}},
])  # fmt: skip
@pytest.mark.parametrize("default", ["allow", "ask"])
def test_skipping_what_no_differing_rule_touches_changes_no_verdict(a_call: Any, rule: Any, default: str) -> None:
    inputs = [
        {"command": "ls"},
        {"command": "ls && git push"},
        {"command": "$X push"},
        {"command": 7},
        {},
        {"nowhere": "1"},
    ]
    for number, entry in enumerate(inputs):
        a_call(call_id=f"c{number}", tool="Bash", input=entry)
    old, new = draft(default=default), draft(rule, default=default)
    from toolcards.core.policy.decision import decide

    slow = sum(
        decide(old, call.question).effect is not decide(new, call.question).effect
        for call in iterate_past_calls(ANY)
        if call.question is not None
    )
    assert simulate(old, new, ANY).changed == slow


def test_a_call_whose_arguments_are_masked_or_missing_is_reported_not_guessed(a_call: Any) -> None:
    a_call("input-streaming", call_id="c1", tool="Bash")
    a_call(call_id="c2", tool="Bash", input={"command": "echo ‹secret github-token 40 · 3f9a›"})
    tally = simulate(draft(), draft(PUSH, default="ask"), ANY)
    assert (tally.judged, tally.unknown, tally.changed) == (0, 2, 0)


def test_what_a_person_answered_otherwise_is_an_alarm(a_call: Any) -> None:
    denied = a_call("output-denied", call_id="c1", tool="Edit", input={"path": "a"})
    approved = a_call("approval-responded", call_id="c2", tool="Bash", input={"command": "git push"})
    tally = simulate(draft(default="ask"), draft(PUSH), ANY)
    assert (tally.opened.count, tally.opened.examples) == (1, [denied.pk])
    assert (tally.closed.count, tally.closed.examples) == (1, [approved.pk])
    # Where the active policy lets it pass already, activating changes nothing.
    assert simulate(draft(), draft(PUSH), ANY).opened.count == 0


def test_a_rule_that_watches_says_how_often_it_would_have_answered(a_call: Any) -> None:
    a_call(tool="Bash", input={"command": "git push"})
    tally = simulate(draft(), draft(PUSH | {"mode": "monitor"}), ANY)
    assert (tally.changed, tally.would) == (0, {"no-push": 1})


def test_slices_meet_every_call_once_and_add_up(a_call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        a_call(call_id=f"c{number}", tool="Bash", input={"command": "git push" if number % 2 else "ls"})
    monkeypatch.setattr("dashboard.policy.simulation.past_calls.SLICE", 3)
    parts = split_span(ANY)
    assert [part.calls for part in parts] == [3, 3, 1]
    call_ids = [call.pk for part in parts for call in iterate_past_calls(part)]
    assert call_ids == [call.pk for call in iterate_past_calls(ANY)] and len(set(call_ids)) == 7
    whole, old, new = SimulationResult(), draft(), draft(PUSH)
    for part in parts:
        merge_results(whole, simulate(old, new, part))
    alone = simulate(old, new, ANY)
    assert (whole.judged, whole.changed, whole.hits) == (alone.judged, alone.changed, alone.hits)
    assert whole.groups[0].examples == alone.groups[0].examples
