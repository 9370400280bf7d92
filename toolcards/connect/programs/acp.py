"""Editors that speak the Agent Client Protocol: an agent in Zed's settings that is started behind our proxy.

Read from Zed's documentation of external agents (`agent_servers`, type `custom`); tested with opencode-ai 1.18.33.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from toolcards.connect import jsonc, managed_block, sentences
from toolcards.connect.base import Abilities, Change, Recipe, Snippet, Unreadable, Wish, program, read

AGENT = ("opencode", "acp")
SERVERS = "agent_servers"


def plan(wish: Wish) -> list[Change]:
    """Return Zed's settings with one more agent: the named one, behind the proxy. Comments stay where they are."""
    path, key = settings_of(wish), wish.key or key_in(wish)
    text = read(path)
    bare = managed_block.without(text or "", "acp", "//")
    lines = f"{json.dumps(title(wish))}: {json.dumps(_entry(wish, key), indent=2, ensure_ascii=False)}"
    try:
        after = jsonc.with_member(
            bare, SERVERS, lines, lambda inner, indent: managed_block.block(inner, "acp", "//", indent=indent)
        )
    except jsonc.NotJsonc as error:
        raise Unreadable(f"{path} is not understood ({error}). It was not touched; mend it and try again.") from error
    return [Change(path, text, after, secret=key)]


def undo(wish: Wish) -> list[Change]:
    """Return the settings without our agent; a file that held nothing else goes."""
    path = settings_of(wish)
    text = read(path)
    left = managed_block.without(text or "", "acp", "//")
    return [Change(path, text, None if text and left == jsonc.EMPTY else text and left, secret=key_in(wish))]


def key_in(wish: Wish) -> str:
    """Return the key that is written there."""
    lines = managed_block.within(read(settings_of(wish)) or "", "acp", "//")
    found = re.search(r'"TOOLCARDS_AGENT_KEY": "([^"]*)"', lines)
    return found[1] if found else ""


def settings_of(wish: Wish) -> Path:
    """Return Zed's settings: agents are the account's; a project's settings cannot name any."""
    return wish.home / ".config" / "zed" / "settings.json"


def title(wish: Wish) -> str:
    """Return the agent's name in the editor."""
    return f"{Path((wish.agent or AGENT)[0]).name} through Toolcards"


def _entry(wish: Wish, key: str) -> dict[str, object]:
    ours = program()
    return {
        "type": "custom",
        "command": ours[0],
        "args": [*ours[1:], "acp", "--", *(wish.agent or AGENT)],
        "env": {"TOOLCARDS_URL": wish.url.rstrip("/"), "TOOLCARDS_AGENT_KEY": key},
    }


RECIPE = Recipe(
    name="acp",
    title="ACP editors",
    version="opencode 1.18.33",
    about="Stands between an editor and its agent (Agent Client Protocol); both directions pass byte for byte. "
    "Writes a further agent into Zed's settings: opencode, or the command after --agent.",
    can=Abilities(
        gate="what the agent asks permission for: set its own permissions to ask",
        edit="no: an edit is a no with a reason",
        stream="no: the protocol tells arguments whole",
    ),
    fails="closed; with --mirror the editor decides",
    when_away="With --gate (the default) every question is answered no. With --mirror the editor decides as ever.",
    notes=(
        "Other editors are set up by hand: put toolcards acp -- before the agent's command in their settings.",
        "The agent does not get the key.",
    ),
    plan=plan,
    undo=undo,
    key_in=key_in,
    also=("zed",),
    place=100,
    road="socket",
    by_hand=(Snippet("acp", "By hand, in the editor's settings of the agent", "JetBrains and others have their own."),),
    guide=sentences.PYTHON,
    next_step="In Zed: new thread with the agent of that name.",
)
