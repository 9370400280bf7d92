"""opencode: a plugin file in its configuration folder, and the key in a file that only its owner can read.

The modules that it imports go into a folder next to the plugins, where opencode does not look for plugins.
Tested with opencode-ai 1.18.33.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from toolcards.connect import offline_probe
from toolcards.connect.base import TAG, Abilities, Change, Recipe, Target, Unreadable, read
from toolcards.connect.edits import hooks_file
from toolcards.connect.programs.libraries import FORMER_GATE_MODULES, GATE_MODULES
from toolcards.connect.project import copy_file, find_static_file, remove_copy

NAME = "opencode"
PLUGIN = "toolcards.js"
MODULES = tuple(f"toolcards/{name}" for name in GATE_MODULES)
FORMER_MODULES = tuple(f"toolcards/{name}" for name in FORMER_GATE_MODULES)
_OFFLINE_PROBE = """
import {{ Toolcards }} from './{}';
const hooks = await Toolcards({{ client: {{ session: {{ get: async () => ({{}}) }} }} }});
const call = {{ tool: 'probe', sessionID: 'away', callID: 'away' }};
const refusal = await hooks['tool.execute.before'](call, {{ args: {{}} }}).then(() => '', (error) => error.message);
console.log(refusal ? 'denied: ' + refusal : 'ran');
process.exit();
"""
_SETTINGS = re.compile(r"^const SETTINGS = (\{.*\}) // " + TAG + "$", re.MULTILINE)


def plan(target: Target) -> list[Change]:
    """Return the key file, the plugin and the modules it imports."""
    path, before = plugin_path(target), read(plugin_path(target))
    if before is not None and TAG not in before:
        raise Unreadable(f"{path} exists and was not written by Toolcards. It was not changed.")
    key = target.key or read_key(target)
    key_file = str(hooks_file.key_path(target, NAME).absolute())
    settings = json.dumps({"url": target.url.rstrip("/"), "keyFile": key_file})
    after, count = _SETTINGS.subn(lambda _: f"const SETTINGS = {settings} // {TAG}", read_source(), count=1)
    if not count:
        raise Unreadable("The plugin has no line for its settings.")
    modules = [copy_file(config_folder(target), name, find_static_file(Path(name).name)) for name in MODULES]
    return [*modules, hooks_file.plan_key(target, NAME, key), Change(path, before, after, secret=_read_old_key(target))]


def undo(target: Target) -> list[Change]:
    """Remove the plugin and its modules, if we created them."""
    path, before = plugin_path(target), read(plugin_path(target))
    is_ours = before is not None and TAG in before
    removals = [remove_copy(config_folder(target), name) for name in (*MODULES, *FORMER_MODULES)]
    after = None if is_ours else before
    return [
        *removals,
        hooks_file.plan_key(target, NAME, None),
        Change(path, before, after, secret=_read_old_key(target)),
    ]


def read_key(target: Target) -> str:
    """Return the stored key, or "".

    Earlier versions stored it in the plugin.
    """
    return hooks_file.read_key(target, NAME) or _read_old_key(target)


def _read_old_key(target: Target) -> str:
    match = _SETTINGS.search(read(plugin_path(target)) or "")
    return str(json.loads(match[1]).get("key", "")) if match else ""


def plugin_path(target: Target) -> Path:
    """Return the plugin's path, in the account or in the project."""
    return config_folder(target) / "plugin" / PLUGIN


def config_folder(target: Target) -> Path:
    """Return opencode's configuration folder, of the account or of the project."""
    return target.project / ".opencode" if target.project is not None else target.home / ".config" / "opencode"


def probe_offline(target: Target) -> str:
    """Return the plugin's denial while no server is running.

    "" if it does not deny.
    """
    path = plugin_path(target)
    return offline_probe.run_node(path.parent, _OFFLINE_PROBE.format(path.name)) if path.exists() else ""


def read_source() -> str:
    """Return the plugin as Toolcards ships it."""
    return find_static_file("opencode.js").read_text("utf-8")


RECIPE = Recipe(
    name=NAME,
    title="opencode",
    version="1.18.33",
    can=Abilities(observe="yes", gate="yes", edit="yes", stream="shell output and text; arguments do not stream"),
    fails="closed",
    when_away="While Toolcards is down no tool runs: the plugin stops the call and tells the model why.",
    notes=(
        "The key is in a file of its own, not in the plugin or in the environment that the model's commands see.",
        "opencode's own requests (permission: ask) can be answered there or here; `opencode run` refuses them.",
        "Denying one of opencode's own requests also denies the other open ones of its session; opencode does that.",
    ),
    plan=plan,
    undo=undo,
    read_key=read_key,
    probe_offline=probe_offline,
)
