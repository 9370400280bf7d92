"""What an agent never needs to do: delete a home or a system, rewrite protected branches, run unread code, free itself.

Unlike other conditions this one has no doubts: other rules ask about what is not certain.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from toolcards.core.policy.changes.edit_tools import load_edit_tools
from toolcards.core.policy.evaluation_context import CHARACTERS, EvaluationContext, count_characters
from toolcards.core.policy.places.patches import read_patch
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.shell.analysis import analyze_command
from toolcards.core.policy.shell.catalogs import strip_program_name
from toolcards.core.policy.shell.script import CommandSegment, Script
from toolcards.core.policy.truth import UNKNOWN, Truth, to_truth

_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash", "fish"})
_INTERPRETERS = _SHELLS | {"python", "python3", "node", "perl", "ruby", "php"}
_DOWNLOADS = frozenset({"curl", "wget", "fetch", "aria2c", "http", "https"})
_WRITERS = frozenset({"tee", "sed", "gsed", "rm", "unlink", "touch", "truncate", "chmod", "chown", "sponge", "shred"})
_COPIERS = frozenset({"cp", "mv", "ln", "install", "rsync", "gcp", "gmv"})
_TREES = frozenset({"rm", "grm", "shred"})
_ELSEWHERE = frozenset({"docker", "podman", "nerdctl", "kubectl", "oc", "ssh", "lxc", "vagrant", "multipass", "wsl"})
_DATABASE_CHANGE = re.compile(r"(?:insert|update|delete|drop|alter|create|replace|vacuum)\b", re.IGNORECASE)
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--recursive")
_HOME_IN_TEXT = re.compile(
    r"(?<![\w./-])rm\s+(?:-\S+\s+)*-(?:[A-Za-z]*[rR][A-Za-z]*|-recursive)\s+(?:-\S+\s+)*"
    r"[\"']?(?:\$HOME|\$\{HOME\})[\"']?/?\*?[\"']?(?=\s|[;&|)]|\Z)"
)
_DOWNLOADED_CODE = re.compile(
    r"(?<![\w./-])(?:(?:ba|z|da|k|a)?sh\s+(?:-\S+\s+)*-\w*c|eval|source|\.)\s+[\"']?(?:\$\(|`|<\()\s*(?:curl|wget)\s"
)
_NO_CODE = re.compile(r"-[uBIsSqwW]+")
_IN_PLACE = re.compile(r"-[A-Za-z]*[iI]|--i")
_FORCE = re.compile(r"-[a-z]*f[a-z]*|--force(?:-with-lease|-if-includes)?(?:=.*)?|--mirror")
_MAX_TEXTS, _MAX_DEPTH = 2_000, 6


@dataclass(frozen=True, slots=True)
class _HarmCatalog:
    roots: tuple[re.Pattern[str], ...]
    devices: re.Pattern[str]
    redirects: re.Pattern[str]
    disk_programs: re.Pattern[str]
    branches: re.Pattern[str]
    agents: frozenset[str]
    free_arguments: frozenset[str]
    paths: dict[str, re.Pattern[str]]


@cache
def load_harms() -> _HarmCatalog:
    """Return the catalog of this package."""
    document = tomllib.loads(files(__package__).joinpath("harms.toml").read_text(encoding="utf-8"))
    return _HarmCatalog(
        tuple(re.compile(_to_pattern(root), re.IGNORECASE) for root in document["folders"]["roots"].split()),
        re.compile(document["disks"]["devices"]),
        re.compile(rf"(?<![\w'\"])>{{1,2}}\s*{document['disks']['devices']}"),
        _compile_names(document["disks"]["programs"]),
        _compile_names(document["branches"]["protected"]),
        frozenset(document["agents"]["programs"].split()),
        frozenset(document["agents"]["free"].split()),
        {
            name: re.compile(rf"(?:.*[/\\])?(?:{'|'.join(map(_to_pattern, paths.split()))})", re.IGNORECASE | re.DOTALL)
            for name, paths in document["paths"].items()
        },
    )


def _to_pattern(glob: str) -> str:
    return re.escape(glob).replace("/", r"[/\\]+").replace(r"\*", r"[^/\\]+")


def _compile_names(globs: str) -> re.Pattern[str]:
    return re.compile("|".join(map(_to_pattern, globs.split())))


def find_harms(request: PolicyRequest, scripts: tuple[Script | None, ...]) -> frozenset[str]:
    """Return the harms that the call certainly does; `scripts` are its commands."""
    harms: set[str] = set()
    for script in scripts:
        if script is not None:
            harms |= _find_harms_of_script(script)
    if {"edit", "delete", "move"}.intersection(request.kinds):
        for path in _list_edited_paths(request.input):
            harms |= _find_harms_of_path(path)
    return frozenset(harms)


def _find_harms_of_path(path: str) -> set[str]:
    return {name for name, pattern in load_harms().paths.items() if pattern.fullmatch(path)}


def _list_edited_paths(value: Any) -> Iterator[str]:
    """Yield the paths in the input of an edit tool, and those that its patches name."""
    catalog = load_edit_tools()
    pending: list[tuple[str, Any, int]] = [("", value, 0)]
    count = 0
    while pending and count < _MAX_TEXTS:
        key, item, depth = pending.pop()
        count += 1
        if isinstance(item, dict) and depth < _MAX_DEPTH:
            pending += [(str(name), each, depth + 1) for name, each in item.items()]
        elif isinstance(item, list) and depth < _MAX_DEPTH:
            pending += [(key, each, depth + 1) for each in item]
        elif isinstance(item, str):
            if key in catalog.paths:
                yield item
            elif "\n" in item and (key in catalog.diffs or key in {"", "command"}):
                yield from read_patch(item).paths


# ---------------------------------------------------------------- commands


def _find_harms_of_script(script: Script) -> set[str]:
    harms: set[str] = set()
    views = [view for segment in script.segments for view in _list_own_views(segment)]
    for view in views:
        harms |= _find_harms_of_command(strip_program_name(view[0]), view[1:])
    for segment in script.segments:
        for target in segment.targets:
            harms |= _find_harms_of_path(target)
            if load_harms().devices.fullmatch(target):
                harms.add("system")
    if _runs_download(script, views):
        harms.add("unread-code")
    if script.hidden and (_HOME_IN_TEXT.search(script.line) or load_harms().redirects.search(script.line)):
        harms.add("system")
    return harms


def _list_own_views(segment: CommandSegment) -> list[tuple[str, ...]]:
    """Return the commands that run on this computer: the paths of others are not ours."""
    views = [view for view in segment.views if view]
    return [] if any(strip_program_name(view[0]) in _ELSEWHERE for view in views) else views


def _runs_download(script: Script, views: list[tuple[str, ...]]) -> bool:
    """Return whether code from the network goes straight to a program that runs it."""
    names = {strip_program_name(view[0]) for view in views}
    if not names & _DOWNLOADS:
        return False
    if any(_is_piped(view, _SHELLS) for view in views):
        return True
    for before, segment in zip(script.segments, script.segments[1:], strict=False):
        runs_input = any(_is_piped(view, _INTERPRETERS) for view in segment.views)
        if (
            runs_input
            and "|" in script.line
            and any(strip_program_name(view[0]) in _DOWNLOADS for view in before.views)
        ):
            return True
    return script.hidden and _DOWNLOADED_CODE.search(script.line) is not None


def _is_piped(view: tuple[str, ...], programs: frozenset[str]) -> bool:
    """Return whether the command is one of these programs and runs what is piped into it."""
    if strip_program_name(view[0]) not in programs:
        return False
    if strip_program_name(view[0]) not in _SHELLS:  # `-c`, `-e` and the like give the code in the call
        return all(map(_NO_CODE.fullmatch, view[1 : view.index("-") if "-" in view else None]))
    return view[1:2] == ("-s",) or analyze_command(view).piped


def _find_harms_of_command(name: str, words: tuple[str, ...]) -> set[str]:
    harms: set[str] = set()
    operands = [word for word in words if not word.startswith("-")]
    if name in _TREES and any(map(_RECURSIVE.fullmatch, words)) and any(map(_is_root, operands)):
        harms.add("system")
    if name in {"find", "gfind"} and _deletes_found_files(words) and any(map(_is_root, operands[:1])):
        harms.add("system")
    if _writes_disk(name, words):
        harms.add("system")
    if name == "git" and _rewrites_protected_branch(words):
        harms.add("history")
    if name in load_harms().agents and load_harms().free_arguments.intersection(words):
        harms.add("agent-permissions")
    if name == "systemctl" and {"stop", "disable", "kill", "mask"}.intersection(words) and _names_gate(operands):
        harms.add("gate")
    if name in {"sed", "gsed"} and not any(map(_IN_PLACE.match, words)):
        return harms
    changed_paths = operands if name in _WRITERS else operands[-1:] if name in _COPIERS else []
    if name == "sqlite3" and any(map(_DATABASE_CHANGE.search, operands)):
        changed_paths = operands[:1]
    for path in changed_paths:
        harms |= _find_harms_of_path(path)
    return harms


def _names_gate(operands: list[str]) -> bool:
    return any(word.removesuffix(".service") == "toolcards" for word in operands)


def _is_root(path: str) -> bool:
    """Return whether a path is a root, or everything in it."""
    folder = re.sub(r"(?<=.)/+\*?\Z", "", path) if path not in {"/", "/*"} else "/"
    return any(pattern.fullmatch(folder) for pattern in load_harms().roots)


def _deletes_found_files(words: tuple[str, ...]) -> bool:
    depth_tests = {"-name", "-iname", "-path", "-mtime", "-newer", "-size", "-regex", "-empty", "-user", "-mmin"}
    return "-delete" in words and not depth_tests.intersection(words)


def _writes_disk(name: str, words: tuple[str, ...]) -> bool:
    catalog = load_harms()
    if name in {"dd", "gdd"}:
        return any(word.startswith("of=") and catalog.devices.fullmatch(word[3:]) for word in words)
    if name == "diskutil":
        return any(word.lower().startswith(("erase", "zerodisk", "secureerase")) for word in words)
    if not catalog.disk_programs.fullmatch(name) or {"-l", "--list", "-n", "--no-act"}.intersection(words):
        return False
    return any(map(catalog.devices.fullmatch, words))


def _rewrites_protected_branch(words: tuple[str, ...]) -> bool:
    """Return whether git pushes by force to a protected branch, or deletes it there."""
    if "push" not in words:
        return False
    arguments = words[words.index("push") + 1 :]
    if {"-n", "--dry-run"}.intersection(arguments):
        return False
    is_forced = any(map(_FORCE.fullmatch, arguments))
    deletes = bool({"-d", "--delete"}.intersection(arguments))
    references = [word for word in arguments if not word.startswith("-")][1:]
    for reference in references:
        source, colon, target = reference.removeprefix("+").rpartition(":")
        branch = target.removeprefix("refs/heads/")
        is_rewritten = is_forced or deletes or reference.startswith("+") or (bool(colon) and not source)
        if is_rewritten and load_harms().branches.fullmatch(branch):
            return True
    return False


# The condition `harms`: whether a call does something that an agent never needs to do.
_COMMAND_STEPS = 64  # to look at each command of a line


@dataclass(frozen=True, slots=True)
class HarmCondition:
    """Whether the call does one of these harms; it has no doubts, see `harms`."""

    operand: frozenset[str]
    name: str = "call harms"
    cost: int = 3

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return whether the call certainly does one of them."""
        harms: frozenset[str] | None = context.remember(("harms",), lambda: self._read(context))
        context.step()
        return UNKNOWN if harms is None else to_truth(bool(harms & self.operand))

    def _read(self, context: EvaluationContext) -> frozenset[str] | None:
        if not context.request.has_input:
            return None
        scripts = context.scripts(()) or ()
        segments = sum([len(script.segments) for script in scripts if script is not None])
        context.step(1 + _COMMAND_STEPS * segments + count_characters(context.request.input) // CHARACTERS)
        return find_harms(context.request, scripts)

    def actual(self, context: EvaluationContext) -> Any:
        """Return the harms."""
        harms: frozenset[str] | None = context.remember(("harms",), lambda: self._read(context))
        return sorted(harms or ())
