"""Claude Code: command hooks in its settings, and the key in a file that only its owner can read.

Every hook is `toolcards hook claude-code`, which reads the key from there. In the `env` of the settings, all commands
of the model would have it in their environment. Claude Code's own HTTP hooks need it there, and accept any 2xx answer.
Tested with @anthropic-ai/claude-code 2.1.329. `onFailure: "block"` needs 2.1.295; older versions run the tool when a
hook takes too long.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from toolcards.connect import offline_probe
from toolcards.connect.base import (
    CODING_GUIDE,
    Abilities,
    Change,
    Recipe,
    Snippet,
    Target,
    format_json,
    read_json,
)  # fmt: skip
from toolcards.connect.edits import hooks_file
from toolcards.connect.edits.hooks_file import HOLD, TIMEOUT

NAME = "claude-code"
REPORT_TIMEOUT = 3  # seconds; the hook itself gives up after one
OLD_KEY = "TOOLCARDS_CLAUDE_CODE_KEY"  # earlier versions wrote the key into the settings' `env`
AGENT_SDK = (
    "The app needs no code: it reads the settings that the command writes. Where it reads none (settingSources: []), "
    "ask in its own process: by canUseTool, or by hooks, which see every call. Not both together with the settings."
)
BLOCKING_VERSION = (2, 1, 295)  # the first version that supports onFailure
GATES = ("PreToolUse", "PermissionRequest")
TOOL_EVENTS = ("PostToolUse", "PostToolUseFailure", "PermissionDenied")
_STATUS = {"statusMessage": "Reporting to Toolcards"}
RUN_EVENTS = ("UserPromptSubmit", "PostToolBatch", "SubagentStart", "SubagentStop", "Stop", "SessionEnd")


def plan(target: Target) -> list[Change]:
    """Return the key file and the settings with our hooks."""
    path = settings_path(target)
    text, settings = read_json(path)
    entries = {event: _entry(event, target) for event in (*GATES, *TOOL_EVENTS, *RUN_EVENTS)}
    after = _without_key(hooks_file.add_hooks(settings, entries, path))
    is_unchanged = hooks_file.is_same(after, settings)
    key_change = hooks_file.plan_key(target, NAME, target.key or read_key(target))
    return [
        key_change,
        Change(path, text, text if is_unchanged else format_json(after, text), secret=_old_key(settings)),
    ]


def undo(target: Target) -> list[Change]:
    """Remove our hooks from the settings, and the key file.

    Delete the settings if they have no other content.
    """
    path = settings_path(target)
    text, settings = read_json(path)
    after = _without_key(hooks_file.remove_hooks(settings))
    remaining = text if after == settings else format_json(after, text) if after else None
    return [hooks_file.plan_key(target, NAME, None), Change(path, text, remaining, secret=_old_key(settings))]


def read_key(target: Target) -> str:
    """Return the stored key, or "".

    Earlier versions stored it in the settings.
    """
    return hooks_file.read_key(target, NAME) or _old_key(read_json(settings_path(target))[1])


def settings_path(target: Target) -> Path:
    """Return the path of the account's or the project's local settings."""
    if target.project is not None:
        return target.project / ".claude" / "settings.local.json"
    return target.home / ".claude" / "settings.json"


def probe_offline(target: Target) -> str:
    """Return the gating hook's denial while no server is running.

    "" if it does not deny.
    """
    settings = read_json(settings_path(target))[1]
    for event in GATES:
        hooks = hooks_file.find_hooks(settings, event)
        if not hooks or any(hook.get("onFailure") != "block" for hook in hooks):
            return ""
    return offline_probe.run_hook([NAME])


def find_warning(target: Target) -> str:
    """Return a warning if this Claude Code does not wait for hooks."""
    version, required_version = find_installed_version(), ".".join(map(str, BLOCKING_VERSION))
    if not version:
        return f"`claude` is not on the PATH. Versions before {required_version} run a tool whose hook takes too long."
    if version < BLOCKING_VERSION:
        text = ".".join(map(str, version))
        return f"Claude Code {text} runs a tool whose hook takes too long. Update it: {required_version} blocks it."
    return ""


def find_installed_version() -> tuple[int, ...]:
    """Return the version of the `claude` on PATH, or ()."""
    claude = shutil.which("claude")
    if claude is None:
        return ()
    try:
        output = subprocess.run(  # noqa: S603 - the program that is being connected
            [claude, "--version"], capture_output=True, text=True, timeout=30
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", output)
    return tuple(map(int, match.groups())) if match else ()


def _entry(event: str, target: Target) -> dict[str, Any]:
    gates = event in GATES
    key_file = str(hooks_file.key_path(target, NAME).absolute())
    line = [NAME, "--url", target.url.rstrip("/"), "--key-file", key_file, "--limit", str(HOLD)]
    hook: dict[str, Any] = {"type": "command", "command": hooks_file.format_command(line, gates=gates)}
    # A tool waits for a gating hook; any failure, even to start it, blocks the tool.
    hook |= {"timeout": TIMEOUT, "onFailure": "block"} if gates else {"timeout": REPORT_TIMEOUT} | _STATUS
    return ({"matcher": "*"} if event in GATES + TOOL_EVENTS else {}) | {"hooks": [hook]}


def _old_key(settings: dict[str, Any]) -> str:
    """Return the key that an earlier version wrote into `env`, "" if it is missing."""
    env = settings.get("env")
    key = env.get(OLD_KEY) if isinstance(env, dict) else ""
    return key if isinstance(key, str) else ""


def _without_key(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without our key, and without an `env` that this empties."""
    if not isinstance(settings.get("env"), dict) or OLD_KEY not in settings["env"]:
        return settings
    env = {name: value for name, value in settings["env"].items() if name != OLD_KEY}
    return {name: env if name == "env" else value for name, value in settings.items() if name != "env" or env}


RECIPE = Recipe(
    name=NAME,
    title="Claude Code",
    version="2.1.329",
    can=Abilities(observe="yes", gate="yes", edit="yes", stream="no"),
    fails="closed",
    when_away="While Toolcards is down no tool runs: the hook denies the call and tells the model why.",
    notes=(
        "A deny rule in Claude Code's own settings always wins; an ask rule there asks even after an approval here.",
        "Calls that only the default allows are left to Claude Code's own rules; if it asks, answer there or here.",
        "Input does not stream: a call appears when its input is complete.",
        f"A server that accepts the call and never answers holds it for {TIMEOUT // 60} minutes; then it is blocked.",
        "Hooks that only report give up after a second, and Claude Code shows it; their report may be missing.",
        "The key is in a file of its own, not in the environment that the model's commands see.",
        hooks_file.STARTS_HERE,
    ),
    plan=plan,
    undo=undo,
    read_key=read_key,
    by_hand=(Snippet("claude_agent_ts", "In an app on the Claude Agent SDK for TypeScript", AGENT_SDK),),
    guide=CODING_GUIDE,
    transport="hooks",
    starter="Follow the agent",
    probe_offline=probe_offline,
    find_warning=find_warning,
)  # fmt: skip
