"""Classes of work: tests and builds, scripts, local git, packages, files and containers, by `classes.toml`.

A class covers a command only if every argument is understood. Paths must be inside of the project and not protected.
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
from toolcards.core.policy.shell.arguments import Arguments, read_arguments, read_specification
from toolcards.core.policy.shell.catalogs import find_program, list_names
from toolcards.core.policy.shell.plain.globs import Globs
from toolcards.core.policy.shell.work.inline_code import edits_files, find_code_work
from toolcards.core.policy.shell.work.own_programs import reads_in_container, runs_own_program
from toolcards.core.policy.shell.work.tame_words import PLAIN_ADDRESS, is_tame_assignment
from toolcards.core.policy.truth import TRUE

WORK = ("project", "scripts", "git", "packages", "files", "containers")
# Reads public addresses; pushes named branches, and works on pull requests; pushes the branch that is checked out.
OUTSIDE_WORK = ("fetches", "shares", "pushes")
# Scripts and targets of a project by their names; what is published or removed is not among them.
_SCRIPT = (
    r"(?!.*(?:deploy|publish|release|push|upload|install|destroy|drop|prod|remote))(?:test|tests|check|lint|format|fmt|"
    r"build|compile|typecheck|type-check|types|docs|generate|codegen|coverage|bench|ci|verify|validate|unit|integration|"
    r"e2e|spec)(?:[-_:.][\w.:-]*)?"
)
_SUBS = {"SCRIPT": _SCRIPT, "MODE": r"[ugoa]*[-+=][rwxX]+|0?[0-7]{3}"}  # of subs; no bit that changes users
_OWN_TOOL = re.compile(r"(?:[\w.-]+/)*(?:\.venv|venv)/bin/([\w.-]+)|(?:[\w.-]+/)*node_modules/\.bin/([\w.-]+)")
_OWN_SCRIPT = re.compile(r"(?:\./)?(gradlew|mvnw|manage\.py)")
_EMPTY = frozenset({("cat", "/dev/null"), ("echo", "-n"), ("echo", "-n", ""), ("printf", ""), ("cat",)})
_MAX_LAUNCHERS = 2  # uv run python -m pytest
_MAX_WRAPPERS = 3  # timeout 60 env CI=1 nice
_SHELLS = frozenset({"bash", "sh", "/bin/bash", "/bin/sh"})
_PYTHONS = frozenset({"python", "python3"})
_PYTHON_LAUNCHERS = frozenset({("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("hatch", "run"), ("pipenv", "run")})
_DURATION = re.compile(r"[0-9.]+[smh]?")
_SELECTION = re.compile(r"::[\w\[\]:.-]*$")
_GLOB = re.compile(r"(?P<folder>^(?:[\w-][\w.-]*/)+)[\w.-]*\*(?:[\w-]*(?P<end>\.\w{1,8}))?$", re.ASCII)
_PLAIN_VALUE = re.compile(r"(?!.*(?:^|[=:,])[/~])(?!.*\.\.(?:/|$))[^\x00-\x1f]*")
_OUTPUTS = frozenset(
    {"-o", "--output", "--output-dir", "-coverprofile", "-html", "-func", "--body-file", "-out"}
)  # their values are files
_SCRATCH = re.compile(r"/tmp/[\w-][\w.-]*")  # noqa: S108 - where agents keep outputs


@dataclass(frozen=True, slots=True)
class _WorkRow:
    work: str
    kinds: Mapping[str, int]
    style: str
    subs: tuple[tuple[str, ...], ...]
    words: re.Pattern[str] | None
    values: re.Pattern[str]
    need: frozenset[str]
    only_words: bool
    needs_word: bool
    options_first: bool
    script: bool


@dataclass(frozen=True)
class _WorkCatalog:
    rows: Mapping[str, tuple[_WorkRow, ...]]
    launchers: tuple[tuple[tuple[str, ...], frozenset[str]], ...]


@cache
def _load_work() -> _WorkCatalog:
    document = tomllib.loads(files(__package__).joinpath("classes.toml").read_text(encoding="utf-8"))
    rows: dict[str, tuple[_WorkRow, ...]] = {}
    for row in document["rows"]:
        for name in row["programs"].split():
            rows[name] = (*rows.get(name, ()), _read_row(row))
    launchers = [
        (tuple(prefix.split()), frozenset(names.split()))
        for prefixes, names in document["launchers"].items()
        for prefix in prefixes.split(" | ")
    ]
    return _WorkCatalog(rows, tuple(launchers))


def _read_row(row: Mapping[str, Any]) -> _WorkRow:
    words = row.get("words")
    for name, pattern in {"SCRIPT": _SCRIPT, "ADDRESS": PLAIN_ADDRESS}.items():
        words = words.replace(name, pattern) if words is not None else None
    return _WorkRow(
        row["work"],
        read_specification(row["options"]),
        row.get("style", "gnu"),
        tuple(tuple(text.split()) for text in row.get("subs", [])),
        re.compile(words) if words is not None else None,
        re.compile(row["values"]) if "values" in row else _PLAIN_VALUE,
        frozenset(row.get("need", "").split()),
        row.get("only_words", False),
        row.get("needs_word", False),
        row.get("options_first", False),
        row.get("script", False),
    )


@lru_cache(maxsize=1_024)
def find_work(words: tuple[str, ...], globs: Globs, folder: Project | None) -> str:
    """Return the class of work of a command, or "".

    `folder`: the project, as seen from where the command runs; None if unknown.
    """
    start, name = _find_program(words, folder)
    for row in _load_work().rows.get(name, ()):
        arguments = read_arguments(words, start, row.kinds, row.style, patterns=globs.leading)
        if _is_understood(row, arguments, start, globs, folder):
            return row.work
    if reads_in_container(words, globs):
        return "containers"
    if edits_files(words, globs, folder):
        return "files"
    if not globs.every and (code := _find_code(words, folder)):
        return find_code_work(code, folder)
    first = _skip_wrappers(words, folder)
    moved_globs = Globs(*(frozenset(place - first for place in places) for places in (globs.leading, globs.every)))
    return "scripts" if folder is not None and runs_own_program(words[first:], moved_globs, folder) else ""


def _find_code(words: tuple[str, ...], folder: Project | None) -> str:
    """Return the code that a command hands to Python, or ""."""
    start = _skip_wrappers(words, folder)
    if words[start : start + 2] in _PYTHON_LAUNCHERS:
        start += 2
    command = words[start:]
    is_python = (
        len(command) == 3
        and command[1] == "-c"
        and (command[0] in _PYTHONS or _find_own_tool(command[0], folder) in _PYTHONS)
    )
    return command[2] if is_python and folder is not None else ""


def find_shell_line(words: tuple[str, ...], globs: Globs, folder: Project | None) -> str:
    """Return the line that the command hands to a shell, or ""."""
    command = words[_skip_wrappers(words, folder) :]
    is_plain = len(command) == 3 and command[0] in _SHELLS and command[1] in {"-c", "-lc"} and not globs.every
    return command[2] if is_plain else ""


def is_emptying(words: tuple[str, ...]) -> bool:
    """Return whether a redirection of the command only empties files."""
    return words[0] in {":", "true", "false"} or words in _EMPTY


def is_local_target(target: str, folder: Project | None) -> bool:
    """Return whether a redirection may write this file as local work."""
    return _SCRATCH.fullmatch(target) is not None or _is_inside(target, folder)


def _find_program(words: tuple[str, ...], folder: Project | None) -> tuple[int, str]:
    """Return where the arguments begin, and the name of the program."""
    start = _skip_wrappers(words, folder)
    own = _find_own_tool(words[start], folder)
    head = (list_names(own)[-1] if own else words[start], *words[start + 1 :])
    for _ in range(_MAX_LAUNCHERS):
        prefix = next((len(prefix) for prefix, names in _load_work().launchers if _launches(head, prefix, names)), 0)
        start, head = start + prefix, head[prefix:]
    if head[0] in {"python", "python3"} and len(head) > 1 and _OWN_SCRIPT.fullmatch(head[1]):
        start, head = start + 1, head[1:]
    script = _OWN_SCRIPT.fullmatch(head[0])
    name = script[1] if script is not None and folder is not None else head[0]
    return start + 1, name


def _skip_wrappers(words: tuple[str, ...], folder: Project | None) -> int:
    """Return where the command begins behind `timeout 60`, `nice` and `env A=b` with harmless variables."""
    start, env = 0, find_program("env")
    for _ in range(_MAX_WRAPPERS):
        command = words[start:]
        if command[0] == "timeout" and len(command) > 2 and _DURATION.fullmatch(command[1]):
            start += 2
        elif command[0] == "nice" and len(command) > 1:
            start += 3 if len(command) > 3 and command[1] == "-n" and command[2].isdecimal() else 1
        elif command[:2] == ("env", "-u") and len(command) > 3 and command[2].isidentifier():
            start += 3 if "=" not in command[3] else 0
        elif command[0] == "env" and env is not None and env.assign is not None:
            assigns = [env.assign.fullmatch(word) or is_tame_assignment(word, folder) for word in command]
            start += next((place for place, is_harmless in enumerate(assigns) if place and not is_harmless), 0)
    return start


def _launches(head: tuple[str, ...], prefix: tuple[str, ...], names: frozenset[str]) -> bool:
    return head[: len(prefix)] == prefix and len(head) > len(prefix) and head[len(prefix)] in names


def _find_own_tool(word: str, folder: Project | None) -> str:
    """Return the name of a program that is installed in the project, or ""."""
    match = _OWN_TOOL.fullmatch(word.removeprefix("./"))
    if match is None or folder is None or ".." in word.split("/") or folder.contains(word) is not TRUE:
        return ""
    return match[1] or match[2]


def _is_understood(row: _WorkRow, arguments: Arguments, start: int, globs: Globs, folder: Project | None) -> bool:
    if arguments.unknown or arguments.option_values or (row.need and not row.need & arguments.names):
        return False
    if not all(_takes_value(row, name, value) for name, value in arguments.options):
        return False
    outputs = [value for name, value in arguments.options if name in _OUTPUTS and value not in {"", "/dev/null"}]
    if not all(is_local_target(value, folder) for value in outputs):
        return False
    operands = arguments.operands
    if globs.every - {place for place, _ in operands}:
        return False
    if row.subs:
        names = tuple(word for _, word in operands)
        lengths = [len(sub) for sub in row.subs if _begins(names, sub)]
        if not lengths or (operands[0][0] != start and not row.options_first):
            return False
        operands = operands[max(lengths) :]
    if row.needs_word and not operands:
        return False
    if row.script and row.words is not None:  # a file, and one text that is surely harmless
        return len(operands) == 2 and _is_inside(operands[0][1], folder) and bool(row.words.fullmatch(operands[1][1]))
    return all(_takes_operand(row, word, folder) for _, word in operands)


def _begins(names: tuple[str, ...], sub: tuple[str, ...]) -> bool:
    """Return whether the operands begin with the sub-command, whose words may be names of `_SUBS`."""
    return len(names) >= len(sub) and all(
        name == each or (each in _SUBS and re.fullmatch(_SUBS[each], name))
        for name, each in zip(names, sub, strict=False)
    )


def _takes_value(row: _WorkRow, name: str, value: str) -> bool:
    is_message = row.work == "git" and name in {"-F", "--file"}
    is_scratch = (is_message or name in _OUTPUTS) and _SCRATCH.fullmatch(value) is not None
    return not value or row.values.fullmatch(value) is not None or is_scratch


def _takes_operand(row: _WorkRow, word: str, folder: Project | None) -> bool:
    if row.words is not None and row.words.fullmatch(word):
        return True
    if row.only_words or word.startswith("-") or folder is None or "://" in word:
        return False
    if row.work == "project" and word.startswith("@"):  # a file of more arguments
        return False
    word = _GLOB.sub(r"\g<folder>x\g<end>", word) if row.work in {"git", "project"} else word
    if row.work == "git":  # which only records what is there
        return folder.contains(word) is TRUE
    return _is_inside(_SELECTION.sub("", word), folder) or (row.work == "files" and is_local_target(word, folder))


def _is_inside(word: str, folder: Project | None) -> bool:
    return bool(word) and folder is not None and folder.locate(word) is TRUE
