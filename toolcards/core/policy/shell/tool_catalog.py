"""Which argument of a tool is a shell command, what a list there means, and what may stand next to it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from toolcards.core.policy.shell.program_catalog import InvalidCatalog

LISTS = ("", "words", "lines")
# Reasons are stored in the clear, so they name no argument that only the agent knows.
_NAMED = frozenset({"env", "cwd", "workdir", "shell", "directory", "dangerouslyDisableSandbox"})
_FIELDS = frozenset({"command", "list", "harmless", "unset", "foreign"})


@dataclass(frozen=True, slots=True)
class CommandTool:
    """How one tool takes its command.

    `paths`: where the command stands; none for a tool that is not known. `list`: what a list is, `words` or `lines`.
    `harmless`: keys that change nothing about what runs; `unset`: those that do not while they hold nothing.
    `foreign`: the text is not for a POSIX shell.
    """

    paths: tuple[tuple[str, ...], ...] = ()
    list: str = ""
    harmless: frozenset[str] = frozenset()
    unset: frozenset[str] = frozenset()
    foreign: bool = False

    @property
    def known(self) -> bool:
        """Whether the catalogue lists it."""
        return bool(self.paths) or self.foreign


@cache
def load_tools() -> Mapping[str, CommandTool]:
    """Return all tools by their name in lower case; raise BadCatalogue for a row that cannot be meant."""
    text = files(__package__).joinpath("tools.toml").read_text(encoding="utf-8")
    tools: dict[str, CommandTool] = {}
    for names, row in tomllib.loads(text)["tools"].items():
        for name in names.split():
            if name in tools or set(row) - _FIELDS or row.get("list", "") not in LISTS:
                raise InvalidCatalog(f"{name} is listed twice, or has a field that is not known")
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
    """Return how this tool takes its command, as far as it is known."""
    tools = load_tools()
    return tools.get(name.strip().lower(), tools["*"])


def explain_other_arguments(
    name: str, arguments: Any, path: tuple[str, ...], named: frozenset[str] = frozenset()
) -> str:
    """Return why other arguments may change what the command at the path does; empty if none does.

    `named`: keys of the arguments about which the same clause of the rule says something itself.
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
                if key != token and not _is_harmless_argument(tool, key, value[key], named, depth):
                    return f"{'the argument ' + key if key in _NAMED else 'another argument'} may change what runs"
            value = value.get(token)
    return ""


def _select_item(items: list[Any], token: str) -> Any:
    """Return an item of the list; of several, one that stands for all: none of them is an object."""
    inner = [item for item in items if isinstance(item, dict | list)]
    return inner[0] if inner and token != "*" else None  # noqa: S105 - a JSON Pointer's token


def _is_harmless_argument(tool: CommandTool, key: str, value: Any, named: frozenset[str], depth: int) -> bool:
    """Return whether this argument changes nothing about what runs."""
    if key in tool.harmless or (depth == 0 and key in named):
        return True
    return key in tool.unset and value in (None, False, "", [], {})
