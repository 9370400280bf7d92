"""The blast radius of a draft as pages show it: a sentence, shapes with real calls behind them, and the alarms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dashboard.policy.simulation import jobs
from dashboard.policy.simulation.past_calls import Span
from dashboard.policy.simulation.simulation import Alarm, Group, Tally, look
from dashboard.policy.view_models import Review
from toolcards.core.calls.summary import summary
from toolcards.core.policy.decision import Effect, Policy
from toolcards.core.policy.language import document as documents
from toolcards.gate import policy_store
from toolcards.models import ToolCall

SECONDS = 0.4  # that a page may take for a first look; a job looks at more
SHAPES = 12
EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Example:
    """One real call: where it is, and what it was about, without secrets."""

    public_id: str
    tool: str
    line: str


@dataclass(frozen=True, slots=True)
class Shape:
    """Calls that would be answered differently in the same way."""

    group: Group
    examples: list[Example]

    @property
    def more(self) -> int:
        """How many are not listed."""
        return self.group.count - len(self.examples)


@dataclass(frozen=True, slots=True)
class Warned:
    """Calls that a person answered otherwise."""

    count: int = 0
    examples: list[Example] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Blast:
    """What activating the draft would have changed."""

    tally: Tally
    shapes: list[Shape]
    opened: Warned
    closed: Warned
    job: jobs.Job | None = None

    @property
    def sentence(self) -> str:
        """34 of 1,204 calls change: 31 ask → allow · 3 allow → deny."""
        tally = self.tally
        if not tally.seen:
            return "No call of the past to compare with."
        if not tally.changed:
            return f"None of {tally.judged:,} calls changes."
        kinds = " · ".join(f"{count:,} {change}" for change, count in tally.counts)
        return f"{tally.changed:,} of {tally.judged:,} calls change{'s' if tally.changed == 1 else ''}: {kinds}"

    @property
    def rules(self) -> list[tuple[str, int, bool]]:
        """For each rule that is new: its name, how many calls it meets, and whether it only watches."""
        met = [(rule, count, False) for rule, count in self.tally.hits.items()]
        return sorted(met + [(rule, count, True) for rule, count in self.tally.would.items()])

    @property
    def hidden(self) -> int:
        """How many shapes are not listed."""
        return len(self.tally.groups) - len(self.shapes)


def of_draft(review: Review) -> Blast | None:
    """Return what is known of this draft: a job's result, else a first look of bounded time; None without changes."""
    if review.policy is None or not review.changes:
        return None
    job = next((job for job in jobs.jobs() if job.fits(review.sha256, review.active) and job.state == "done"), None)
    return of(job.tally if job else look(_active(), review.policy, Span(), seconds=SECONDS), job)


def of_rule(rule: dict[str, Any]) -> Blast | None:
    """Return what the active policy with one rule more would have answered differently; None where it takes no rules.

    A rule that ends by itself is judged as if it did not: its time lies in the future, and these calls in the past.
    """
    active = _active()
    document: Any = active.document or {"v": 1, "default": str(active.default), "rules": []}
    if "layers" in document:
        return None
    lasting = {name: value for name, value in rule.items() if name != "expires_at"}
    kept = [one for one in document.get("rules", ()) if one.get("id") != rule["id"]]
    more = documents.parse({**document, "rules": [*kept, lasting]}, version=active.version)
    return of(look(active, more, Span(), seconds=SECONDS))


def of(tally: Tally, job: jobs.Job | None = None) -> Blast:
    """Return the tally with the calls behind it."""
    groups = tally.biggest[:SHAPES]
    wanted = [pk for part in (*groups, tally.opened, tally.closed) for pk in part.examples[:EXAMPLES]]
    calls = ToolCall.objects.shown().in_bulk(wanted)
    shapes = [Shape(group, _examples(group, calls)) for group in groups]
    return Blast(tally, shapes, _warned(tally.opened, calls), _warned(tally.closed, calls), job)


def _warned(alarm: Alarm, calls: dict[int, ToolCall]) -> Warned:
    return Warned(alarm.count, _examples(alarm, calls))


def _examples(part: Group | Alarm, calls: dict[int, ToolCall]) -> list[Example]:
    found = (calls[pk] for pk in part.examples[:EXAMPLES] if pk in calls)
    return [Example(call.public_id, call.tool, summary(call.as_shown_card())) for call in found]


def _active() -> Policy:
    try:
        return policy_store.get_active_policy()
    except policy_store.NoActivePolicy:
        return Policy(default=Effect.DENY)
