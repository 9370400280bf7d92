"""Goose: a plugin that has only a file of command hooks, and the key in a file that only its owner can read.

Tested with goose 1.52.0. With `on_failure`, a hook that fails or takes longer than its `timeout` blocks the tool;
versions that do not know it run the tool then.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from toolcards.connect import offline_probe
from toolcards.connect.base import CODING_GUIDE, Abilities, Change, Recipe, Target, Unreadable, read
from toolcards.connect.edits import hooks_file
from toolcards.connect.edits.hooks_file import HOLD, TIMEOUT

NAME = "goose"
read_key = partial(hooks_file.read_key, name=NAME)
GATE = "PreToolUse"
REPORTS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd")
REPORT_TIMEOUT = 3  # seconds; the hook itself gives up after one


def plan(target: Target) -> list[Change]:
    """Return the key file and our file of hooks."""
    path = hooks_path(target)
    hooks = {event: [{"hooks": [_hook(event, target)]}] for event in (GATE, *REPORTS)}
    key_change = hooks_file.plan_key(target, NAME, target.key or read_key(target))
    return [key_change, Change(path, hooks_file.read_own_file(path), json.dumps({"hooks": hooks}, indent=2) + "\n")]


def undo(target: Target) -> list[Change]:
    """Return no file of hooks and no key file."""
    path = hooks_path(target)
    change = Change(path, hooks_file.read_own_file(path), None, prune_root=target.home)
    return [hooks_file.plan_key(target, NAME, None), change]


def hooks_path(target: Target) -> Path:
    """Return the path of our plugin's file of hooks.

    Raises Unreadable for a project.
    """
    if target.project is not None:
        raise Unreadable(
            "Goose reads a project's plugins from .agents/plugins/, which everyone with the repository shares. "
            "Connect the account: leave out --project."
        )
    return _find_plugin(target) / "hooks" / "hooks.json"


def probe_offline(target: Target) -> str:
    """Return the hook's denial while no server is running.

    "" if it is not written.
    """
    return offline_probe.run_hook([NAME], GATE) if hooks_file.read_own_file(hooks_path(target)) else ""


def find_warning(target: Target) -> str:
    """Return a warning if Goose's settings switch our plugin off."""
    path = target.home / ".config" / "goose" / "config.yaml"
    entry = rf"^\s+[\"']?{re.escape(str(_find_plugin(target)))}[\"']?:\s*\n\s+enabled:\s*false\b"
    if re.search(entry, read(path) or "", re.MULTILINE):
        return f"{path} switches the plugin off (plugins, enabled: false), so nothing is held. Switch it on."
    return ""


def _find_plugin(target: Target) -> Path:
    return target.home / ".agents" / "plugins" / "toolcards"


def _hook(event: str, target: Target) -> dict[str, Any]:
    gates = event == GATE
    key_file = str(hooks_file.key_path(target, NAME).absolute())
    words = [NAME, "--url", target.url.rstrip("/"), "--key-file", key_file, "--limit", str(HOLD)]
    hook: dict[str, Any] = {"type": "command", "command": hooks_file.format_command(words, gates=gates)}
    return hook | ({"timeout": TIMEOUT, "on_failure": "block"} if gates else {"timeout": REPORT_TIMEOUT})


RECIPE = Recipe(
    name=NAME,
    title="Goose",
    version="1.52.0 (the CLI)",
    can=Abilities(
        observe="yes",
        gate="yes, but not calls of its sub-agents",
        edit="no: an edit is a denial that names it",
    ),
    fails="closed, except in sub-agents",
    when_away="While Toolcards is down no tool runs, except in sub-agents: the hook denies the call and says why.",
    notes=(
        "Sub-agents (delegate) run their tools without hooks: they are neither shown nor held. The delegate call is.",
        "Its hooks have no results: a card shows the call, the decision, and whether the tool ran or failed.",
        "With GOOSE_MODE=auto, only Toolcards asks. In its other modes Goose asks its own user first.",
        "Other agents that read ~/.agents/plugins/ may start the hooks, too. Their calls then have Goose's name.",
        f"Versions that do not know on_failure run a tool whose hook takes longer than {TIMEOUT // 60} minutes.",
        hooks_file.STARTS_HERE,
    ),
    plan=plan,
    undo=undo,
    read_key=read_key,
    aliases=("block-goose",),
    guide=CODING_GUIDE,
    transport="hooks",
    probe_offline=probe_offline,
    find_warning=find_warning,
)
