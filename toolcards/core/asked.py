"""One question while it is judged: values looked up once, work counted and bounded."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from toolcards.core.question import Question
from toolcards.core.shell.reader import Script, read_command
from toolcards.core.shell.tools import find_tool, why_not_alone

MAX_STEPS = 10_000
MAX_SECONDS = 0.05
MAX_VALUES = 1_000


class OverBudget(Exception):
    """Judging took too long."""


@dataclass(slots=True)
class Asked:
    """One question while it is judged: what was looked up, how much was done, and why a command is in doubt."""

    question: Question
    steps: int = 0
    doubt: str = ""
    started: float = field(default_factory=time.thread_time)  # a busy machine is not our fault
    found: dict[tuple[str, ...], tuple[Any, ...] | None] = field(default_factory=dict)
    read: dict[tuple[str, ...], Script | None] = field(default_factory=dict)

    def step(self, count: int = 1) -> None:
        """Count work; raise OverBudget when there was too much of it."""
        before, self.steps = self.steps, self.steps + count
        if self.steps > MAX_STEPS:
            raise OverBudget
        if before >> 7 != self.steps >> 7 and time.thread_time() - self.started > MAX_SECONDS:
            raise OverBudget

    def values(self, path: tuple[str, ...]) -> tuple[Any, ...] | None:
        """Return the values at the path, none if there is none, None where that cannot be told."""
        if path not in self.found:
            self.found[path] = values_at(self.question, path)
        return self.found[path]

    def script(self, path: tuple[str, ...]) -> Script | None:
        """Return the shell command at the path; None if there is none, or it is no command."""
        if path not in self.read:
            values = self.values(path)
            self.read[path] = self.script_of(values[0]) if values else None
        return self.read[path]

    def script_of(self, value: Any) -> Script | None:
        """Return a shell command of this tool; None if the value is none."""
        return read_command(value, find_tool(self.question.tool).list)

    def why_not_alone(self, path: tuple[str, ...], named: frozenset[str]) -> str:
        """Return why other arguments may change what the command at the path does; empty if none does."""
        return why_not_alone(self.question.tool, self.question.input, path, named)


def values_at(question: Question, path: tuple[str, ...]) -> tuple[Any, ...] | None:
    """Return the values at the path of the input, none if there is none, None where that cannot be told."""
    if not question.has_input:
        return None
    values: list[Any] = [question.input]
    for token in path:
        reached: list[Any] = []
        for value in values:
            below = _below(value, token)
            if below is None:
                return None
            reached += below
        if len(reached) > MAX_VALUES:
            return None
        values = reached
    return tuple(values)


def _below(value: Any, token: str) -> list[Any] | None:
    """Return what the pointer's next step leads to; None where the value is of a kind that has no steps."""
    if value is None:
        return []
    if isinstance(value, dict):
        if token == "*":  # noqa: S105 - a JSON Pointer's token
            return list(value.values())
        return [value[token]] if token in value else []
    if isinstance(value, list):
        if token == "*":  # noqa: S105
            return value
        if token.isascii() and token.isdigit() and (token == "0" or token[0] != "0"):  # noqa: S105
            return [value[int(token)]] if len(token) < 7 and int(token) < len(value) else []
    return None
