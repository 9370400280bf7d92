"""What a policy can look at in a call: calls that agree in that are answered alike, so one answer will do for all."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from toolcards.core.policy.evaluation_context import values_at
from toolcards.core.policy.matching.conditions import Argument, Command, Condition, Label, Rate, When
from toolcards.core.policy.request import Question
from toolcards.core.policy.rule import Rule
from toolcards.core.policy.shell.tool_catalog import why_not_alone

LARGEST = 2_000  # characters of what was looked at; longer texts are hardly ever the same


@dataclass(frozen=True, slots=True)
class Footprint:
    """The places in the input, and whether the run, the time or earlier calls count; `whole`: nobody can say."""

    paths: tuple[tuple[str, ...], ...] = ()
    run: bool = False
    time: bool = False
    counts: bool = False
    whole: bool = False
    alone: tuple[tuple[tuple[str, ...], frozenset[str]], ...] = ()  # commands beside which other arguments count

    def key(self, question: Question) -> Hashable | None:
        """Return what is looked at in this call; None where it is too much to compare."""
        if self.whole:
            return None
        seen, size = [], 0
        for path in self.paths:
            values = values_at(question, path)
            told = values if values is None else tuple([_told(value) for value in values])
            for _, text in told or ():
                size += len(text)
            if size > LARGEST:
                return None
            seen.append(told)
        return (
            question.tool, question.source, question.kinds, question.agent_path, question.env, question.user,
            question.known, question.changed, question.can_wait, tuple(seen),
            question.run if self.run else "", question.now if self.time else 0,
            tuple(sorted(question.counts.items())) if self.counts else (),
            tuple([why_not_alone(question.tool, question.input, path, named) for path, named in self.alone]),
        )  # fmt: skip


def _told(value: Any) -> tuple[bool, str]:
    """Return the value as something to compare by type and content: 1, 1.0, true and "1" are four things."""
    return (True, value) if type(value) is str else (False, repr(value))


def footprint(rules: Iterable[Rule]) -> Footprint:
    """Return what these rules look at, beside the tool, its kind and whose call it is."""
    kept = tuple(rules)
    found = [one for rule in kept for clause in (rule.match, *rule.unless) for one in clause.conditions]
    return Footprint(
        paths=tuple(sorted({one.path for one in found if isinstance(one, Argument | Command)})),
        run=any(isinstance(one, Label) and one.name == "run" for one in found),
        time=any(isinstance(one, When) for one in found) or any(rule.expires_at for rule in kept),
        counts=any(isinstance(one, Rate) for one in found),
        whole=not all(map(_known, found)),
        alone=tuple({(one.path, one.named) for one in found if isinstance(one, Command) and not one.wide}),
    )


def _known(condition: Condition) -> bool:
    """Whether it is said above what this condition looks at."""
    return isinstance(condition, Argument | Command | Label | When | Rate)
