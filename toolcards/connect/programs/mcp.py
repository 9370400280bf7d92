"""MCP servers in the configuration of a client: puts `toolcards mcp` before the command of each.

The files of Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Cline and others have an object `mcpServers`
(VS Code: `servers`) with a command and its arguments by the server's name. Only these two values of an
entry change, as text: comments, order and spaces stay, and undoing restores every byte.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from toolcards.connect import offline_probe
from toolcards.connect.base import (
    CODING_GUIDE,
    TAG,
    Abilities,
    Change,
    Recipe,
    Snippet,
    Target,
    Unreadable,
    find_command,
    read,
)  # fmt: skip
from toolcards.connect.edits import hooks_file, jsonc
from toolcards.connect.edits.jsonc import Edits, JsonSpan, parse_spans

NAME = "mcp"
SERVERS = ("mcpServers", "servers")
# Only clients whose tools `connect` does not gate by hooks: otherwise each call would need two decisions.
OF_PROJECT = (".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".roo/mcp.json")
OF_ACCOUNT = (
    ".cursor/mcp.json", ".config/Claude/claude_desktop_config.json",
    "Library/Application Support/Claude/claude_desktop_config.json", ".config/Code/User/mcp.json",
    "Library/Application Support/Code/User/mcp.json", ".codeium/windsurf/mcp_config.json",
)  # fmt: skip
MARK, MARK_NO_ARGS = TAG, f"{TAG}-no-args"  # the second marks an entry that had no arguments


def plan(target: Target) -> list[Change]:
    """Return the key file, and configurations with servers behind the gateway.

    Raises Unreadable.
    """
    configs = [(path, text, _wrap(path, text, target)) for path, text in _read_configs(target)]
    if not any(after != _unwrap(path, text) for path, text, after in configs):
        places = ", ".join(str(path) for path in _list_paths(target))
        raise Unreadable(f"No MCP server with a command was found in {places}. Name the file with --config.")
    key_change = hooks_file.plan_key(target, _key_name(target), target.key or read_key(target))
    return [key_change, *(Change(path, text, after) for path, text, after in configs)]


def undo(target: Target) -> list[Change]:
    """Return the configurations as they were, and no key file."""
    changes = [Change(path, text, _unwrap(path, text)) for path, text in _read_configs(target)]
    return [hooks_file.plan_key(target, _key_name(target), None), *changes]


def read_key(target: Target) -> str:
    """Return the key in the key file, "" if it is missing."""
    return hooks_file.read_key(target, _key_name(target))


def probe_offline(target: Target) -> str:
    """Return the gateway's denial while no server is running.

    "" without a changed configuration.
    """
    has_wrapped = any(_unwrap(path, text) != text for path, text in _read_configs(target))
    return offline_probe.run_mcp() if has_wrapped else ""


def find_warning(target: Target) -> str:
    """Name the servers that stay as they are.

    They have an address and no command.
    """
    names = []
    for path, text in _read_configs(target):
        names += [name for name, entry in _iterate_entries(_parse(path, text)) if _get_text(entry, "command") is None]
    if not names:
        return ""
    return f"Not held, since they have no command: {', '.join(names)}. See --upstream in {CODING_GUIDE}."


def _list_paths(target: Target) -> list[Path]:
    if target.config is not None:
        return [target.config]
    if target.project is not None:
        return [target.project / name for name in OF_PROJECT]
    appdata = os.environ.get("APPDATA")
    windows = [Path(appdata) / "Claude" / "claude_desktop_config.json"] if appdata else []
    return [*(target.home / name for name in OF_ACCOUNT), *windows]


def _read_configs(target: Target) -> list[tuple[Path, str]]:
    """Return the configurations that exist, with their texts; raises Unreadable if the named one does not."""
    texts = [(path, read(path)) for path in _list_paths(target)]
    if target.config is not None and texts[0][1] is None:
        raise Unreadable(f"File not found: {target.config}.")
    return [(path, text) for path, text in texts if text is not None and text.strip()]


def _key_name(target: Target) -> str:
    if target.config is None:
        return NAME
    return f"{NAME}-{hashlib.sha256(str(target.config.resolve()).encode()).hexdigest()[:12]}"


def _parse(path: Path, text: str) -> JsonSpan:
    try:
        return parse_spans(text)
    except jsonc.NotJsonc as error:
        raise Unreadable(f"{path} could not be parsed ({error}). It was not changed. Fix it and try again.") from error


def _iterate_entries(tree: JsonSpan) -> Iterator[tuple[str, JsonSpan]]:
    """Yield name and entry of each server."""
    for name in SERVERS:
        servers = tree.find(name)
        yield from servers.members.items() if servers is not None and servers.members is not None else ()


def _get_text(entry: JsonSpan, name: str) -> str | None:
    span = entry.find(name)
    return span.value if span is not None and isinstance(span.value, str) else None


def _wrap(path: Path, text: str, target: Target) -> str:
    """Return the text with each command behind the gateway, replacing what an earlier call wrote."""
    edits = Edits(_unwrap(path, text))
    words = find_command()
    key_file = str(hooks_file.key_path(target, _key_name(target)).absolute())
    for name, entry in _iterate_entries(_parse(path, edits.text)):
        command, args = entry.find("command"), entry.find("args")
        if command is None or not isinstance(command.value, str) or (args is not None and args.items is None):
            continue
        line = [*words[1:], "mcp", "--server", name, "--url", target.url.rstrip("/"), "--key-file", key_file]
        line += ["--by", MARK_NO_ARGS if args is None else MARK, "--"]
        items = ", ".join([*(json.dumps(word, ensure_ascii=False) for word in line), _cut(edits.text, command)])
        edits.replace(command.start, command.end, json.dumps(words[0], ensure_ascii=False))
        if args is None:
            edits.replace(command.end, command.end, f', "args": [{items}]')
        else:
            edits.replace(args.start + 1, args.start + 1, items + (", " if args.items else ""))
    return edits.apply()


def _unwrap(path: Path, text: str) -> str:
    """Return the text with each command as it was before `_wrap`."""
    edits = Edits(text)
    for _name, entry in _iterate_entries(_parse(path, text)):
        command, args = entry.find("command"), entry.find("args")
        if command is None or args is None or not args.items:
            continue
        values = [item.value for item in args.items]
        index = next((n for n, value in enumerate(values) if value == "--by" and n + 3 < len(values)), None)
        if index is None or values[index + 1] not in {MARK, MARK_NO_ARGS} or values[index + 2] != "--":
            continue
        original = args.items[index + 3]
        edits.replace(command.start, command.end, _cut(text, original))
        if values[index + 1] == MARK_NO_ARGS and index + 4 == len(values):
            edits.replace(command.end, args.end, "")
        else:
            following = text[original.end :]
            edits.replace(args.start + 1, original.end + (2 if following.startswith(", ") else 0), "")
    return edits.apply()


def _cut(text: str, span: JsonSpan) -> str:
    return text[span.start : span.end]


RECIPE = Recipe(
    name=NAME,
    title="MCP servers",
    version="mcp 2.3 and FastMCP 4.1",
    about="Runs between an MCP client and its servers: each tool call is held, whatever the client. Puts toolcards mcp "
    "before the command of each server in the client's configuration, the file after --config or the ones it finds.",
    can=Abilities(gate="calls of MCP tools; not the client's own tools", edit="yes"),
    fails="closed",
    when_away="While Toolcards is down every tool call of these servers is denied; everything else passes.",
    notes=(
        "Servers with an address instead of a command stay as they are: start toolcards mcp --upstream for them.",
        "The servers do not get the key.",
        "Roo Code and its forks have no hooks: of theirs, only the MCP servers (.roo/mcp.json) can be held.",
        hooks_file.STARTS_HERE,
    ),
    plan=plan,
    undo=undo,
    read_key=read_key,
    aliases=("claude-desktop",),
    by_hand=(Snippet("mcp", "By hand, in the client's configuration", "For a client whose file has another form."),),
    guide=CODING_GUIDE,
    next_step="Restart the client.",
    probe_offline=probe_offline,
    find_warning=find_warning,
)
