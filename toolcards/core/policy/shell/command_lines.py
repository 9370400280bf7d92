"""The command line in the arguments of a tool, and its spelling command by command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from toolcards.core.policy.shell.catalogs import find_tool, list_command_paths
from toolcards.core.policy.shell.plain.parser import MAX_BYTES
from toolcards.core.policy.shell.script import read_line

_JOINT = re.compile(r"(?:[ \n;&|]|#[^\n]*)*")  # what stands between commands: nothing of it runs


class SpelledCommand(NamedTuple):
    """One command of a line: what joins it to the one before it, and its spelling."""

    joint: str
    text: str


def find_command_line(tool: str, arguments: Any) -> str:
    """Return the text that is the only command, or ""."""
    names: Any = arguments if isinstance(arguments, Mapping) else ()
    values = [_get_value(arguments, path) for path in _list_paths(tool) if not path or path[0] in names]
    lines = [value for value in values if value is not None]
    return lines[0] if len(lines) == 1 and isinstance(lines[0], str) else ""


def replace_command_line(tool: str, arguments: Any, line: str) -> Any:
    """Return the arguments with another command line."""
    path = next(path for path in _list_paths(tool) if _get_value(arguments, path) is not None)
    return _replace_value(arguments, path, line)


def spell_commands(line: str) -> tuple[SpelledCommand, ...]:
    """Return the commands of a line, () if it is unclear.

    Joints and texts together are the line up to the end of its last command. A line that runs one spelling several
    times (a loop), or sets variables, has no such spelling.
    """
    if len(line) > MAX_BYTES:
        return ()
    commands: list[SpelledCommand] = []
    place = 0
    for segment in read_line(line).segments:
        start = line.find(segment.text, place)
        if segment.opaque or start < 0 or not _JOINT.fullmatch(line, place, start):
            return ()
        commands.append(SpelledCommand(line[place:start], segment.text))
        place = start + len(segment.text)
    return tuple(commands) if _JOINT.fullmatch(line, place) else ()


def _list_paths(tool: str) -> tuple[tuple[str, ...], ...]:
    return () if find_tool(tool).foreign else list_command_paths(tool)


def _get_value(arguments: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        arguments = arguments.get(key) if isinstance(arguments, Mapping) else None
    return arguments


def _replace_value(arguments: Any, path: tuple[str, ...], value: Any) -> Any:
    return dict(arguments) | {path[0]: _replace_value(arguments[path[0]], path[1:], value)} if path else value
