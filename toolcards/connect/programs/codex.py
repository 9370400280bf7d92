"""Codex CLI: command hooks in its `hooks.json`, and the key in a file beside it.

Read from and tested with @openai/codex 0.169.0. Every hook is `toolcards hook codex`, which says an allow as `{}`:
Codex takes an allow only with other arguments than the model's, and runs the tool where it does not understand an
answer. What it does not hold: a hook that is not trusted yet is skipped, one that takes longer than its `timeout`
decides nothing, and what the agent types into a command that still runs (`write_stdin`) has no hook, nor has hosted
web search.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolcards.connect import hooks_file, sentences
from toolcards.connect import offline_probe as no_server
from toolcards.connect.base import Abilities, Change, Recipe, Wish, as_json, read, read_json
from toolcards.connect.hooks_file import HOLD, TIMEOUT

GATES = ("PreToolUse", "PermissionRequest")
TELLS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "SubagentStart", "SubagentStop", "Stop", "SessionEnd")
WATCHING = 3  # seconds, the longest for SessionEnd; the hook itself gives up after one


def plan(wish: Wish) -> list[Change]:
    """Return hooks.json with our hooks in it, and the file with the key."""
    path, key = hooks_of(wish), wish.key or key_in(wish)
    text, said = read_json(path)
    after = hooks_file.with_ours(said, {event: _entry(event, wish) for event in (*GATES, *TELLS)}, path)
    unchanged = hooks_file.same(after, said)
    kept = Change(key_file(wish), read(key_file(wish)), f"{key}\n", secret=key)
    return [kept, Change(path, text, text if unchanged else as_json(after, text))]


def undo(wish: Wish) -> list[Change]:
    """Return hooks.json without our hooks, a file that held nothing else goes; the key's file goes, too."""
    path, key = hooks_of(wish), read(key_file(wish))
    text, said = read_json(path)
    after = hooks_file.without_ours(said)
    left = text if after == said else as_json(after, text) if after else None
    return [Change(key_file(wish), key, None, secret=key_in(wish)), Change(path, text, left)]


def key_in(wish: Wish) -> str:
    """Return the key that is written there."""
    return (read(key_file(wish)) or "").strip()


def hooks_of(wish: Wish) -> Path:
    """Return the file: the account's, or the project's."""
    return (wish.project or wish.home) / ".codex" / "hooks.json"


def key_file(wish: Wish) -> Path:
    """Return the file that holds the key alone."""
    return hooks_of(wish).with_name("toolcards.key")


def seen_away(wish: Wish) -> str:
    """Return what the hook says to a call with no server there; "" where it is not written."""
    ours = [hooks_file.ours_in(read_json(hooks_of(wish))[1], event) for event in GATES]
    return no_server.hook(["codex"]) if all(ours) else ""


def _entry(event: str, wish: Wish) -> dict[str, Any]:
    gates = event in GATES
    line = ["codex", "--url", wish.url.rstrip("/"), "--key-file", str(key_file(wish).resolve()), "--limit", str(HOLD)]
    hook = {"type": "command", "command": hooks_file.command(line, gates=gates)}
    return {"hooks": [hook | {"timeout": TIMEOUT if gates else WATCHING}]}


RECIPE = Recipe(
    name="codex",
    title="Codex CLI",
    version="0.169.0",
    can=Abilities(
        observe="yes",
        gate="commands, patches, MCP and other function tools; not what is typed into a running command",
        edit="yes, but where Codex itself asks",
        stream="no",
    ),
    fails="closed once its hooks are trusted",
    when_away="While Toolcards is away no tool that has a hook runs: the hook denies the call and tells the model why.",
    notes=(
        "Codex skips hooks that you have not reviewed, and codex exec says nothing: trust them in codex, by /hooks.",
        "What only the default allows is left to Codex's own rules; if it asks, you can answer there or here.",
        f"A hook that takes longer than its limit ({TIMEOUT // 60} minutes) decides nothing: then Codex runs the tool.",
        "What is typed into a shell that runs (write_stdin) has no hook: let no interactive shell run.",
        "Hosted web search has no hook: it is neither shown nor held.",
        sentences.STARTS_HERE,
    ),
    plan=plan,
    undo=undo,
    key_in=key_in,
    place=15,
    guide=sentences.CODING,
    road="hooks",
    next_step="Start codex, type /hooks and trust them: until then Codex runs without.",
    away=seen_away,
)
