"""Cursor: command hooks in its hooks.json, and the key in a file that only its owner can read.

Written from Cursor's documentation of hooks (1.7 and newer: `beforeShellExecution`, `beforeMCPExecution`) and tested
with payloads in its form, not with the program. With `failClosed`, newer versions block what a failing or slow hook
holds; older ones ignore that field.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from toolcards.connect import offline_probe
from toolcards.connect.base import (
    CODING_GUIDE,
    TAG,
    Abilities,
    Change,
    Recipe,
    Target,
    Unreadable,
    format_json,
    read_json,
)  # fmt: skip
from toolcards.connect.edits import hooks_file
from toolcards.connect.edits.hooks_file import HOLD, TIMEOUT

NAME = "cursor"
read_key = partial(hooks_file.read_key, name=NAME)
GATES = ("beforeShellExecution", "beforeMCPExecution")
REPORTS = ("beforeSubmitPrompt", "afterShellExecution", "afterMCPExecution", "afterFileEdit", "stop", "sessionEnd")
REPORT_TIMEOUT = 3  # seconds; the hook itself gives up after one


def plan(target: Target) -> list[Change]:
    """Return the key file and hooks.json with our hooks; raises Unreadable."""
    path = hooks_path(target)
    text, settings = read_json(path)
    after = {"version": 1, **_without_ours(settings)}
    hooks = hooks_file.get_object(after, "hooks", path)
    for event in (*GATES, *REPORTS):
        if not isinstance(hooks.setdefault(event, []), list):
            raise Unreadable(f"{path}: hooks.{event} is not a list. It was not changed.")
        hooks[event].append(_hook(event, target))
    key_change = hooks_file.plan_key(target, NAME, target.key or read_key(target))
    is_unchanged = hooks_file.is_same(after, settings)
    return [key_change, Change(path, text, text if is_unchanged else format_json(after, text))]


def undo(target: Target) -> list[Change]:
    """Remove our hooks from hooks.json, and the key file.

    Delete hooks.json if it has no other content.
    """
    path = hooks_path(target)
    text, settings = read_json(path)
    after = _without_ours(settings)
    is_empty = not after.keys() - {"version"}
    remaining = text if after == settings else None if is_empty else format_json(after, text)
    return [hooks_file.plan_key(target, NAME, None), Change(path, text, remaining)]


def hooks_path(target: Target) -> Path:
    """Return the path of hooks.json, in the account or in the project."""
    return (target.project or target.home) / ".cursor" / "hooks.json"


def probe_offline(target: Target) -> str:
    """Return the hook's denial while no server is running.

    "" if it is not written.
    """
    settings = read_json(hooks_path(target))[1]
    return offline_probe.run_hook([NAME], GATES[0]) if _without_ours(settings) != settings else ""


def _without_ours(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without our hooks and without the lists that this empties."""
    if not isinstance(settings.get("hooks"), dict):
        return dict(settings)
    hooks = {event: _drop_ours(entries) for event, entries in settings["hooks"].items()}
    remaining_hooks = {event: entries for event, entries in hooks.items() if entries or not settings["hooks"][event]}
    other_settings = {name: value for name, value in settings.items() if name != "hooks"}
    return other_settings | {"hooks": remaining_hooks} if remaining_hooks or not settings["hooks"] else other_settings


def _drop_ours(entries: Any) -> Any:
    if not isinstance(entries, list):
        return entries
    return [each for each in entries if not (isinstance(each, dict) and f" --by {TAG}" in str(each.get("command")))]


def _hook(event: str, target: Target) -> dict[str, Any]:
    gates = event in GATES
    key_file = str(hooks_file.key_path(target, NAME).absolute())
    line = [NAME, "--url", target.url.rstrip("/"), "--key-file", key_file, "--limit", str(HOLD)]
    hook: dict[str, Any] = {"command": hooks_file.format_command(line, gates=gates)}
    return hook | ({"timeout": TIMEOUT, "failClosed": True} if gates else {"timeout": REPORT_TIMEOUT})


RECIPE = Recipe(
    name=NAME,
    title="Cursor",
    version="payloads of its documentation (1.7 and newer), not with the program",
    can=Abilities(
        observe="yes",
        gate="shell commands and MCP tools; not edits and reads of files",
        edit="no: an edit is a denial that names it",
        stream="no",
    ),
    fails="closed where Cursor knows failClosed",
    when_away="While Toolcards is down no shell command and no MCP tool runs: the hook denies the call and says why.",
    notes=(
        "Its hooks hold shell commands and MCP tools. Edits of files are shown after they were made.",
        "What only the default allows is left to Cursor, which asks its user.",
        f"A hook that takes longer than its limit ({TIMEOUT // 60} minutes) blocks only where Cursor knows failClosed.",
        "Its hooks name no call: calls that are equal in tool and arguments are matched with their results in turn.",
        hooks_file.STARTS_HERE,
    ),
    plan=plan,
    undo=undo,
    read_key=read_key,
    guide=CODING_GUIDE,
    transport="hooks",
    probe_offline=probe_offline,
)
