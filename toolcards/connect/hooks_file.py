"""Hooks in a program's JSON settings, `{"hooks": {event: [{"matcher"?, "hooks": [hook, …]}, …]}}`: ours among others'.

Claude Code and Codex write them alike. Ours carry TAG in their address or command, so that they can be replaced and
removed exactly.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolcards.connect.base import TAG, Unreadable, program

HOLD = 930  # seconds that a question is held: longer than the server's own time to answer (900)
TIMEOUT = HOLD + 30  # the hook's own limit: were it to elapse, the program might run the tool
FALLBACK = 'echo "The Toolcards hook could not run, so nothing was run." >&2; exit 2'  # 2 blocks, in every version

Settings = dict[str, Any]


def command(words: list[str], *, gates: bool) -> str:
    """Return the shell command of one of our hooks. One that gates blocks where it cannot even be started."""
    line = shlex.join([*program(), "hook", *words, "--by", TAG])
    return f"{line} || {{ {FALLBACK}; }}" if gates else line


def with_ours(said: Settings, entries: Mapping[str, Settings], path: Path) -> Settings:
    """Return the settings with these entries in place of earlier ones of ours; raises Unreadable."""
    after = without_ours(said)
    hooks = object_in(after, "hooks", path)
    for event, entry in entries.items():
        known = hooks.setdefault(event, [])
        if not isinstance(known, list):
            raise Unreadable(f"{path}: hooks.{event} is not a list. It was not touched.")
        known.append(entry)
    return after


def without_ours(said: Settings) -> Settings:
    """Return the settings without our hooks, and without what that leaves empty."""
    after = dict(said)
    if isinstance(said.get("hooks"), dict):
        hooks = {event: _others(entries) for event, entries in said["hooks"].items()}
        after["hooks"] = {event: left for event, left in hooks.items() if left or not said["hooks"][event]}
        if not after["hooks"] and said["hooks"]:
            del after["hooks"]
    return after


def ours_in(said: Settings, event: str) -> list[Settings]:
    """Return our hooks for this event."""
    entries = said.get("hooks", {}).get(event, [])
    return [hook for entry in entries for hook in entry.get("hooks", []) if _ours(hook)]


def object_in(said: Settings, name: str, path: Path) -> Settings:
    """Return the object of that name, a copy that may be changed, making it if it is not there; raises Unreadable."""
    value = said.get(name, {})
    if not isinstance(value, dict):
        raise Unreadable(f"{path}: {name} is not an object. It was not touched.")
    said[name] = {key: list(inner) if isinstance(inner, list) else inner for key, inner in value.items()}
    changed: Settings = said[name]
    return changed


def same(one: Settings, other: Settings) -> bool:
    """Return whether two settings are alike but for the order of hooks for one event."""
    return _sorted_away(one) == _sorted_away(other)


def _others(entries: Any) -> Any:
    if not isinstance(entries, list):
        return entries
    left = []
    for entry in entries:
        hooks = entry.get("hooks") if isinstance(entry, dict) else None
        if not isinstance(hooks, list) or not any(map(_ours, hooks)):
            left.append(entry)
        elif others := [hook for hook in hooks if not _ours(hook)]:
            left.append(entry | {"hooks": others})
    return left


def _ours(hook: Any) -> bool:
    if not isinstance(hook, dict):
        return False
    url, line = str(hook.get("url", "")), str(hook.get("command", ""))
    return f"by={TAG}" in urlsplit(url).query or f" --by {TAG}" in line


def _sorted_away(said: Settings) -> Any:
    hooks = said.get("hooks")
    if not isinstance(hooks, dict):
        return said
    ordered = {
        event: sorted(map(repr, entries)) if isinstance(entries, list) else entries for event, entries in hooks.items()
    }
    return said | {"hooks": ordered}
