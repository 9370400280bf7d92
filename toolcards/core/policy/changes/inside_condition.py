"""The condition `inside_project`: whether what a call changes is inside of the project, and not protected there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolcards.core.policy.changes.edit_tools import locate_edits
from toolcards.core.policy.evaluation_context import CHARACTERS, EvaluationContext, count_characters
from toolcards.core.policy.matching.conditions import format_pointer
from toolcards.core.policy.places.project import Project
from toolcards.core.policy.shell.script import CommandSegment
from toolcards.core.policy.truth import FALSE, UNKNOWN, Truth

_PATH_STEPS = 16  # to locate one path


@dataclass(frozen=True, slots=True)
class InsideCondition:
    """Whether the paths at `path` are inside of the project; of the whole input, everything that the call changes.

    `every`: all of them must be, else one is enough.
    """

    path: tuple[str, ...]
    every: bool
    cost: int = 3

    @property
    def name(self) -> str:
        """Return the path and the operator."""
        return f"{format_pointer(self.path)} inside_project"

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return the answer over everything that changes."""
        answers: tuple[Truth, ...] | None = context.remember(("inside", self.path), lambda: self._read(context))
        context.step()
        if answers is None:
            return UNKNOWN
        if not answers:
            return FALSE
        return min(answers) if self.every else max(answers)

    def _read(self, context: EvaluationContext) -> tuple[Truth, ...] | None:
        project = context.request.project
        values = context.values(self.path)
        if project is None or values is None:
            return None
        if not self.path:
            context.step(1 + count_characters(context.request.input) // CHARACTERS)
            answers = locate_edits(context.request, project)
            context.step(_PATH_STEPS * len(answers))
            return answers
        context.step(_PATH_STEPS * len(values))
        return tuple([_locate_value(project, value) for value in values])

    def actual(self, context: EvaluationContext) -> Any:
        """Return the value, or the values."""
        values = context.values(self.path) or ()
        return values[0] if len(values) == 1 else list(values)


def _locate_value(project: Project, value: Any) -> Truth:
    return project.locate(value) if isinstance(value, str) else UNKNOWN
