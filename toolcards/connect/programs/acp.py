"""Editors that speak the Agent Client Protocol: adds an agent to Zed's settings, started behind our proxy.

Source: Zed's documentation of external agents (`agent_servers`, type `custom`); tested with opencode-ai 1.18.33.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from toolcards.connect.base import (
    PYTHON_GUIDE,
    Abilities,
    Change,
    Recipe,
    Snippet,
    Target,
    Unreadable,
    find_command,
    read,
)  # fmt: skip
from toolcards.connect.edits import jsonc, managed_block

AGENT = ("opencode", "acp")
SERVERS = "agent_servers"


def plan(target: Target) -> list[Change]:
    """Return Zed's settings with the agent behind our proxy; comments stay."""
    path, key = settings_path(target), target.key or read_key(target)
    text = read(path)
    bare = managed_block.remove_block(text or "", "acp", "//")
    lines = f"{json.dumps(format_title(target))}: {json.dumps(_entry(target, key), indent=2, ensure_ascii=False)}"
    try:
        after = jsonc.insert_member(
            bare, SERVERS, lines, lambda inner, indent: managed_block.format_block(inner, "acp", "//", indent=indent)
        )
    except jsonc.NotJsonc as error:
        raise Unreadable(f"{path} could not be parsed ({error}). It was not changed. Fix it and try again.") from error
    return [Change(path, text, after, secret=key)]


def undo(target: Target) -> list[Change]:
    """Return the settings without our agent.

    Delete the file if it has no other content.
    """
    path = settings_path(target)
    text = read(path)
    remaining = managed_block.remove_block(text or "", "acp", "//")
    after = None if text and remaining == jsonc.EMPTY else text and remaining
    return [Change(path, text, after, secret=read_key(target))]


def read_key(target: Target) -> str:
    """Return the key in the settings, "" if it is missing."""
    lines = managed_block.read_block(read(settings_path(target)) or "", "acp", "//")
    match = re.search(r'"TOOLCARDS_AGENT_KEY": "([^"]*)"', lines)
    return match[1] if match else ""


def settings_path(target: Target) -> Path:
    """Return the account's settings file; a project's settings cannot name agents."""
    return target.home / ".config" / "zed" / "settings.json"


def format_title(target: Target) -> str:
    """Return the agent's name in the editor."""
    return f"{Path((target.agent or AGENT)[0]).name} through Toolcards"


def _entry(target: Target, key: str) -> dict[str, object]:
    command = find_command()
    return {
        "type": "custom",
        "command": command[0],
        "args": [*command[1:], "acp", "--", *(target.agent or AGENT)],
        "env": {"TOOLCARDS_URL": target.url.rstrip("/"), "TOOLCARDS_AGENT_KEY": key},
    }


RECIPE = Recipe(
    name="acp",
    title="ACP editors",
    version="opencode 1.18.33",
    about="Runs between an editor and its agent (Agent Client Protocol); both directions pass byte for byte. "
    "Adds an agent to Zed's settings: opencode, or the command after --agent.",
    can=Abilities(
        gate="what the agent asks permission for: set its own permissions to ask",
        edit="no: an edit is sent as a denial with a reason",
        stream="no: the protocol sends complete arguments",
    ),
    fails="closed; with --mirror the editor decides",
    when_away="With --gate (the default) every request is denied. With --mirror the editor decides as usual.",
    notes=(
        "Set up other editors by hand: put toolcards acp -- before the agent's command in their settings.",
        "The agent does not get the key.",
    ),
    plan=plan,
    undo=undo,
    read_key=read_key,
    aliases=("zed",),
    transport="socket",
    by_hand=(Snippet("acp", "By hand, in the editor's settings of the agent", "JetBrains and others have their own."),),
    guide=PYTHON_GUIDE,
    next_step="In Zed, start a new thread with this agent.",
)
