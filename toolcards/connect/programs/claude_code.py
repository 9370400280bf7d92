"""Claude Code: hooks in its settings, and the key in their `env` block.

What gates is a command hook, `toolcards hook`: Claude Code's own HTTP hooks take every 2xx answer, of any type and
size. What only watches is an HTTP hook that gives up after a second; the program says so. Tested with
@anthropic-ai/claude-code 2.1.329. `onFailure: "block"` needs 2.1.295; older versions run the tool when a hook takes
too long. SessionStart is not sent to HTTP hooks, so a session is first seen at its prompt.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolcards.connect import away as no_server
from toolcards.connect.base import (
    TAG,
    Abilities,
    Change,
    Recipe,
    Snippet,
    Unreadable,
    Wish,
    as_json,
    program,
    read_json,
)

HOLD = 930  # seconds that a question is held: longer than the server's own time to answer (900)
TIMEOUT = HOLD + 30  # the hook's own limit: were it to elapse, older versions would run the tool
WATCHING = 1  # seconds that a hook which only tells may take, however long the server does
KEY = "TOOLCARDS_CLAUDE_CODE_KEY"
PATH = "/api/v1/hooks/claude-code"
AGENT_SDK = (
    "The app needs no code: it reads the settings that the command writes. Where it reads none (settingSources: []), "
    "ask in its own process: by canUseTool, or by hooks, which see every call. Not both beside the settings."
)
FALLBACK = 'echo "The Toolcards hook could not run, so nothing was run." >&2; exit 2'  # 2 blocks, in every version
BLOCKS = (2, 1, 295)  # the first version that knows onFailure
GATES = ("PreToolUse", "PermissionRequest")
OF_TOOLS = ("PostToolUse", "PostToolUseFailure", "PermissionDenied")
OF_RUNS = ("UserPromptSubmit", "PostToolBatch", "SubagentStart", "SubagentStop", "Stop", "SessionEnd")


def plan(wish: Wish) -> list[Change]:
    """Return the settings with our hooks in them, in place of those that an earlier connect wrote."""
    path = settings_of(wish)
    text, said = read_json(path)
    key = wish.key or key_in(wish)
    after = _without(said)
    hooks = _object(after, "hooks", path)
    for event in (*GATES, *OF_TOOLS, *OF_RUNS):
        entries = hooks.setdefault(event, [])
        if not isinstance(entries, list):
            raise Unreadable(f"{path}: hooks.{event} is not a list. It was not touched.")
        entries.append(_entry(event, wish.url))
    _object(after, "env", path)[KEY] = key
    same = _sorted_away(after) == _sorted_away(said)
    return [Change(path, text, text if same else as_json(after, text), secret=key)]


def undo(wish: Wish) -> list[Change]:
    """Return the settings without our hooks; a file that held nothing else goes."""
    path = settings_of(wish)
    text, said = read_json(path)
    after = _without(said)
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
    hooks = read_json(settings_of(wish))[1].get("hooks", {})
    for event in GATES:
        ours = [hook for entry in hooks.get(event, []) for hook in entry.get("hooks", []) if _ours(hook)]
        if not ours or any(hook.get("onFailure") != "block" for hook in ours):
            return ""
    return no_server.hook(["hook", "claude-code"])


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
    words = [*program(), "hook", "claude-code", "--url", url.rstrip("/"), "--key-env", KEY, "--limit", str(HOLD)]
    command = f"{shlex.join([*words, '--by', TAG])} || {{ {FALLBACK}; }}"
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


def _without(said: dict[str, Any]) -> dict[str, Any]:
    """The settings without anything of ours, and without what that leaves empty."""
    after = dict(said)
    if isinstance(said.get("hooks"), dict):
        hooks = {event: _others(entries) for event, entries in said["hooks"].items()}
        after["hooks"] = {event: left for event, left in hooks.items() if left or not said["hooks"][event]}
    if isinstance(said.get("env"), dict):
        after["env"] = {name: value for name, value in said["env"].items() if name != KEY}
    for name in ("hooks", "env"):
        if after.get(name) == {} and said.get(name) != {}:
            del after[name]
    return after


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
    url, command = str(hook.get("url", "")), str(hook.get("command", ""))
    return f"by={TAG}" in urlsplit(url).query or f" --by {TAG}" in command


def _object(said: dict[str, Any], name: str, path: Path) -> dict[str, Any]:
    value = said.get(name, {})
    if not isinstance(value, dict):
        raise Unreadable(f"{path}: {name} is not an object. It was not touched.")
    said[name] = dict(value)
    inner: dict[str, Any] = said[name]
    for event, entries in inner.items():
        inner[event] = list(entries) if isinstance(entries, list) else entries
    return inner


def _sorted_away(said: dict[str, Any]) -> Any:
    """The settings in a form in which the order of our entries among others' does not count."""
    hooks = said.get("hooks")
    if not isinstance(hooks, dict):
        return said
    ordered = {
        event: sorted(map(repr, entries)) if isinstance(entries, list) else entries for event, entries in hooks.items()
    }
    return said | {"hooks": ordered}


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
        "The gating hook starts Toolcards on this computer: connect again if you move or remove it.",
    ),
    plan=plan,
    undo=undo,
    key_in=key_in,
    place=10,
    by_hand=(Snippet("claude_agent_ts", "In an app on the Claude Agent SDK for TypeScript", AGENT_SDK),),
    road="hooks",
    away=away,
    mind=mind,
)  # fmt: skip
