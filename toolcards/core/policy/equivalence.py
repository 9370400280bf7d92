"""What a policy can look at in a call: calls that agree in that are answered alike, so one answer will do for all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from toolcards.core.policy.evaluation_context import find_values
from toolcards.core.policy.matching.conditions import (
    ArgumentCondition,
    CommandCondition,
    Condition,
    LabelCondition,
    RateCondition,
    TimeWindowCondition,
)
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.rule import Rule
from toolcards.core.policy.shell.tool_catalog import explain_other_arguments

MAX_CHARACTERS = 2_000  # characters of what was looked at; longer texts are hardly ever the same


@dataclass(frozen=True, slots=True)
class EquivalenceCriteria:
    """The places in the input, and whether the run, the time or earlier calls count; `whole`: nobody can say."""

    paths: tuple[tuple[str, ...], ...] = ()
    run: bool = False
    time: bool = False
    counts: bool = False
    whole: bool = False
    alone: tuple[tuple[tuple[str, ...], frozenset[str]], ...] = ()  # commands beside which other arguments count

    def key(self, request: PolicyRequest) -> Hashable | None:
        """Return what is looked at in this call; None where it is too much to compare."""
        if self.whole:
            return None
        seen, size = [], 0
        for path in self.paths:
            values = find_values(request, path)
            told = values if values is None else tuple([_tag_value(value) for value in values])
            for _, text in told or ():
                size += len(text)
            if size > MAX_CHARACTERS:
                return None
            seen.append(told)
        return (
            request.tool, request.source, request.kinds, request.agent_path, request.env, request.user,
            request.known, request.changed, request.can_wait, tuple(seen),
            request.run if self.run else "", request.now if self.time else 0,
            tuple(sorted(request.counts.items())) if self.counts else (),
            tuple([explain_other_arguments(request.tool, request.input, path, named) for path, named in self.alone]),
        )  # fmt: skip


def _tag_value(value: Any) -> tuple[bool, str]:
    """Return the value as something to compare by type and content: 1, 1.0, true and "1" are four things."""
    return (True, value) if type(value) is str else (False, repr(value))


def collect_criteria(rules: Iterable[Rule]) -> EquivalenceCriteria:
    """Return what these rules look at, beside the tool, its kind and whose call it is."""
    kept = tuple(rules)
    found = [one for rule in kept for clause in (rule.match, *rule.unless) for one in clause.conditions]
    return EquivalenceCriteria(
        paths=tuple(sorted({one.path for one in found if isinstance(one, ArgumentCondition | CommandCondition)})),
        run=any(isinstance(one, LabelCondition) and one.name == "run" for one in found),
        time=any(isinstance(one, TimeWindowCondition) for one in found) or any(rule.expires_at for rule in kept),
        counts=any(isinstance(one, RateCondition) for one in found),
        whole=not all(map(_is_known_condition, found)),
        alone=tuple({(one.path, one.named) for one in found if isinstance(one, CommandCondition) and not one.wide}),
    )


def _is_known_condition(condition: Condition) -> bool:
    """Whether it is said above what this condition looks at."""
    return isinstance(
        condition, ArgumentCondition | CommandCondition | LabelCondition | TimeWindowCondition | RateCondition
    )
