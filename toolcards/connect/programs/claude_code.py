"""Claude Code: hooks in its settings, and the key in their `env` block.

What gates is a command hook, `toolcards hook`: Claude Code's own HTTP hooks take every 2xx answer, of any type and
size. What only watches is an HTTP hook that gives up after a second; the program says so. Tested with
@anthropic-ai/claude-code 2.1.329. `onFailure: "block"` needs 2.1.295; older versions run the tool when a hook takes
too long. SessionStart is not sent to HTTP hooks, so a session is first seen at its prompt.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from toolcards.connect import hooks_file, sentences
from toolcards.connect import offline_probe as no_server
from toolcards.connect.base import TAG, Abilities, Change, Recipe, Snippet, Wish, as_json, read_json
from toolcards.connect.hooks_file import HOLD, TIMEOUT

WATCHING = 1  # seconds that a hook which only tells may take, however long the server does
KEY = "TOOLCARDS_CLAUDE_CODE_KEY"
PATH = "/api/v1/hooks/claude-code"
AGENT_SDK = (
    "The app needs no code: it reads the settings that the command writes. Where it reads none (settingSources: []), "
    "ask in its own process: by canUseTool, or by hooks, which see every call. Not both beside the settings."
)
BLOCKS = (2, 1, 295)  # the first version that knows onFailure
GATES = ("PreToolUse", "PermissionRequest")
OF_TOOLS = ("PostToolUse", "PostToolUseFailure", "PermissionDenied")
OF_RUNS = ("UserPromptSubmit", "PostToolBatch", "SubagentStart", "SubagentStop", "Stop", "SessionEnd")


def plan(wish: Wish) -> list[Change]:
    """Return the settings with our hooks in them, in place of those that an earlier connect wrote."""
    path = settings_of(wish)
    text, said = read_json(path)
    key = wish.key or key_in(wish)
    entries = {event: _entry(event, wish.url) for event in (*GATES, *OF_TOOLS, *OF_RUNS)}
    after = _without_key(hooks_file.with_ours(said, entries, path))
    hooks_file.object_in(after, "env", path)[KEY] = key
    unchanged = hooks_file.same(after, said)
    return [Change(path, text, text if unchanged else as_json(after, text), secret=key)]


def undo(wish: Wish) -> list[Change]:
    """Return the settings without our hooks; a file that held nothing else goes."""
    path = settings_of(wish)
    text, said = read_json(path)
    after = _without_key(hooks_file.without_ours(said))
    if after == said:
        return [Change(path, text, text)]
    return [Change(path, text, as_json(after, text) if after else None, secret=key_in(wish))]


def key_in(wish: Wish) -> str:
    """Return the key that is written there."""
    env = read_json(settings_of(wish))[1].get("env")
    key = env.get(KEY) if isinstance(env, dict) else ""
    return key if isinstance(key, str) else ""


def settings_of(wish: Wish) -> Path:
    """Return the file: the account's, or the project's own that is not shared (it holds a key)."""
    if wish.project is not None:
        return wish.project / ".claude" / "settings.local.json"
    return wish.home / ".claude" / "settings.json"


def away(wish: Wish) -> str:
    """Return what the gating hook, as it is written, says to a call with no server there; "" where it does not deny."""
    said = read_json(settings_of(wish))[1]
    for event in GATES:
        ours = hooks_file.ours_in(said, event)
        if not ours or any(hook.get("onFailure") != "block" for hook in ours):
            return ""
    return no_server.hook(["claude-code"])


def mind(wish: Wish) -> str:
    """Return what is to be said of the program on this computer."""
    version, wanted = installed(), ".".join(map(str, BLOCKS))
    if not version:
        return f"There is no `claude` on the PATH here. Versions before {wanted} run a tool whose hook takes too long."
    if version < BLOCKS:
        found = ".".join(map(str, version))
        return f"Claude Code {found} runs a tool whose hook takes too long. Update it: {wanted} blocks it."
    return ""


def installed() -> tuple[int, ...]:
    """Return the version of the program on this computer, () if there is none."""
    claude = shutil.which("claude")
    if claude is None:
        return ()
    try:
        said = subprocess.run(  # noqa: S603 - the program that is being connected
            [claude, "--version"], capture_output=True, text=True, timeout=30
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


def _entry(event: str, url: str) -> dict[str, Any]:
    hook = _gating(url) if event in GATES else _watching(url)
    return ({"matcher": "*"} if event in GATES + OF_TOOLS else {}) | {"hooks": [hook]}


def _gating(url: str) -> dict[str, Any]:
    """The hook that a tool waits for. Whatever goes wrong in it, starting it included, blocks the tool."""
    line = ["claude-code", "--url", url.rstrip("/"), "--key-env", KEY, "--limit", str(HOLD)]
    command = hooks_file.command(line, gates=True)
    return {"type": "command", "command": command, "timeout": TIMEOUT, "onFailure": "block"}


def _watching(url: str) -> dict[str, Any]:
    """The hook that only tells; its name is what the program shows when it gave up."""
    return {
        "type": "http",
        "url": f"{url.rstrip('/')}{PATH}?by={TAG}",
        "headers": {"Authorization": f"Bearer ${KEY}"},
        "allowedEnvVars": [KEY],
        "timeout": WATCHING,
        "statusMessage": "Telling Toolcards",
    }


def _without_key(said: dict[str, Any]) -> dict[str, Any]:
    """The settings without our key, and without an `env` that held nothing else."""
    if not isinstance(said.get("env"), dict) or KEY not in said["env"]:
        return said
    env = {name: value for name, value in said["env"].items() if name != KEY}
    return {name: env if name == "env" else value for name, value in said.items() if name != "env" or env}


RECIPE = Recipe(
    name="claude-code",
    title="Claude Code",
    version="2.1.329",
    can=Abilities(observe="yes", gate="yes", edit="yes", stream="no"),
    fails="closed",
    when_away="While Toolcards is away no tool runs: the hook denies the call and tells the model why.",
    notes=(
        "A deny rule in Claude Code's own settings always wins; an ask rule there asks even after a yes given here.",
        "What only the default allows is left to Claude Code's own rules; if it asks, you can answer there or here.",
        "Input does not stream: a call is seen when it is written.",
        f"A server that takes the call and never answers holds it for {TIMEOUT // 60} minutes; then it is blocked.",
        "Hooks that only watch give up after a second, and Claude Code says so; what they were to tell may be missing.",
        sentences.STARTS_HERE,
    ),
    plan=plan,
    undo=undo,
    key_in=key_in,
    place=10,
    by_hand=(Snippet("claude_agent_ts", "In an app on the Claude Agent SDK for TypeScript", AGENT_SDK),),
    guide=sentences.CODING,
    road="hooks",
    away=away,
    mind=mind,
)  # fmt: skip
