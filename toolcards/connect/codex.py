"""Codex CLI: command hooks in its `hooks.json`, and the key in a file next to it.

Read from and tested with @openai/codex 0.169.0. Every hook is `toolcards hook codex`, which reports an allow as `{}`:
Codex accepts an explicit allow only with changed arguments, and runs the tool if it does not understand an answer. Not
held: Codex skips untrusted hooks, ignores a hook that exceeds its `timeout`, and has no hook for input to a running
command (`write_stdin`) or for hosted web search.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolcards.connect import hooks_file, offline_probe
from toolcards.connect.base import CODING_GUIDE, Abilities, Change, Recipe, Target, format_json, read, read_json
from toolcards.connect.hooks_file import HOLD, TIMEOUT

GATES = ("PreToolUse", "PermissionRequest")
REPORTS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "SubagentStart", "SubagentStop", "Stop", "SessionEnd")
REPORT_TIMEOUT = 3  # seconds, the longest for SessionEnd; the hook itself gives up after one


def plan(target: Target) -> list[Change]:
    """Return hooks.json with our hooks, and the file with the key."""
    path, key = hooks_path(target), target.key or read_key(target)
    text, settings = read_json(path)
    after = hooks_file.add_hooks(settings, {event: _entry(event, target) for event in (*GATES, *REPORTS)}, path)
    unchanged = hooks_file.is_same(after, settings)
    key_change = Change(key_path(target), read(key_path(target)), f"{key}\n", secret=key)
    return [key_change, Change(path, text, text if unchanged else format_json(after, text))]


def undo(target: Target) -> list[Change]:
    """Return hooks.json without our hooks (no file if nothing else is in it) and no key file."""
    path, key = hooks_path(target), read(key_path(target))
    text, settings = read_json(path)
    after = hooks_file.remove_hooks(settings)
    rest = text if after == settings else format_json(after, text) if after else None
    return [Change(key_path(target), key, None, secret=read_key(target)), Change(path, text, rest)]


def read_key(target: Target) -> str:
    """Return the key in the key file, "" if there is none."""
    return (read(key_path(target)) or "").strip()


def hooks_path(target: Target) -> Path:
    """Return the path of hooks.json, in the account or in the project."""
    return (target.project or target.home) / ".codex" / "hooks.json"


def key_path(target: Target) -> Path:
    """Return the file that holds only the key."""
    return hooks_path(target).with_name("toolcards.key")


def probe_offline(target: Target) -> str:
    """Return the hook's denial while no server is running; "" if it is not written."""
    hooks = [hooks_file.find_hooks(read_json(hooks_path(target))[1], event) for event in GATES]
    return offline_probe.run_hook(["codex"]) if all(hooks) else ""


def _entry(event: str, target: Target) -> dict[str, Any]:
    gates = event in GATES
    line = [
        "codex",
        "--url",
        target.url.rstrip("/"),
        "--key-file",
        str(key_path(target).resolve()),
        "--limit",
        str(HOLD),
    ]
    hook = {"type": "command", "command": hooks_file.format_command(line, gates=gates)}
    return {"hooks": [hook | {"timeout": TIMEOUT if gates else REPORT_TIMEOUT}]}


RECIPE = Recipe(
    name="codex",
    title="Codex CLI",
    version="0.169.0",
    can=Abilities(
        observe="yes",
        gate="commands, patches, MCP and other function tools; not input to a running command",
        edit="yes, except where Codex itself asks",
        stream="no",
    ),
    fails="closed once its hooks are trusted",
    when_away="While Toolcards is down no tool that has a hook runs: the hook denies the call and tells the model why.",
    notes=(
        "Codex skips hooks that you have not reviewed, silently in codex exec: trust them in codex with /hooks.",
        "Calls that only the default allows are left to Codex's own rules; if it asks, answer there or here.",
        f"A hook that takes longer than its limit ({TIMEOUT // 60} minutes) decides nothing: Codex then runs the tool.",
        "Input to a running shell (write_stdin) has no hook: do not let interactive shells run.",
        "Hosted web search has no hook: it is not shown and not held.",
        hooks_file.STARTS_HERE,
    ),
    plan=plan,
    undo=undo,
    read_key=read_key,
    guide=CODING_GUIDE,
    transport="hooks",
    next_step="Start codex, type /hooks and trust them: until then Codex ignores them.",
    probe_offline=probe_offline,
)
