"""Gemini CLI: command hooks in its settings, and the key in a file that only its owner can read.

The hooks share Claude Code's format, except that they have other events and count their `timeout` in milliseconds.
Tested with @google/gemini-cli 0.61.0. Exit code 2 blocks a tool; any other failure of a hook lets it run, also one that
takes longer than its `timeout`. So the hook answers before that, and its shell turns every failure into exit code 2.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from toolcards.connect import offline_probe
from toolcards.connect.base import CODING_GUIDE, Abilities, Change, Recipe, Target, format_json, read_json
from toolcards.connect.edits import hooks_file
from toolcards.connect.edits.hooks_file import HOLD, TIMEOUT

NAME = "gemini-cli"
read_key = partial(hooks_file.read_key, name=NAME)
GATE = "BeforeTool"
REPORTS = ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd")
REPORT_TIMEOUT = 3  # seconds; the hook itself gives up after one
HOOK_NAME = "toolcards"  # as Gemini CLI lists it in /hooks


def plan(target: Target) -> list[Change]:
    """Return the key file and the settings with our hooks."""
    path = settings_path(target)
    text, settings = read_json(path)
    after = hooks_file.add_hooks(settings, {event: _entry(event, target) for event in (GATE, *REPORTS)}, path)
    is_unchanged = hooks_file.is_same(after, settings)
    key_change = hooks_file.plan_key(target, NAME, target.key or read_key(target))
    return [key_change, Change(path, text, text if is_unchanged else format_json(after, text))]


def undo(target: Target) -> list[Change]:
    """Remove our hooks from the settings, and the key file.

    Delete the settings if they have no other content.
    """
    path = settings_path(target)
    text, settings = read_json(path)
    after = hooks_file.remove_hooks(settings)
    remaining = text if after == settings else format_json(after, text) if after else None
    return [hooks_file.plan_key(target, NAME, None), Change(path, text, remaining)]


def settings_path(target: Target) -> Path:
    """Return the path of the account's or the project's settings."""
    return (target.project or target.home) / ".gemini" / "settings.json"


def probe_offline(target: Target) -> str:
    """Return the hook's denial while no server is running.

    "" if it is not written.
    """
    if not hooks_file.find_hooks(read_json(settings_path(target))[1], GATE):
        return ""
    return offline_probe.run_hook([NAME], GATE)


def find_warning(target: Target) -> str:
    """Return a warning if the settings switch our hooks off."""
    config = read_json(settings_path(target))[1].get("hooksConfig")
    if not isinstance(config, dict):
        return ""
    disabled_hooks = config.get("disabled")
    if config.get("enabled") is False or (isinstance(disabled_hooks, list) and HOOK_NAME in disabled_hooks):
        return f"{settings_path(target)} switches hooks off (hooksConfig), so nothing is held. Remove that."
    return ""


def _entry(event: str, target: Target) -> dict[str, Any]:
    gates = event == GATE
    key_file = str(hooks_file.key_path(target, NAME).absolute())
    line = [NAME, "--url", target.url.rstrip("/"), "--key-file", key_file, "--limit", str(HOLD)]
    hook = {"type": "command", "name": HOOK_NAME, "command": hooks_file.format_command(line, gates=gates)}
    matcher = {"matcher": "*"} if event in (GATE, "AfterTool") else {}
    return matcher | {"hooks": [hook | {"timeout": 1000 * (TIMEOUT if gates else REPORT_TIMEOUT)}]}


RECIPE = Recipe(
    name=NAME,
    title="Gemini CLI",
    version="0.61.0",
    can=Abilities(observe="yes", gate="yes", edit="yes, but an edit cannot leave out an argument", stream="no"),
    fails="closed",
    when_away="While Toolcards is down no tool runs: the hook denies the call and tells the model why.",
    notes=(
        "Calls that are allowed here can still be asked about there; with --approval-mode yolo, only Toolcards asks.",
        f"A hook that takes longer than its limit ({TIMEOUT // 60} minutes) decides nothing, and the tool runs.",
        "Its hooks name no call: calls that are equal in tool and arguments are matched with their results in turn.",
        "It does not report calls that its own rules refuse, or of tools that do not exist.",
        "Hooks of a project (--project) run only in a folder that Gemini CLI trusts.",
        hooks_file.STARTS_HERE,
    ),
    plan=plan,
    undo=undo,
    read_key=read_key,
    aliases=("gemini",),
    guide=CODING_GUIDE,
    transport="hooks",
    probe_offline=probe_offline,
    find_warning=find_warning,
)
