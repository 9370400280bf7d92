"""Which argument of a tool is a shell command, what a list there means, and which other arguments are harmless."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from toolcards.core.policy.shell.program_catalog import InvalidCatalog

LISTS = ("", "words", "lines")
# Reasons are stored unencrypted, so they name no argument that the agent invented.
_REPORTED_ARGUMENTS = frozenset({"env", "cwd", "workdir", "shell", "directory", "dangerouslyDisableSandbox"})
_FIELDS = frozenset({"command", "list", "harmless", "unset", "foreign"})


@dataclass(frozen=True, slots=True)
class CommandTool:
    """How one tool takes its command.

    `paths`: the paths of the command; empty for an unknown tool. `list`: what a list is, `words` or `lines`.
    `harmless`: keys without effect on the command; `unset`: keys without effect if their value is empty.
    `foreign`: the text is not for a POSIX shell.
    """

    paths: tuple[tuple[str, ...], ...] = ()
    list: str = ""
    harmless: frozenset[str] = frozenset()
    unset: frozenset[str] = frozenset()
    foreign: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the catalog lists it."""
        return bool(self.paths) or self.foreign


@cache
def load_tools() -> Mapping[str, CommandTool]:
    """Return all tools by their name in lower case.

    Raises InvalidCatalog for an invalid row.
    """
    text = files(__package__).joinpath("tools.toml").read_text(encoding="utf-8")
    tools: dict[str, CommandTool] = {}
    for names, row in tomllib.loads(text)["tools"].items():
        for name in names.split():
            if name in tools or set(row) - _FIELDS or row.get("list", "") not in LISTS:
                raise InvalidCatalog(f"{name} is listed twice or has an unknown field")
            tools[name] = CommandTool(
                tuple(tuple(path.split("/")[1:]) for path in row.get("command", "").split()),
                row.get("list", ""),
                frozenset(row.get("harmless", "").split()),
                frozenset(row.get("unset", "").split()),
                row.get("foreign", False),
            )
    return tools


@lru_cache(maxsize=1_024)
def find_tool(name: str) -> CommandTool:
    """Return how this tool takes its command."""
    tools = load_tools()
    return tools.get(name.strip().lower(), tools["*"])


def explain_other_arguments(
    name: str, arguments: Any, path: tuple[str, ...], covered_keys: frozenset[str] = frozenset()
) -> str:
    """Return why other arguments may change the command, or "".

    `covered_keys`: keys of the arguments that other conditions of the same clause read.
    """
    tool = find_tool(name)
    if tool.foreign:
        return "the tool takes no commands for a shell"
    if tool.paths and path not in tool.paths and path[:-1] not in tool.paths:
        return "the tool takes its command elsewhere"
    value = arguments
    for depth, token in enumerate(path):
        if isinstance(value, list):
            value = _select_item(value, token)
        elif isinstance(value, dict):
            for key in value:
                if key != token and not _is_harmless_argument(tool, key, value[key], covered_keys, depth):
                    argument = f"the argument {key}" if key in _REPORTED_ARGUMENTS else "another argument"
                    return f"{argument} may change what runs"
            value = value.get(token)
    return ""


def _select_item(items: list[Any], token: str) -> Any:
    """Return the first object or list among the items, for a path with an index."""
    inner = [item for item in items if isinstance(item, dict | list)]
    return inner[0] if inner and token != "*" else None  # noqa: S105 - a JSON Pointer's token


def _is_harmless_argument(tool: CommandTool, key: str, value: Any, covered_keys: frozenset[str], depth: int) -> bool:
    """Return whether this argument has no effect on the command."""
    if key in tool.harmless or (depth == 0 and key in covered_keys):
        return True
    return key in tool.unset and value in (None, False, "", [], {})
