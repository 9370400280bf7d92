"""The impact of a draft for pages: a sentence, groups of changes with examples, and warnings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from dashboard.policy.simulation import jobs
from dashboard.policy.simulation.past_calls import Span, iterate_calls_of_tool_first
from dashboard.policy.simulation.simulation import simulate
from dashboard.policy.simulation.simulation_result import ChangeGroup, ReversedAnswers, SimulationResult
from dashboard.policy.view_models import DraftReview
from toolcards.core.policy.decision import Effect, RuleSet
from toolcards.core.policy.language import document as documents
from toolcards.core.summaries.summary import summarize
from toolcards.gate import policy_store
from toolcards.models import ToolCall

SECONDS = 0.4  # for the estimate on a page; a job evaluates more calls
SHAPES = 12
EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class ExampleCall:
    """One past call: its address and its summary, with secrets masked."""

    public_id: str
    tool: str
    line: str


@dataclass(frozen=True, slots=True)
class ImpactGroup:
    """Calls whose decisions would change in the same way."""

    group: ChangeGroup
    examples: list[ExampleCall]

    @property
    def more(self) -> int:
        """Return how many calls are not listed."""
        return self.group.count - len(self.examples)


@dataclass(frozen=True, slots=True)
class ReversedCalls:
    """Calls that a person answered differently."""

    count: int = 0
    examples: list[ExampleCall] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Impact:
    """What activating the draft would have changed."""

    tally: SimulationResult
    shapes: list[ImpactGroup]
    opened: ReversedCalls
    closed: ReversedCalls
    job: jobs.Job | None = None

    @property
    def sentence(self) -> str:
        """Summarize the changes, as in "3 of 12 calls change"."""
        tally = self.tally
        if not tally.examined_count:
            return "There are no past calls to compare with."
        if not tally.changed:
            return f"No past call would change ({tally.judged:,} checked)."
        kinds = " · ".join(f"{count:,} {change}" for change, count in tally.counts)
        return f"{tally.changed:,} of {tally.judged:,} calls change{'s' if tally.changed == 1 else ''}: {kinds}"

    @property
    def changed_by_rule(self) -> Counter[str]:
        """Count the calls that each rule would decide in another way."""
        counts: Counter[str] = Counter()
        for group in self.tally.groups:
            counts[group.rule] += group.count
        return counts

    @property
    def rules(self) -> list[tuple[str, int, bool]]:
        """Return new rules, with their counts and whether they only monitor."""
        hits = [(rule, count, False) for rule, count in self.tally.hits.items()]
        return sorted(hits + [(rule, count, True) for rule, count in self.tally.would.items()])

    @property
    def hidden_count(self) -> int:
        """Return how many groups are not listed."""
        return len(self.tally.groups) - len(self.shapes)


def estimate_draft_impact(review: DraftReview) -> Impact | None:
    """Return a job's result or a quick estimate; None without changes."""
    if review.policy is None or not review.changes:
        return None
    job = next(
        (job for job in jobs.list_jobs() if job.fits(review.sha256, review.active) and job.state == "done"), None
    )
    return build_impact(
        job.tally if job else simulate(_load_active_policy(), review.policy, Span(), seconds=SECONDS), job
    )


def estimate_rule_impact(rule: dict[str, Any], call: ToolCall) -> Impact:
    """Return what this rule would have changed.

    The calls of its tool are read first. The end of the rule is left out: it is in the future, the calls are not.
    """
    active = _load_active_policy()
    document: Any = active.document or {"v": 1, "default": str(active.default), "rules": []}
    lasting = {name: value for name, value in rule.items() if name != "expires_at"}
    other_rules = [rule_ for rule_ in document.get("rules", ()) if rule_.get("id") != rule["id"]]
    more = documents.parse({**document, "rules": [*other_rules, lasting]}, version=active.version)
    calls = iterate_calls_of_tool_first(call, Span())
    return build_impact(simulate(active, more, Span(), calls=calls, seconds=SECONDS))


def build_impact(tally: SimulationResult, job: jobs.Job | None = None) -> Impact:
    """Return the result with its example calls."""
    groups = tally.biggest[:SHAPES]
    parts: list[ChangeGroup | ReversedAnswers] = [*groups, tally.opened, tally.closed]
    pks = [pk for part in parts for pk in part.examples[:EXAMPLES]]
    calls = ToolCall.objects.not_removed().in_bulk(pks)
    shapes = [ImpactGroup(group, _build_examples(group, calls)) for group in groups]
    return Impact(
        tally, shapes, _build_reversed_calls(tally.opened, calls), _build_reversed_calls(tally.closed, calls), job
    )


def _build_reversed_calls(alarm: ReversedAnswers, calls: dict[int, ToolCall]) -> ReversedCalls:
    return ReversedCalls(alarm.count, _build_examples(alarm, calls))


def _build_examples(part: ChangeGroup | ReversedAnswers, calls: dict[int, ToolCall]) -> list[ExampleCall]:
    examples = (calls[pk] for pk in part.examples[:EXAMPLES] if pk in calls)
    return [ExampleCall(call.public_id, call.tool, summarize(call.as_shown_card())) for call in examples]


def _load_active_policy() -> RuleSet:
    try:
        return policy_store.get_active_policy()
    except policy_store.NoActivePolicy:
        return RuleSet(default=Effect.DENY)
