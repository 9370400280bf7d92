"""GitHub Copilot CLI: a file of command hooks, and the key in a file that only its owner can read.

Tested with @github/copilot 1.0.102. A hook that fails or cannot start blocks the tool; one that prints no JSON, or
takes longer than its `timeoutSec`, lets it run. So the hook answers before that.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from toolcards.connect import offline_probe
from toolcards.connect.base import CODING_GUIDE, Abilities, Change, Recipe, Target, Unreadable
from toolcards.connect.edits import hooks_file
from toolcards.connect.edits.hooks_file import HOLD, TIMEOUT

NAME = "copilot"
read_key = partial(hooks_file.read_key, name=NAME)
GATE = "preToolUse"
REPORTS = ("sessionStart", "userPromptSubmitted", "postToolUse", "postToolUseFailure", "agentStop", "sessionEnd")
REPORT_TIMEOUT = 3  # seconds; the hook itself gives up after one


def plan(target: Target) -> list[Change]:
    """Return the key file and our file of hooks."""
    path = hooks_path(target)
    text = hooks_file.read_own_file(path)
    hooks = {event: [_hook(event, target)] for event in (GATE, *REPORTS)}
    after = json.dumps({"version": 1, "hooks": hooks}, indent=2) + "\n"
    key_change = hooks_file.plan_key(target, NAME, target.key or read_key(target))
    return [key_change, Change(path, text, after, prune_root=path.parents[1])]


def undo(target: Target) -> list[Change]:
    """Return no file of hooks and no key file."""
    path = hooks_path(target)
    change = Change(path, hooks_file.read_own_file(path), None, prune_root=path.parents[1])
    return [hooks_file.plan_key(target, NAME, None), change]


def hooks_path(target: Target) -> Path:
    """Return the path of our file of hooks.

    Raises Unreadable for a project.
    """
    if target.project is not None:
        raise Unreadable(
            "Copilot reads a project's hooks from .github/hooks/, which everyone with the repository shares. "
            "Connect the account: leave out --project."
        )
    return target.home / ".copilot" / "hooks" / "toolcards.json"


def probe_offline(target: Target) -> str:
    """Return the hook's denial while no server is running.

    "" if it is not written.
    """
    return offline_probe.run_hook([NAME, GATE], GATE) if hooks_file.read_own_file(hooks_path(target)) else ""


def _hook(event: str, target: Target) -> dict[str, Any]:
    gates = event == GATE
    key_file = str(hooks_file.key_path(target, NAME).absolute())
    line = [NAME, event, "--url", target.url.rstrip("/"), "--key-file", key_file, "--limit", str(HOLD)]
    command = hooks_file.format_command(line, gates=gates)
    return {"type": "command", "bash": command, "timeoutSec": TIMEOUT if gates else REPORT_TIMEOUT}


RECIPE = Recipe(
    name=NAME,
    title="GitHub Copilot CLI",
    version="1.0.102",
    can=Abilities(observe="yes", gate="yes", edit="yes", stream="no"),
    fails="closed",
    when_away="While Toolcards is down no tool runs: the hook denies the call and tells the model why.",
    notes=(
        "Calls that only the default allows are left to Copilot's own rules; if it asks, answer where it runs.",
        f"A hook that takes longer than its limit ({TIMEOUT // 60} minutes) decides nothing: Copilot's own rules do.",
        "Its hooks name no call: calls that are equal in tool and arguments are matched with their results in turn.",
        "Hooks run in a POSIX shell, not in PowerShell.",
        hooks_file.STARTS_HERE,
    ),
    plan=plan,
    undo=undo,
    read_key=read_key,
    aliases=("copilot-cli", "github-copilot"),
    guide=CODING_GUIDE,
    transport="hooks",
    probe_offline=probe_offline,
)
