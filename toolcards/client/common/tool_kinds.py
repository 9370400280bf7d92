"""The kinds of tools, from a list of real tools by program and server (`tools.toml`).

Policy asks `kinds_of`. Only a tool that the catalogue has, spelled as its program or server spells it, is known to do
no more than look. Names that promise a change (`delete_…`, `send_…`), names that look like those of dangerous tools
(`BASH`), and what an agent says of its own tool can make a call look more dangerous, never less. Cards show
`display_kind`, which also believes friendly names and what the agent says.
The ten kinds are the Agent Client Protocol's (v1). Standard library only: our client carries a copy.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from .lookalikes import latin, skeleton

KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
DANGER = {kind: rank for rank, kinds in enumerate(
    ("read search think", "fetch", "switch_mode other", "edit move", "delete", "execute")) for kind in kinds.split()
}  # fmt: skip
OWN = frozenset({"", "builtin"})  # a tool's source where it is the agent program's own
_DATA = Path(__file__).with_name("tools.toml")
_CHANGES: dict[str, str] = {
    skeleton(verb): kind
    for kind, verbs in {
        "delete": "delete remove drop destroy purge erase truncate wipe uninstall clear revoke unlink",
        "edit": "write edit update create insert set put patch save modify append upsert add upload commit merge "
        "replace fill assign comment reply react approve reject resolve close reopen archive star fork attach detach "
        "enable disable label mark draft copy rebase checkout reset",
        "move": "move rename",
        "execute": "run exec execute shell send post publish deploy pay transfer charge refund order buy email push "
        "install kill restart stop start invoke call trigger click press type drag eval evaluate apply rollback "
        "scale cancel share invite submit confirm",
    }.items()
    for verb in verbs.split()
}
_FRIENDLY: dict[str, str] = {
    verb: kind
    for kind, verbs in {
        "read": "get read list show describe view load",
        "search": "search find query lookup grep",
        "fetch": "fetch download crawl browse",
        "think": "think plan reason",
    }.items()
    for verb in verbs.split()
}
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_JOINTS = re.compile(r"_{2,3}|--|[./:]")
_LONGEST = 300  # characters of a name; the catalogue has none that is longer
_Table = dict[str, str]


@dataclass(frozen=True)
class _Catalogue:
    """Kinds by the name of the tool."""

    programs: dict[str, _Table] = field(default_factory=dict)
    own: _Table = field(default_factory=dict)  # of all programs
    servers: dict[str, _Table] = field(default_factory=dict)
    joined: _Table = field(default_factory=dict)  # by `server_tool`
    changing: _Table = field(default_factory=dict)  # by skeleton: what a look-alike is taken for


# ---------------------------------------------------------------- what others ask


def kinds_of(tool: str, server: str = "", program: str = "", claimed: str = "") -> tuple[str, ...]:
    """Return every kind that the tool may be of, the gravest first.

    `server`: the MCP server or package it comes from, "" for the agent program's own. `program`: which agent program,
    where that is known. `claimed`: what the agent says of it.
    """
    short = len(tool) + len(server) <= _LONGEST
    kinds = _kinds(tool, server, program) if short else _gravest_first(("other", *_promised(tool)))
    return (claimed, *kinds) if DANGER.get(claimed, 0) > DANGER[kinds[0]] else kinds


def kind_of(tool: str, server: str = "", program: str = "") -> str:
    """Return the gravest kind that the tool may be of."""
    return kinds_of(tool, server, program)[0]


def knows(tool: str, server: str = "", program: str = "") -> bool:
    """Return whether the catalogue has this tool of this program or server."""
    return _listed(tool, server, program) is not None


def display_kind(tool: str, claimed: str = "", server: str = "") -> str:
    """Return the kind that a card shows.

    It is the gravest of ours and the agent's; for a tool that is not known, also what a friendly name says.
    """
    kind = kinds_of(tool, server, claimed=claimed)[0]
    if kind != "other":
        return kind
    if claimed in KINDS:
        return claimed
    words = _words(_last_part(tool))
    return next((_FRIENDLY[word] for word in words[:1] if word in _FRIENDLY), "other")


def own_tools() -> frozenset[str]:
    """Return the names of all tools that agent programs bring along."""
    return frozenset(_catalogue().own)


def server_of(tool: str) -> str:
    """Return the server in a name such as `mcp__server__tool`, "" without one."""
    return tool.split("__", 2)[1] if tool.startswith("mcp__") and tool.count("__") > 1 else ""


# ---------------------------------------------------------------- looking up


@lru_cache(maxsize=2_048)
def _kinds(tool: str, server: str, program: str) -> tuple[str, ...]:
    listed = _listed(tool, server, program)
    return (listed,) if listed else _gravest_first(("other", *_promised(tool)))


def _listed(tool: str, server: str, program: str) -> str | None:
    """Return the kind that the catalogue has for exactly this tool."""
    catalogue, named = _catalogue(), server_of(tool)
    if server in OWN and not named:
        if program in catalogue.programs:
            return catalogue.programs[program].get(_key(tool)) or catalogue.joined.get(_joined(tool))
        return catalogue.own.get(_key(tool)) or catalogue.joined.get(_joined(tool))
    if named and server not in OWN and _alias(named) != _alias(server):
        return None  # two stories about where it comes from
    bare = tool.split("__", 2)[2] if named else tool
    return catalogue.servers.get(_alias(named or server), {}).get(_key(bare))


def _promised(tool: str) -> Iterator[str]:
    """Give the kinds of change that the name promises.

    These are the kinds of its verbs, and of the dangerous tools that it looks like.
    """
    changing = _catalogue().changing
    shape = skeleton(tool[:_LONGEST])
    for part in {shape, *_JOINTS.split(shape)}:
        if part in changing:
            yield changing[part]
    for word in _words(_last_part(tool)):
        if skeleton(word) in _CHANGES:
            yield _CHANGES[skeleton(word)]


def _gravest_first(kinds: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(kinds), key=lambda kind: -DANGER[kind]))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(latin(name[:200]))]


def _last_part(tool: str) -> str:
    return tool.rsplit("__", 1)[-1]


def _key(tool: str) -> str:
    return tool.replace("-", "_")


def _alias(server: str) -> str:
    """Return the server's name in one spelling, "" for a name beyond ASCII."""
    return server.lower().replace("_", "-") if server.isascii() else ""


def _joined(tool: str) -> str:
    """Return `server_tool` for a name that joins both in any way."""
    plain = _key(_JOINTS.sub("_", tool.removeprefix("@")))
    return plain.removeprefix("mcp_")


# ---------------------------------------------------------------- reading the data


@lru_cache(maxsize=1)
def _catalogue() -> _Catalogue:
    catalogue, data = _Catalogue(), tomllib.loads(_DATA.read_text("utf-8"))
    for program, groups in data["programs"].items():
        for name, kind in _rows(groups):
            _add(catalogue.programs.setdefault(program, {}), name, kind)
            _add(catalogue.own, name, kind)
    for groups in data["servers"].values():
        for name, kind in _rows(groups):
            if groups.get("plain"):
                _add(catalogue.own, name, kind)
            for alias in groups["names"].split():
                _add(catalogue.servers.setdefault(_alias(alias), {}), name, kind)
                _add(catalogue.joined, f"{_key(alias)}_{name}", kind)
    for name, kind in catalogue.own.items():
        if DANGER[kind] > DANGER["other"]:
            _add(catalogue.changing, skeleton(name), kind)
    return catalogue


def _rows(groups: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for kind in KINDS:
        for name in groups.get(kind, "").split():
            yield _key(name), kind


def _add(table: _Table, name: str, kind: str) -> None:
    """Note the kind; of two kinds under one name the graver counts."""
    known = table.get(name)
    if known is None or DANGER[kind] > DANGER[known]:
        table[name] = kind
