"""The impact of a draft for pages: a sentence, groups with examples, and an estimate for one new rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dashboard.policy.simulation import impact, jobs
from dashboard.policy.simulation.impact import (
    EXAMPLES,
    SHAPES,
    Impact,
    ReversedCalls,
    build_impact,
    estimate_draft_impact,
    estimate_rule_impact,
)
from dashboard.policy.simulation.simulation_result import ChangeGroup, ReversedAnswers, SimulationResult
from dashboard.policy.view_models import review_draft
from tests.support.policy_pages import SECRET
from tests.support.simulations import ANY, PUSH
from tests.support.tables import loop_over
from toolcards.core.calls import facts as f
from toolcards.gate import policy_draft
from toolcards.models import Run, ToolCall


def group(count: int = 1, *pks: int, tool: str = "Bash", new: str = "deny") -> ChangeGroup:
    return ChangeGroup(tool, "allow", new, "no-push", count, list(pks))


def describe(**fields: Any) -> Impact:
    return Impact(SimulationResult(**fields), [], ReversedCalls(), ReversedCalls())


@loop_over(("fields", "sentence"), [
    ({}, "There are no past calls to compare with."), ({"judged": 1_000}, "No past call would change (1,000 checked)."),
    ({"unknown": 3}, "No past call would change (0 checked)."),
    ({"judged": 12, "changed": 1, "groups": [group()]}, "1 of 12 calls changes: 1 allow → deny"),
    ({"judged": 2_000, "changed": 1_503, "groups": [group(3, new="ask"), group(1_000), group(500, tool="Edit")]},
     "1,503 of 2,000 calls change: 1,500 allow → deny · 3 allow → ask"),
])  # fmt: skip
def test_the_sentence_counts_what_changes(fields: dict[str, Any], sentence: str) -> None:
    assert describe(**fields).sentence == sentence


def test_rules_are_listed_by_name_and_those_that_only_monitor_are_marked() -> None:
    assert describe(hits={"b": 2, "c": 1}, would={"a": 7}).rules == [("a", 7, True), ("b", 2, False), ("c", 1, False)]


@pytest.mark.django_db
def test_groups_beyond_those_on_the_page_are_counted() -> None:
    groups = [group(number, tool=f"tool-{number}") for number in range(1, SHAPES + 4)]
    result = build_impact(SimulationResult(groups=groups))
    assert [shape.group.count for shape in result.shapes] == list(range(SHAPES + 3, 3, -1))
    assert result.hidden_count == 3 and build_impact(SimulationResult(groups=groups[:2])).hidden_count == 0


@pytest.mark.django_db
def test_a_group_has_a_few_examples_without_secrets_or_removed_calls(a_run: Callable[..., Run]) -> None:
    names = [f"c{number}" for number in range(EXAMPLES + 2)]
    ready = [f.InputReady(name, "Bash", {"command": f"git push {SECRET}"}, True) for name in names]
    a_run("r", f.StepStarted(), ready[0], f.StepReset(), *ready[1:])
    calls = list(ToolCall.objects.order_by("ordinal"))
    assert [call.removed for call in calls[:2]] == [True, False]
    pks = [call.pk for call in calls]
    reversals = {"opened": ReversedAnswers(2, [pks[1], 10**9]), "closed": ReversedAnswers(1, [pks[2]])}
    result = build_impact(SimulationResult(groups=[group(9, *pks)], **reversals))
    (shape,) = result.shapes
    assert [example.public_id for example in shape.examples] == [call.public_id for call in calls[1:EXAMPLES]]
    assert shape.more == 9 - (EXAMPLES - 1)
    assert all(example.tool == "Bash" and "git push" in example.line for example in shape.examples)
    assert SECRET not in str(result)
    assert (result.opened.count, len(result.opened.examples)) == (2, 1)
    assert (result.closed.count, result.closed.examples[0].public_id) == (1, calls[2].public_id)


@pytest.mark.django_db
def test_a_draft_without_changes_has_no_impact_and_without_a_policy_all_is_denied_now(
    policy: Any, a_call: Callable[..., ToolCall]
) -> None:
    a_call(tool="Bash", input={"command": "git push"})
    policy_draft.replace_draft({"v": 1, "default": "allow", "rules": []}, author="a test")
    before = estimate_draft_impact(review_draft())
    assert before is not None and before.sentence == "1 of 1 calls changes: 1 deny → allow"
    policy({"default": "allow"})
    assert estimate_draft_impact(review_draft()) is None


@pytest.mark.django_db
def test_a_finished_job_about_the_same_draft_comes_before_an_estimate(
    policy: Any, a_call: Callable[..., ToolCall], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy({"default": "allow"})
    a_call(tool="Bash", input={"command": "git push"})
    document = {"v": 1, "default": "allow", "rules": [PUSH]}
    policy_draft.replace_draft(document, author="a test")
    review = review_draft()
    job = jobs.create_job(policy_draft.load_draft(), draft=review.sha256, active=review.active, span=ANY, author="ann")
    waiting = estimate_draft_impact(review)
    assert waiting is not None and waiting.job is None and waiting.tally.changed == 1
    completed = jobs.run_job(job.id)
    monkeypatch.setattr(impact, "SECONDS", -1.0)  # an estimate would find nothing
    result = estimate_draft_impact(review)
    assert result is not None and result.job == completed and result.tally == completed.tally
    policy_draft.replace_draft(document | {"default": "deny"}, author="a test")
    other = estimate_draft_impact(review_draft())
    assert other is not None and other.job is None


@pytest.mark.django_db
def test_a_new_rule_replaces_the_one_of_its_name_and_its_end_is_left_out(
    policy: Any, a_call: Callable[..., ToolCall]
) -> None:
    policy({"default": "allow", "rules": [PUSH | {"effect": "ask"}]})
    call = a_call("approval-requested", tool="Bash", input={"command": "git push"})
    rule = PUSH | {"expires_at": "2020-01-01T00:00:00Z"}
    result = estimate_rule_impact(rule, call)
    assert result.sentence == "1 of 1 calls changes: 1 ask → deny"
    assert result.tally.hits == {"no-push": 1}
    added = estimate_rule_impact(PUSH | {"id": "other"}, call)
    assert added.tally.hits == {"other": 1} and added.tally.changed == 1


@pytest.mark.django_db
def test_without_a_policy_a_rule_is_compared_with_the_denial_of_everything(a_call: Callable[..., ToolCall]) -> None:
    call = a_call(tool="Bash", input={"command": "git push"})
    assert estimate_rule_impact(PUSH, call).sentence == "No past call would change (1 checked)."
    assert "1 deny → allow" in estimate_rule_impact(PUSH | {"effect": "allow"}, call).sentence
