"""The state of one evaluation: values read once, work counted in steps.

A step is a fixed amount of work: one value, one alternative of a rule, or `CHARACTERS` of a text that a pattern reads.
No clock is read, so the same call under the same rules always has the same cost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final

from toolcards.client.common.canonical_json import MAX_NODES
from toolcards.core.policy.places.project import Project
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.shell.catalogs import explain_other_arguments, find_tool, list_command_paths, move_project
from toolcards.core.policy.shell.script import Script, read_command

# About fifty conditions on every value of the largest input; most calls take fewer than 200.
MAX_STEPS = 500_000
MAX_VALUES = MAX_NODES
CHARACTERS = 256
_SCRIPT_STEPS, _SCRIPT_CHARACTERS = 16, 8  # to read a shell command: minimum, and characters for one step
UNREADABLE: Final = object()  # what a reader returns if programs could disagree
Path = tuple[str, ...]
Reader = Callable[[Any], Any]


class OverBudget(Exception):
    """The rules need more steps than one evaluation may take."""


@dataclass(frozen=True, slots=True)
class Readings:
    """The values at a path as one reader understands them.

    `steps` is what it costs to read all of them from end to end.
    """

    values: tuple[Any, ...]
    steps: int


@dataclass(slots=True)
class EvaluationContext:
    """One call under evaluation: the values read so far, the steps taken, and the reason if a command is ambiguous."""

    request: PolicyRequest
    limit: int = MAX_STEPS
    steps: int = 0
    doubt: str = ""
    _values: dict[Path, tuple[Any, ...] | None] = field(default_factory=dict)
    _readings: dict[tuple[Path, Reader], Readings | None] = field(default_factory=dict)
    _scripts: dict[Path, tuple[Script | None, ...] | None] = field(default_factory=dict)
    _answers: dict[Hashable, Any] = field(default_factory=dict)

    def step(self, count: int = 1) -> None:
        """Count steps; raise OverBudget beyond the limit."""
        self.steps += count
        if self.steps > self.limit:
            raise OverBudget

    def remember(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return what a condition has computed for all rules, at most once."""
        if key not in self._answers:
            self._answers[key] = compute()
        return self._answers[key]

    def values(self, path: Path) -> tuple[Any, ...] | None:
        """Return the values at the path, () without any, None if unknown."""
        if path not in self._values:
            values, visits = _walk_path(self.request, path)
            self._values[path] = values
            self.step(visits)
        return self._values[path]

    def readings(self, path: Path, read: Reader) -> Readings | None:
        """Return the readings of the values at the path, None if unknown.

        Each value is read once for all rules.
        """
        key = path, read
        if key not in self._readings:
            values = self.values(path)
            if values is None:
                self._readings[key] = None
            else:
                steps = sum([1 + count_characters(value) // CHARACTERS for value in values])
                self._readings[key] = Readings(tuple([read(value) for value in values]), steps)
                self.step(steps)
        return self._readings[key]

    def scripts(self, path: Path) -> tuple[Script | None, ...] | None:
        """Return the shell commands at the path, None if unknown.

        The path () is where the tool takes its command; if it could take several, they are one script. For other
        values the result contains None.
        """
        if path not in self._scripts:
            values = self.values(path) if path else self._find_commands()
            scripts = None if values is None else tuple([self._script(value) for value in values])
            self._scripts[path] = _join_scripts(scripts) if not path and scripts else scripts
        return self._scripts[path]

    def _find_commands(self) -> tuple[Any, ...] | None:
        """Return the values where this tool takes its command, or where tools do if the catalog does not know it."""
        if not self.request.has_input:
            return None
        paths, arguments = list_command_paths(self.request.tool), self.request.input
        if type(arguments) is dict:
            paths = tuple([path for path in paths if not path or path[0] == "*" or path[0] in arguments])
        return tuple([value for path in paths for value in self.values(path) or ()])

    def command(self, path: Path) -> Any:
        """Return the command at the path, or a list of commands."""
        values = (self.values(path) if path else self._find_commands()) or ()
        return values[0] if len(values) == 1 else list(values)

    def script(self, path: Path) -> Script | None:
        """Return the shell command at the path, or None."""
        scripts = self.scripts(path)
        return scripts[0] if scripts else None

    @property
    def project(self) -> Project | None:
        """The project as seen from the folder of the command."""
        return move_project(self.request.tool, self.request.input, self.request.project)

    def _script(self, value: Any) -> Script | None:
        self.step(_SCRIPT_STEPS + count_characters(value) // _SCRIPT_CHARACTERS)
        return read_command(value, find_tool(self.request.tool).list, self.request.project)

    def explain_argument_doubt(self, path: Path, covered_keys: frozenset[str], *, names_tool: bool) -> str:
        """Return why other arguments may change the command, or ""."""
        if not names_tool and not find_tool(self.request.tool).is_known:
            return "the catalog does not know this tool, so a rule must name it"
        if not path:
            paths = list_command_paths(self.request.tool)
            path = next((each for each in paths if self.values(each)), path)
        return explain_other_arguments(self.request.tool, self.request.input, path, covered_keys, self.request.project)


def _join_scripts(scripts: tuple[Script | None, ...]) -> tuple[Script | None, ...]:
    segments = [segment for script in scripts if script is not None for segment in script.segments]
    return (None,) if None in scripts else scripts if len(scripts) == 1 else (Script(tuple(segments)),)


def count_characters(value: Any) -> int:
    """Return the number of characters to read, including nested values."""
    total = 0
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, dict | list):
            total += len(item) * CHARACTERS
            pending.extend(item.values() if isinstance(item, dict) else item)
    return total


def find_values(request: PolicyRequest, path: Path) -> tuple[Any, ...] | None:
    """Return the values at the path of the input, None if unknown."""
    return _walk_path(request, path)[0]


def _walk_path(request: PolicyRequest, path: Path) -> tuple[tuple[Any, ...] | None, int]:
    """Return the values at the path and the number of visited values."""
    if not request.has_input:
        return None, 1
    values: list[Any] = [request.input]
    visits = 1
    for token in path:
        reached_values: list[Any] = []
        for value in values:
            if type(value) is dict and token != "*":  # noqa: S105 - a JSON Pointer's token
                if token in value:
                    reached_values.append(value[token])
                continue
            below = _step_into(value, token)
            if below is None:
                return None, visits
            reached_values += below
        visits += len(reached_values)
        if len(reached_values) > MAX_VALUES:
            return None, visits
        values = reached_values
    return tuple(values), visits


def _step_into(value: Any, token: str) -> list[Any] | None:
    """Return the values at the next step of the pointer; None if the value has no steps."""
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
