"""The catalogs, read once: programs with their effects (`programs.toml`), and tools for commands (`shell_tools.toml`).

Of a tool it says which argument is a shell command, what a list there means, and which other arguments are harmless.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from toolcards.core.policy.places.project import Project
from toolcards.core.policy.shell.program_forms import EFFECTS, InvalidCatalog, ProgramForm, read_form

__all__ = ["EFFECTS", "InvalidCatalog", "ProgramCatalog", "ProgramForm", "find_program", "load_programs"]
_VERSION = re.compile(r"([a-z+-]*[a-z+])(-?)([0-9]+(?:\.[0-9]+)*)[a-z]?")


class ProgramCatalog:
    """All programs by name. Reads the row of a program when it is first looked for, since most never are.

    Raises InvalidCatalog for a name that is listed twice, and at the first use of an invalid row.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._shared, self._languages = document.get("options", {}), document.get("languages", {})
        self._rows: dict[str, Mapping[str, Any]] = {}
        self._forms: dict[str, ProgramForm] = {}
        self._globs: list[tuple[re.Pattern[str], str]] = []
        for names, row in document["programs"].items():
            for name in names.split():
                if name in self._rows:
                    raise InvalidCatalog(f"{name} is listed twice")
                self._rows[name] = row
                if "*" in name:
                    self._globs.append((re.compile(re.escape(name).replace(r"\*", ".*")), name))
        self._versioned = frozenset(name for name, row in self._rows.items() if row.get("versioned"))

    def _read(self, name: str) -> ProgramForm:
        form = self._forms.get(name)
        if form is None:
            form = self._forms[name] = read_form(name, self._rows[name], self._shared, self._languages)
        return form

    @property
    def forms(self) -> Mapping[str, ProgramForm]:
        """Return all forms by the name of their row."""
        return {name: self._read(name) for name in self._rows}

    def find(self, name: str) -> ProgramForm | None:
        """Return the form of a program; python3.11 is python."""
        for exact in (name, *self.bases(name)):
            if exact in self._rows and "*" not in exact:
                return self._read(exact)
        return next((self._read(glob) for pattern, glob in self._globs if pattern.fullmatch(name)), None)

    def bases(self, name: str) -> tuple[str, ...]:
        """Return the names of which this one is a version.

        For example, python3.11 is a version of python3 and of python.
        """
        parts = _VERSION.fullmatch(name)
        if parts is None or parts[1] not in self._versioned:
            return ()
        numbers = parts[3].split(".")
        shorter = [".".join(numbers[:count]) for count in range(len(numbers) - 1, 0, -1)]
        return (*(f"{parts[1]}{parts[2]}{number}" for number in shorter), parts[1])


@cache
def load_programs() -> ProgramCatalog:
    """Return the catalog of this package."""
    text = files(__package__).joinpath("programs.toml").read_text(encoding="utf-8")
    return ProgramCatalog(tomllib.loads(text))


@lru_cache(maxsize=2_048)
def strip_program_name(word: str) -> str:
    """Return a program's name in lower case, without directory and .exe."""
    name = word.rsplit("/", 1)[-1].rsplit("\\", 1)[-1].lower()
    return re.sub(r"\.(exe|cmd|bat|com)$", "", name)


@lru_cache(maxsize=2_048)
def find_program(word: str) -> ProgramForm | None:
    """Return the form of the program that this word names, or None."""
    return load_programs().find(strip_program_name(word))


@lru_cache(maxsize=2_048)
def list_names(word: str) -> tuple[str, ...]:
    """Return the program's names in rules: its own and those without version."""
    name = strip_program_name(word)
    return (name, *load_programs().bases(name))


def is_plain_name(word: str) -> bool:
    """Return whether the word certainly means the program of that name.

    It must be a bare name, or in a directory of the system.
    """
    directory, slash, name = word.rpartition("/")
    return name == strip_program_name(word) and (not slash or directory in {"/bin", "/usr/bin"})


LISTS = ("", "words", "lines")
# Reasons are stored unencrypted, so they name no argument that the agent invented.
_REPORTED_ARGUMENTS = frozenset({"env", "cwd", "workdir", "shell", "directory", "dangerouslyDisableSandbox"})
_FIELDS = frozenset({"command", "list", "harmless", "unset", "folder", "foreign"})


@dataclass(frozen=True, slots=True)
class CommandTool:
    """How one tool takes its command.

    `paths`: the paths of the command; empty for an unknown tool. `list`: what a list is, `words` or `lines`.
    `harmless`: keys without effect on the command; `unset`: keys without effect if their value is empty.
    `folders`: keys of the folder in which it runs. `foreign`: the text is not for a POSIX shell.
    """

    paths: tuple[tuple[str, ...], ...] = ()
    list: str = ""
    harmless: frozenset[str] = frozenset()
    unset: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
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
    text = files(__package__).joinpath("shell_tools.toml").read_text(encoding="utf-8")
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
                frozenset(row.get("folder", "").split()),
                row.get("foreign", False),
            )
    return tools


def find_tool(name: str) -> CommandTool:
    """Return how this tool takes its command."""
    tools = load_tools()
    return tools.get(name.strip().lower(), tools["*"])


@cache
def _list_usual_paths() -> tuple[tuple[str, ...], ...]:
    return tuple(dict.fromkeys(path for tool in load_tools().values() for path in tool.paths))


def list_command_paths(name: str) -> tuple[tuple[str, ...], ...]:
    """Return where this tool takes its command.

    Of a tool that the catalog does not know, these are the places where any tool does.
    """
    return find_tool(name).paths or _list_usual_paths()


def explain_other_arguments(
    name: str,
    arguments: Any,
    path: tuple[str, ...],
    covered_keys: frozenset[str] = frozenset(),
    project: Project | None = None,
) -> str:
    """Return why other arguments may change the command, or "".

    `covered_keys`: keys of the arguments that other conditions of the same clause read. A folder inside of the
    project changes nothing about what runs.
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
                if key in tool.folders and _move(project, value[key]) is not None:
                    continue
                if key != token and not _is_harmless_argument(tool, key, value[key], covered_keys, depth):
                    argument = f"the argument {key}" if key in _REPORTED_ARGUMENTS else "another argument"
                    return f"{argument} may change what runs"
            value = value.get(token)
    return ""


def move_project(name: str, arguments: Any, project: Project | None) -> Project | None:
    """Return the project as seen from the folder in the arguments.

    None if it is not certain.
    """
    keys = find_tool(name).folders
    levels = [arguments, arguments.get("action")] if isinstance(arguments, dict) else []
    found_folders = [level[key] for level in levels if isinstance(level, dict) for key in keys & level.keys()]
    folders = [folder for folder in found_folders if folder not in (None, "")]
    return project if not folders else _move(project, folders[0]) if len(folders) == 1 else None


def _move(project: Project | None, folder: Any) -> Project | None:
    return project.move(folder) if project is not None and isinstance(folder, str) else None


def _select_item(items: list[Any], token: str) -> Any:
    """Return the first object or list among the items, for a path with an index."""
    inner = [item for item in items if isinstance(item, dict | list)]
    return inner[0] if inner and token != "*" else None  # noqa: S105 - a JSON Pointer's token


def _is_harmless_argument(tool: CommandTool, key: str, value: Any, covered_keys: frozenset[str], depth: int) -> bool:
    """Return whether this argument has no effect on the command."""
    if key in tool.harmless or (depth == 0 and key in covered_keys):
        return True
    return key in tool.unset and value in (None, False, "", [], {})
