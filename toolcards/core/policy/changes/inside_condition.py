"""The condition `inside_project`: whether what a call changes is inside of the project, and not protected there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from toolcards.core.policy.changes.changed_commands import locate_commands
from toolcards.core.policy.changes.edit_tools import locate_edits, names_code
from toolcards.core.policy.evaluation_context import CHARACTERS, EvaluationContext, count_characters
from toolcards.core.policy.matching.conditions import format_pointer
from toolcards.core.policy.places.project import Project
from toolcards.core.policy.shell.catalogs import find_tool
from toolcards.core.policy.shell.script import CommandSegment
from toolcards.core.policy.truth import FALSE, UNKNOWN, Truth

_PATH_STEPS = 16  # to locate one path


@dataclass(frozen=True, slots=True)
class InsideCondition:
    """Whether the paths at `path` are inside of the project; of the whole input, everything that the call changes.

    `every`: all of them must be, else one is enough. `names_command`: the clause also says which commands may run.
    `manifests`: names of protected files that edit tools may change, as long as the change names no code.
    """

    path: tuple[str, ...]
    every: bool
    names_command: bool = False
    manifests: frozenset[str] = frozenset()
    cost: int = 3

    @property
    def name(self) -> str:
        """Return the path and the operator."""
        return f"{format_pointer(self.path)} inside_project"

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return the answer over everything that changes."""
        key = ("inside", self.path, self.names_command, self.manifests)
        answers: tuple[Truth, ...] | None = context.remember(key, lambda: self._read(context))
        context.step()
        if segment is not None and answers is not None:
            answers = self._select(context, segment, answers)
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
        if self._takes_command(context):
            return self._locate_command(context)
        if self.manifests and not names_code(context.request.input):
            project = replace(project, manifests=self.manifests)
        if not self.path:
            context.step(1 + count_characters(context.request.input) // CHARACTERS)
            answers = locate_edits(context.request, project)
            context.step(_PATH_STEPS * len(answers))
            return answers
        context.step(_PATH_STEPS * len(values))
        return tuple([_locate_value(project, value) for value in values])

    def _takes_command(self, context: EvaluationContext) -> bool:
        paths = find_tool(context.request.tool).paths
        return bool(paths) and (not self.path or self.path in paths)

    def _locate_command(self, context: EvaluationContext) -> tuple[Truth, ...] | None:
        scripts, project = context.scripts(self.path), context.project
        if not scripts or project is None:
            return None
        answers = locate_commands(scripts[0], project, names_command=self.names_command)
        words = sum(len(segment.words) for segment in scripts[0].segments) if scripts[0] else 0
        context.step(_PATH_STEPS * (words + len(answers)))
        if len(scripts) > 1 or context.explain_argument_doubt(self.path, frozenset(), names_tool=True):
            return (*answers, UNKNOWN)
        return answers

    def _select(
        self, context: EvaluationContext, segment: CommandSegment, answers: tuple[Truth, ...]
    ) -> tuple[Truth, ...]:
        """Return the answers for one segment of the command, and for what is no segment."""
        scripts = context.scripts(self.path) if self._takes_command(context) else None
        if not scripts or scripts[0] is None:
            return answers
        segments = scripts[0].segments
        own = [answer for each, answer in zip(segments, answers, strict=False) if each is segment or each == segment]
        return (*(own or answers), *answers[len(segments) :])

    def actual(self, context: EvaluationContext) -> Any:
        """Return the value, or the values."""
        values = context.values(self.path) or ()
        return values[0] if len(values) == 1 else list(values)


def _locate_value(project: Project, value: Any) -> Truth:
    return project.locate(value) if isinstance(value, str) else UNKNOWN
