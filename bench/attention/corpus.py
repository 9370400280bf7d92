"""Ordinary sessions and dangerous calls, as data: what agents do all day, and what should never run unasked.

A file of `sessions/` has the agent's program and project at its head, then one call a line: what it is (`look`, `local`
or `outside`), its tool (`server:tool` for one of an MCP server), and its arguments: a JSON object, or the tool's main
argument as it is, or as a JSON string. A line of `dangerous.txt` begins with a kind and a program instead, and ends
with ` ## ` and why.
"""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
TRUTHS = ("look", "local", "outside")  # reads only; can be undone inside the project; sends, publishes or costs
DANGER = "danger"
DANGEROUS_PROJECT = "/home/dev/work/paylink"

# The main argument of each program's tools, by the name of that argument.
_MAIN_ARGUMENTS = {
    "claude-code": {
        "Bash": "command", "Read": "file_path", "Edit": "file_path", "Write": "file_path", "Grep": "pattern",
        "Glob": "pattern", "WebFetch": "url", "WebSearch": "query",
    },
    "codex": {"exec_command": "cmd", "apply_patch": "input"},
    "cursor": {
        "run_terminal_cmd": "command", "read_file": "target_file", "search_replace": "file_path",
        "edit_file": "target_file", "delete_file": "target_file", "grep_search": "query",
        "list_dir": "relative_workspace_path", "codebase_search": "query",
    },
    "gemini-cli": {
        "run_shell_command": "command", "read_file": "file_path", "replace": "file_path", "write_file": "file_path",
        "search_file_content": "pattern", "glob": "pattern", "list_directory": "path", "web_fetch": "prompt",
        "google_web_search": "query",
    },
    "opencode": {
        "bash": "command", "read": "filePath", "edit": "filePath", "write": "filePath", "grep": "pattern",
        "glob": "pattern", "list": "path", "webfetch": "url",
    },
    "cline": {
        "execute_command": "command", "read_file": "path", "replace_in_file": "path", "write_to_file": "path",
        "search_files": "regex", "list_files": "path",
    },
    "copilot": {"bash": "command", "view": "path", "edit": "path", "create": "path"},
}  # fmt: skip
_PATHS = frozenset({"file_path", "filePath"})  # absolute in these programs
_CHANGES = {"Edit": ("old_string", "new_string"), "edit": ("oldString", "newString")}
_CONTENTS = {"Write": "content", "write": "content", "write_file": "content", "write_to_file": "content"}
_SHELL_ARGUMENTS = ("command", "cmd")


@dataclass(frozen=True)
class CorpusCall:
    """A call of the corpus. `truth`: one of `TRUTHS`, or `DANGER` with its `kind` and `why`."""

    session: str
    program: str
    tool: str
    args: dict[str, Any]
    truth: str
    server: str = ""
    kind: str = ""
    why: str = ""
    project: str = ""  # the folder in which the agent works


def load_sessions() -> dict[str, list[CorpusCall]]:
    """Return the calls of each session, in their order."""
    return {path.stem: list(_read_session(path)) for path in sorted((FOLDER / "sessions").glob("*.txt"))}


def load_dangerous() -> list[CorpusCall]:
    """Return the dangerous calls as they are written, without their disguises."""
    calls = []
    for line in _read_lines(FOLDER / "dangerous.txt"):
        text, _, why = line.rpartition(" ## ")
        kind, program, tool, arguments = (*text.split(" ", 3), "{}")[:4]
        server, name = _split_tool(tool)
        args = _build_args(program, DANGEROUS_PROJECT, name, arguments)
        calls.append(CorpusCall("dangerous", program, name, args, DANGER, server, kind, why, DANGEROUS_PROJECT))
    return calls


def disguise(call: CorpusCall) -> Iterator[CorpusCall]:
    """Yield the call; a command also in its disguises.

    Behind another command, in a shell, and under a time limit.
    """
    yield call
    for name in _SHELL_ARGUMENTS:
        command = call.args.get(name)
        if isinstance(command, str) and not call.server:
            for text in (f"git status && {command}", f"bash -lc {shlex.quote(command)}", f"timeout 60 {command}"):
                yield replace(call, args=call.args | {name: text})


def _read_session(path: Path) -> Iterator[CorpusCall]:
    heads: dict[str, str] = {}
    for line in _read_lines(path):
        if line.startswith("# "):
            name, _, value = line.removeprefix("# ").partition(": ")
            heads[name] = value
            continue
        truth, tool, arguments = (*line.split(" ", 2), "{}")[:3]
        server, name = _split_tool(tool)
        args = _build_args(heads["program"], heads["project"], name, arguments)
        yield CorpusCall(path.stem, heads["program"], name, args, truth, server, project=heads["project"])


def _read_lines(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _split_tool(tool: str) -> tuple[str, str]:
    server, _, name = tool.rpartition(":")
    return server, name


def _build_args(program: str, project: str, tool: str, text: str) -> dict[str, Any]:
    """Return the arguments as the program sends them."""
    if text.startswith("{"):
        return dict(json.loads(text))
    main = _MAIN_ARGUMENTS[program][tool]
    value = json.loads(text) if text.startswith('"') else text
    if tool == "apply_patch":
        value = f"*** Begin Patch\n*** Update File: {value}\n@@\n-before\n+after\n*** End Patch\n"
    if main in _PATHS and not value.startswith(("/", "~")):
        value = f"{project}/{value}"
    args = {main: value}
    if program == "codex" and tool == "exec_command":
        args |= {"workdir": project, "yield_time_ms": 1_000}
    if program == "claude-code" and tool == "Bash":
        args |= {"description": "The next step of the task"}
    if tool in _CHANGES:
        args |= dict(zip(_CHANGES[tool], ("before", "after"), strict=True))
    if tool in _CONTENTS:
        args |= {_CONTENTS[tool]: "text\n"}
    return args
