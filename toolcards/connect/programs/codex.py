"""Codex CLI: command hooks in its `hooks.json`, and the key in a file that only its owner can read.

Read from and tested with @openai/codex 0.169.0. Every hook is `toolcards hook codex`, which reports an allow as `{}`:
Codex accepts an explicit allow only with changed arguments, and runs the tool if it does not understand an answer. Not
held: Codex skips untrusted hooks, ignores a hook that exceeds its `timeout`, and has no hook for input to a running
command (`write_stdin`) or for hosted web search.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolcards.connect import offline_probe
from toolcards.connect.base import CODING_GUIDE, Abilities, Change, Recipe, Target, format_json, read, read_json
from toolcards.connect.edits import hooks_file
from toolcards.connect.edits.hooks_file import HOLD, TIMEOUT

NAME = "codex"
GATES = ("PreToolUse", "PermissionRequest")
REPORTS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "SubagentStart", "SubagentStop", "Stop", "SessionEnd")
REPORT_TIMEOUT = 3  # seconds, the longest for SessionEnd; the hook itself gives up after one


def plan(target: Target) -> list[Change]:
    """Return the key file and hooks.json with our hooks."""
    path = hooks_path(target)
    text, settings = read_json(path)
    after = hooks_file.add_hooks(settings, {event: _entry(event, target) for event in (*GATES, *REPORTS)}, path)
    is_unchanged = hooks_file.is_same(after, settings)
    key_change = hooks_file.plan_key(target, NAME, target.key or read_key(target))
    return [
        key_change,
        *_remove_old_key(target),
        Change(path, text, text if is_unchanged else format_json(after, text)),
    ]


def undo(target: Target) -> list[Change]:
    """Remove our hooks from hooks.json, and the key file.

    Delete hooks.json if it has no other content.
    """
    path = hooks_path(target)
    text, settings = read_json(path)
    after = hooks_file.remove_hooks(settings)
    remaining = text if after == settings else format_json(after, text) if after else None
    return [hooks_file.plan_key(target, NAME, None), *_remove_old_key(target), Change(path, text, remaining)]


def read_key(target: Target) -> str:
    """Return the key in the key file, "" if it is missing."""
    return hooks_file.read_key(target, NAME) or (read(_old_key_path(target)) or "").strip()


def hooks_path(target: Target) -> Path:
    """Return the path of hooks.json, in the account or in the project."""
    return (target.project or target.home) / ".codex" / "hooks.json"


def probe_offline(target: Target) -> str:
    """Return the hook's denial while no server is running.

    "" if it is not written.
    """
    hooks = [hooks_file.find_hooks(read_json(hooks_path(target))[1], event) for event in GATES]
    return offline_probe.run_hook([NAME]) if all(hooks) else ""


def _entry(event: str, target: Target) -> dict[str, Any]:
    gates = event in GATES
    key_file = str(hooks_file.key_path(target, NAME).absolute())
    line = [NAME, "--url", target.url.rstrip("/"), "--key-file", key_file, "--limit", str(HOLD)]
    hook = {"type": "command", "command": hooks_file.format_command(line, gates=gates)}
    return {"hooks": [hook | {"timeout": TIMEOUT if gates else REPORT_TIMEOUT}]}


def _old_key_path(target: Target) -> Path:
    """Return where earlier versions wrote the key: next to hooks.json."""
    return hooks_path(target).with_name("toolcards.key")


def _remove_old_key(target: Target) -> list[Change]:
    key = read(_old_key_path(target))
    return [] if key is None else [Change(_old_key_path(target), key, None, secret=key.strip())]


RECIPE = Recipe(
    name=NAME,
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
    starter="Follow the agent",
    probe_offline=probe_offline,
)
