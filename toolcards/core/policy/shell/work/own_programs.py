"""The project's own programs: its scripts, and the names that its makefile or package file gives to commands.

What such a program does is written in the project; a person who allows them allows what an agent writes there.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

from toolcards.core.policy.places.project import Project
from toolcards.core.policy.shell.analysis import analyze_command
from toolcards.core.policy.shell.catalogs import find_program
from toolcards.core.policy.shell.plain.globs import Globs
from toolcards.core.policy.shell.work.inline_code import only_calculates
from toolcards.core.policy.shell.work.tame_words import is_loud, is_tame
from toolcards.core.policy.truth import TRUE

_INTERPRETERS_TEXT = "python python3 node ruby php bash sh tsx ts-node deno bun Rscript julia lua"
_INTERPRETERS = frozenset(_INTERPRETERS_TEXT.split())
_HARMLESS_OPTIONS = frozenset({"-u", "-B", "-s", "-E", "-I"})
_LAUNCHERS = frozenset({("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("pipenv", "run"), ("hatch", "run")})
_PACKAGE_MANAGERS = frozenset({"npm", "pnpm", "yarn", "bun"})
# Before the name of a tool that is installed in the project
_TOOL_LAUNCHERS = _LAUNCHERS | {("pnpm", "exec"), ("yarn", "exec")}
_TOOL_PATH = re.compile(r"(?:\./)?(?:[\w.-]+/)*(?:(?:\.venv|venv)/bin|node_modules/\.bin)/([\w.-]+)")
_FILTERS = frozenset({"--filter", "-F", "-w", "--workspace", "-C", "--dir", "--prefix", "--cwd"})  # with a value
_SWITCHES = frozenset({"-r", "-s", "--silent", "--recursive", "--if-present", "--workspaces", "-w"})
_RUNNERS = frozenset({"make", "gmake", "just", "task", "rake", "gradle", "gradlew", "mvn", "mvnw", "manage.py"})
_BUILDERS = frozenset({("cargo", "run"), ("go", "run"), ("composer", "run"), ("dart", "run"), ("mix", "run")})
_EXECS = frozenset({("docker", "compose", "exec"), ("podman", "compose", "exec"), ("docker", "compose", "run")})
_EXEC_OPTIONS = frozenset({"--rm", "-T", "-t", "-i", "-it", "--no-TTY", "--interactive=false"})
_DATABASE_READERS = frozenset({"psql", "redis-cli", "valkey-cli", "pg_isready"})
_NAME = re.compile(r"[A-Za-z][\w:.@/-]*")
_STDIN = frozenset({"-", "/dev/stdin"})
_TOOL_FOLDERS = frozenset({".venv", "venv", ".tox", ".nox", "node_modules", "vendor"})
_PLUGIN = re.compile(r"^[\w.-]+:[\w.-]+:|^[\w-]+\.[\w.-]+:")
_TOOL_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_WRAPPERS = re.compile(r"(?:\./)?(gradlew|mvnw|manage\.py)")


def reads_in_container(words: tuple[str, ...], globs: Globs) -> bool:
    """Return whether a command only reads a database of a container.

    Or it only calculates there.
    """
    if words[:3] not in _EXECS or globs.every or (words[2] == "run" and "--rm" not in words[3:5]):
        return False
    start = next((place for place, word in enumerate(words) if place > 2 and word not in _EXEC_OPTIONS), len(words))
    inner = words[start + 1 :]
    if inner[:2] in {("python", "-c"), ("python3", "-c")} and len(inner) == 3:
        return only_calculates(inner[2])
    return bool(inner) and inner[0] in _DATABASE_READERS and analyze_command(inner).read_only


@cache
def _load_words() -> dict[str, frozenset[str]]:
    document = tomllib.loads(files(__package__).joinpath("own_programs.toml").read_text(encoding="utf-8"))
    return {name: frozenset(text.split()) for name, text in document.items()}


def runs_own_program(words: tuple[str, ...], globs: Globs, project: Project) -> bool:
    """Return whether a command runs a program of the project.

    Its arguments name nothing outside.
    """
    if globs.leading or "=" in words[0] or any(word in _STDIN or word.startswith("-f-") for word in words):
        return False
    start, has_name = _find_arguments(words, project)
    arguments = words[start:]
    # Of a makefile in /tmp, the name of a target says nothing.
    is_elsewhere = has_name and any("/tmp/" in word for word in arguments)  # noqa: S108
    if words[0].endswith(("mvn", "mvnw")) and any(_PLUGIN.search(word) for word in arguments):  # from a registry
        return False
    if words[0] == "cargo" and any(word.startswith("--config") for word in arguments[: _find_end(arguments)]):
        return False  # it names a program that runs
    is_module = words[:2] == ("go", "run") and not "".join(words[2:3]).startswith(".")  # of another server
    return bool(start) and not is_elsewhere and not is_module and all(is_tame(word, project) for word in arguments)


def _find_arguments(words: tuple[str, ...], project: Project) -> tuple[int, bool]:
    """Return where the arguments of the project's own program begin, or 0.

    Also whether it is only a name, which a file of the project explains.
    """
    tool = _find_tool(words, project)
    if tool:
        return tool, False
    if words[:2] in _LAUNCHERS:
        start = 3 if words[2:3] in {("python",), ("python3",)} else 2
        return (start if _is_script(words[start : start + 1], project) else 0), False
    name = words[0].rpartition("/")[2]
    is_own = "/" in words[0] and project.locate(words[0]) is TRUE
    if name in _INTERPRETERS and ("/" not in words[0] or is_own):
        start = next((place for place, word in enumerate(words) if place and word not in _HARMLESS_OPTIONS), 0)
        return (start if _is_script(words[start : start + 1], project) else 0), False
    if words[0] in _PACKAGE_MANAGERS:
        return _find_named_script(words), True
    if words[0] in _RUNNERS or _WRAPPERS.fullmatch(words[0]) or words[:2] in _BUILDERS:
        return 1, True
    return int(is_own and not _TOOL_FOLDERS & set(words[0].split("/")[:-1]) and not is_loud(name)), False


def _find_tool(words: tuple[str, ...], project: Project) -> int:
    """Return where the arguments of a tool of the project begin, or 0.

    It is installed in the project and sends nothing.
    """
    match = _TOOL_PATH.fullmatch(words[0])
    start = 1
    if match is None or project.locate(words[0]) is not TRUE:
        start = _skip_filters(words)
        if (words[0], *words[start : start + 1]) not in _TOOL_LAUNCHERS:
            return 0
        start += 2
    name = match[1] if match is not None else words[start - 1 : start][0] if len(words) >= start else ""
    is_known = not name or name in _load_words()["senders"] or find_program(name) is not None or is_loud(name)
    return 0 if is_known or not _TOOL_NAME.fullmatch(name) else start


def _find_end(arguments: tuple[str, ...]) -> int:
    """Return where the arguments of the program itself end."""
    return arguments.index("--") if "--" in arguments else len(arguments)


def _skip_filters(words: tuple[str, ...]) -> int:
    """Return where the words begin behind options that name a part of the project."""
    place = 1
    while place < len(words) and (words[place] in _SWITCHES or words[place].partition("=")[0] in _FILTERS):
        takes_next = words[place] in _FILTERS and (words[place] != "-w" or words[0] != "pnpm")
        place += 2 if takes_next else 1
    return place


def _is_script(words: tuple[str, ...], project: Project) -> bool:
    """Return whether a word is a file of the project, and no option or module."""
    return any(
        not word.startswith("-")
        and "." in word
        and project.locate(word) is TRUE
        and not _TOOL_FOLDERS & set(word.split("/")[:-1])
        for word in words
    )


def _find_named_script(words: tuple[str, ...]) -> int:
    """Return where the arguments begin if a script is run by its name, or 0."""
    place = _skip_filters(words)
    if place < len(words) and words[place] in {"run", "run-script"}:
        place += 1
    elif words[0] in {"npm", "bun"} or (place < len(words) and words[place] in _load_words()["package_manager_words"]):
        return 0
    return int(place < len(words) and _NAME.fullmatch(words[place]) is not None)
