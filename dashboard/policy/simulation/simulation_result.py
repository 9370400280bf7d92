"""The result of a simulation: counts, groups of similar changes with examples, and merging of two results."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

EXAMPLES = 20
GROUPS = 200


@dataclass
class ChangeGroup:
    """Calls of one shape whose decisions the same rule would change in the same way."""

    tool: str
    old: str
    new: str
    rule: str
    count: int = 0
    examples: list[int] = field(default_factory=list)  # ToolCall ids, newest first


@dataclass
class ReversedAnswers:
    """Calls for which the draft would contradict a person's answer."""

    count: int = 0
    examples: list[int] = field(default_factory=list)


@dataclass
class SimulationResult:
    """The result so far. `hits`, `would`: by new rule, the calls that it decides or only monitors."""

    total: int = 0
    judged: int = 0
    unknown: int = 0
    changed: int = 0
    seconds: float = 0.0
    partial: bool = False
    groups: list[ChangeGroup] = field(default_factory=list)
    opened: ReversedAnswers = field(default_factory=ReversedAnswers)  # denied by a person, and would be allowed
    closed: ReversedAnswers = field(default_factory=ReversedAnswers)  # approved by a person, and would be denied
    hits: dict[str, int] = field(default_factory=dict)
    would: dict[str, int] = field(default_factory=dict)
    other: int = 0  # changes of shapes beyond the first 200

    @property
    def examined_count(self) -> int:
        """Return the number of examined calls."""
        return self.judged + self.unknown

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Count each kind of change, the most frequent first.

        As in ("ask → allow", 31).
        """
        counter: Counter[str] = Counter()
        for group in self.groups:
            counter[f"{group.old} → {group.new}"] += group.count
        if self.other:
            counter["of other shapes"] = self.other
        return counter.most_common()

    @property
    def biggest(self) -> list[ChangeGroup]:
        """Return the groups, first those that allow more, then the largest."""
        return sorted(self.groups, key=lambda group: (group.new != "allow", -group.count))

    @property
    def percent(self) -> int:
        """Return the progress in percent."""
        return min(100, self.examined_count * 100 // self.total) if self.total else 100

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> SimulationResult:
        """Return the result that `as_json` described."""
        alarms = {name: ReversedAnswers(**fields[name]) for name in ("opened", "closed")}
        return cls(**fields | alarms | {"groups": [ChangeGroup(**group) for group in fields["groups"]]})


def add_example(target: ChangeGroup | ReversedAnswers, pk: int) -> None:
    """Count the call; keep it as an example if possible."""
    target.count += 1
    if len(target.examples) < EXAMPLES:
        target.examples.append(pk)


def merge_results(total: SimulationResult, part: SimulationResult) -> None:
    """Add the result of older calls to the total."""
    for name in ("judged", "unknown", "changed", "other"):
        setattr(total, name, getattr(total, name) + getattr(part, name))
    for name in ("hits", "would"):
        setattr(total, name, dict(Counter(getattr(total, name)) + Counter(getattr(part, name))))
    groups: dict[tuple[str, str, str, str], ChangeGroup] = {(g.tool, g.old, g.new, g.rule): g for g in total.groups}
    for group in part.groups:
        key = (group.tool, group.old, group.new, group.rule)
        if key in groups:
            _merge_examples(groups[key], group)
        elif len(total.groups) < GROUPS:
            total.groups.append(group)
        else:
            total.other += group.count
    _merge_examples(total.opened, part.opened)
    _merge_examples(total.closed, part.closed)


def _merge_examples(target: ChangeGroup | ReversedAnswers, more: ChangeGroup | ReversedAnswers) -> None:
    target.count += more.count
    target.examples = (target.examples + more.examples)[:EXAMPLES]
