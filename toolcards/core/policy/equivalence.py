"""The parts of a call that a policy can read: calls that agree in them have the same decision."""

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
from toolcards.core.policy.shell.catalogs import explain_other_arguments

MAX_CHARACTERS = 2_000  # characters of all values; longer texts are rarely equal


@dataclass(frozen=True, slots=True)
class EquivalenceCriteria:
    """The paths in the input that rules read, and whether the run, the time or earlier calls matter.

    `incomparable`: a condition of an unknown type may read anything.
    """

    paths: tuple[tuple[str, ...], ...] = ()
    run: bool = False
    time: bool = False
    counts: bool = False
    incomparable: bool = False
    alone: tuple[tuple[tuple[str, ...], frozenset[str]], ...] = ()  # commands for which other arguments matter

    def key(self, request: PolicyRequest) -> Hashable | None:
        """Return the parts of this call that rules read, or None.

        None means that they are too large to compare.
        """
        if self.incomparable:
            return None
        tagged_values, size = [], 0
        for path in self.paths:
            values = find_values(request, path)
            value_tags = values if values is None else tuple([_tag_value(value) for value in values])
            for _, text in value_tags or ():
                size += len(text)
            if size > MAX_CHARACTERS:
                return None
            tagged_values.append(value_tags)
        return (
            request.tool, request.source, request.kinds, request.agent_path, request.env, request.user,
            request.is_known, request.changed, request.can_wait, request.root, request.folder, tuple(tagged_values),
            request.run if self.run else "", request.now if self.time else 0,
            tuple(sorted(request.counts.items())) if self.counts else (),
            tuple([explain_other_arguments(request.tool, request.input, path, keys) for path, keys in self.alone]),
        )  # fmt: skip


def _tag_value(value: Any) -> tuple[bool, str]:
    """Return a key of the value's type and content: 1, 1.0, true and "1" all differ."""
    return (True, value) if type(value) is str else (False, repr(value))


def collect_criteria(rules: Iterable[Rule]) -> EquivalenceCriteria:
    """Return what these rules read, besides the tool and its caller."""
    rule_list = tuple(rules)
    conditions = [
        condition for rule in rule_list for clause in (rule.match, *rule.unless) for condition in clause.conditions
    ]
    return EquivalenceCriteria(
        paths=tuple(
            sorted(
                {
                    condition.path
                    for condition in conditions
                    if isinstance(condition, ArgumentCondition | CommandCondition)
                }
            )
        ),
        run=any(isinstance(condition, LabelCondition) and condition.name == "run" for condition in conditions),
        time=any(isinstance(condition, TimeWindowCondition) for condition in conditions)
        or any(rule.expires_at for rule in rule_list),
        counts=any(isinstance(condition, RateCondition) for condition in conditions),
        incomparable=not all(map(_is_known_condition, conditions)),
        alone=tuple(
            {
                (condition.path, condition.covered_keys)
                for condition in conditions
                if isinstance(condition, CommandCondition) and not condition.wide
            }
        ),
    )


def _is_known_condition(condition: Condition) -> bool:
    """Return whether `collect_criteria` supports this condition."""
    return isinstance(
        condition, ArgumentCondition | CommandCondition | LabelCondition | TimeWindowCondition | RateCondition
    )
