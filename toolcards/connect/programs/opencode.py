"""opencode: a plug-in file in its configuration folder, with the server's address and the key in its first lines.

The two modules that it imports go into a folder beside that of the plug-ins, where opencode does not look for any.
Tested with opencode-ai 1.18.33.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from toolcards.connect import offline_probe
from toolcards.connect.base import TAG, Abilities, Change, Recipe, Unreadable, Wish, read
from toolcards.connect.project import copied, removed, served

PLUG_IN = "toolcards.js"
MODULES = ("toolcards/answers.mjs", "toolcards/asking.mjs")
_AWAY = """
import {{ Toolcards }} from './{}';
const hooks = await Toolcards({{ client: {{ session: {{ get: async () => ({{}}) }} }} }});
const call = {{ tool: 'probe', sessionID: 'away', callID: 'away' }};
const refusal = await hooks['tool.execute.before'](call, {{ args: {{}} }}).then(() => '', (error) => error.message);
console.log(refusal ? 'denied: ' + refusal : 'ran');
process.exit();
"""
_SETTINGS = re.compile(r"^const SETTINGS = (\{.*\}) // " + TAG + "$", re.MULTILINE)


def plan(wish: Wish) -> list[Change]:
    """Return the plug-in as a file, and the modules that it imports."""
    path, before = file_of(wish), read(file_of(wish))
    if before is not None and TAG not in before:
        raise Unreadable(f"{path} is there and is not ours. It was not touched.")
    key = wish.key or key_in(wish)
    said = json.dumps({"url": wish.url.rstrip("/"), "key": key})
    after, found = _SETTINGS.subn(lambda _: f"const SETTINGS = {said} // {TAG}", source(), count=1)
    if not found:
        raise Unreadable("The plug-in has no line for its settings.")
    modules = [copied(folder_of(wish), name, served(Path(name).name)) for name in MODULES]
    return [*modules, Change(path, before, after, secret=key)]


def undo(wish: Wish) -> list[Change]:
    """Return the plug-in and its modules as no files, if they are ours."""
    path, before = file_of(wish), read(file_of(wish))
    ours = before is not None and TAG in before
    gone = [removed(folder_of(wish), name) for name in MODULES]
    return [*gone, Change(path, before, None if ours else before, secret=key_in(wish))]


def key_in(wish: Wish) -> str:
    """Return the key that is written there."""
    found = _SETTINGS.search(read(file_of(wish)) or "")
    return str(json.loads(found[1]).get("key", "")) if found else ""


def file_of(wish: Wish) -> Path:
    """Return the file: among the account's plug-ins, or the project's."""
    return folder_of(wish) / "plugin" / PLUG_IN


def folder_of(wish: Wish) -> Path:
    """Return opencode's folder: the account's, or the project's."""
    return wish.project / ".opencode" if wish.project is not None else wish.home / ".config" / "opencode"


def seen_away(wish: Wish) -> str:
    """Return what the plug-in says to a call with no server there."""
    path = file_of(wish)
    return offline_probe.node(path.parent, _AWAY.format(path.name)) if path.exists() else ""


def source() -> str:
    """Return the plug-in as it is handed out."""
    return served("opencode.js").read_text("utf-8")


RECIPE = Recipe(
    name="opencode",
    title="opencode",
    version="1.18.33",
    can=Abilities(observe="yes", gate="yes", edit="yes", stream="shell output and text; arguments do not stream"),
    fails="closed",
    when_away="While Toolcards is away no tool runs: the plug-in stops the call and tells the model why.",
    notes=(
        "opencode's own questions (permission: ask) can be answered there or here; `opencode run` refuses them itself.",
        "Saying no to one question of opencode's own ends the others of its session too: that is opencode's way.",
    ),
    plan=plan,
    undo=undo,
    key_in=key_in,
    away=seen_away,
    place=20,
)
