"""Our hooks in a program's JSON settings: `{"hooks": {event: [{"matcher"?, "hooks": [hook, …]}, …]}}`.

Claude Code, Codex and Gemini CLI share this format. Our hooks carry TAG in their address or command, so that they can
be replaced and removed exactly, next to other people's hooks.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcards.connect.base import TAG, Change, Target, Unreadable, find_command, read

HOLD = 930  # seconds that a call is held: longer than the server's own time to answer (900)
TIMEOUT = HOLD + 30  # the hook's own limit: when it passes, the program may run the tool
STARTS_HERE = "The gating hook starts Toolcards on this computer: connect again if you move or remove it."
FALLBACK = 'echo "The Toolcards hook could not run, so nothing was run." >&2; exit 2'  # 2 blocks, in every version

Settings = dict[str, Any]


def key_path(target: Target, name: str) -> Path:
    """Return the file that holds only the key.

    It is outside the project and the program's folder: neither `env` nor a search in the project or in the
    settings shows the key to the model.
    """
    suffix = f"-{hashlib.sha256(str(target.project).encode()).hexdigest()[:12]}" if target.project else ""
    return target.home / ".config" / "toolcards" / "keys" / f"{name}{suffix}.key"


def plan_key(target: Target, name: str, key: str | None) -> Change:
    """Return the change of the key file; None removes it."""
    path = key_path(target, name)
    text = read(path)
    after = None if key is None else f"{key}\n"
    return Change(path, text, after, secret=key or (text or "").strip(), prune_root=target.home / ".config")


def read_key(target: Target, name: str) -> str:
    """Return the key in the key file, "" if it is missing."""
    return (read(key_path(target, name)) or "").strip()


def read_own_file(path: Path, hint: str = "") -> str | None:
    """Return the text of a file that only we write, or None.

    Raises Unreadable for a file of others, with the hint.
    """
    text = read(path)
    if text is not None and f"--by {TAG}" not in text:
        raise Unreadable(f"{path} exists and was not written by Toolcards. It was not changed.{hint}")
    return text


def format_command(words: list[str], *, gates: bool) -> str:
    """Return the shell command of a hook.

    A gating one blocks even if it cannot start.
    """
    line = shlex.join([*find_command(), "hook", *words, "--by", TAG])
    return f"{line} || {{ {FALLBACK}; }}" if gates else line


def add_hooks(settings: Settings, entries: Mapping[str, Settings], path: Path) -> Settings:
    """Return the settings with these entries, replacing our earlier ones; raises Unreadable."""
    after = remove_hooks(settings)
    hooks = get_object(after, "hooks", path)
    for event, entry in entries.items():
        entries_of_event = hooks.setdefault(event, [])
        if not isinstance(entries_of_event, list):
            raise Unreadable(f"{path}: hooks.{event} is not a list. It was not changed.")
        entries_of_event.append(entry)
    return after


def remove_hooks(settings: Settings) -> Settings:
    """Remove our hooks, and objects that become empty."""
    after = dict(settings)
    if isinstance(settings.get("hooks"), dict):
        hooks = {event: _drop_our_hooks(entries) for event, entries in settings["hooks"].items()}
        after["hooks"] = {event: entries for event, entries in hooks.items() if entries or not settings["hooks"][event]}
        if not after["hooks"] and settings["hooks"]:
            del after["hooks"]
    return after


def find_hooks(settings: Settings, event: str) -> list[Settings]:
    """Return our hooks for this event."""
    hooks = settings.get("hooks")
    entries = hooks.get(event) if isinstance(hooks, dict) else None
    return [hook for entry in _as_list(entries) if isinstance(entry, dict)
            for hook in _as_list(entry.get("hooks")) if _is_ours(hook)]  # fmt: skip


def get_object(settings: Settings, name: str, path: Path) -> Settings:
    """Replace the named object by a copy, and return the copy.

    Raises Unreadable if it is no object.
    """
    value = settings.get(name, {})
    if not isinstance(value, dict):
        raise Unreadable(f"{path}: {name} is not an object. It was not changed.")
    settings[name] = {key: list(inner) if isinstance(inner, list) else inner for key, inner in value.items()}
    changed_object: Settings = settings[name]
    return changed_object


def is_same(before: Settings, after: Settings) -> bool:
    """Return whether two settings differ only in the order of hooks."""
    return bool(_with_sorted_hooks(before) == _with_sorted_hooks(after))


def _as_list(value: Any) -> list[Any]:
    """Return a list, and an empty one for what people wrote instead."""
    return value if isinstance(value, list) else []


def _drop_our_hooks(entries: Any) -> Any:
    if not isinstance(entries, list):
        return entries
    remaining = []
    for entry in entries:
        hooks = entry.get("hooks") if isinstance(entry, dict) else None
        if not isinstance(hooks, list) or not any(map(_is_ours, hooks)):
            remaining.append(entry)
        elif foreign := [hook for hook in hooks if not _is_ours(hook)]:
            remaining.append(entry | {"hooks": foreign})
    return remaining


def _is_ours(hook: Any) -> bool:
    if not isinstance(hook, dict):
        return False
    url, line = str(hook.get("url", "")), str(hook.get("command", ""))
    return f"by={TAG}" in url.partition("#")[0].partition("?")[2] or f" --by {TAG}" in line


def _with_sorted_hooks(settings: Settings) -> Any:
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return settings
    ordered_hooks = {
        event: sorted(map(repr, entries)) if isinstance(entries, list) else entries for event, entries in hooks.items()
    }
    return settings | {"hooks": ordered_hooks}
