"""The kinds of tools, from a list of real tools by program and server (`tools.toml`).

Policy uses `find_kinds`. Only a tool in the catalog, spelled as its program or server spells it, counts as read-only.
Names that promise a change (`delete_…`, `send_…`), names that look like those of dangerous tools (`BASH`), and the
agent's own claim can make a call more dangerous, never less. Cards show `display_kind`, which also trusts friendly
names and the agent's claim.
The ten kinds are those of the Agent Client Protocol (v1). Standard library only: the client has a copy.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from .lookalikes import make_skeleton, to_latin

KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
DANGER = {kind: rank for rank, kinds in enumerate(
    ("read search think", "fetch", "switch_mode other", "edit move", "delete", "execute")) for kind in kinds.split()
}  # fmt: skip
OWN = frozenset({"", "builtin"})  # a tool's source where it is the agent program's own
_DATA = Path(__file__).with_name("tools.toml")
_CHANGES: dict[str, str] = {
    make_skeleton(verb): kind
    for kind, verbs in {
        "delete": "delete remove drop destroy purge erase truncate wipe uninstall clear revoke unlink",
        "edit": "write edit update create insert set put patch save modify append upsert add upload commit merge "
        "replace fill assign comment reply react approve reject resolve close reopen archive star fork attach detach "
        "enable disable label mark draft copy rebase checkout reset",
        "move": "move rename",
        "execute": "run exec execute shell send post publish deploy pay transfer charge refund order buy email push "
        "install kill restart stop start invoke call trigger click press type drag eval evaluate apply rollback "
        "scale cancel share invite submit confirm terminate shutdown reboot halt abort suspend ban evict overwrite "
        "flush shred decommission deprovision",
    }.items()
    for verb in verbs.split()
}
# After one of these verbs a word of the second list is the noun of a read (`get_order`), and any other promised change
# only before one of the third (`get_deploy_status`). After a connective, what follows is a second step.
_READING, _NOUNS, _HEADS, _CONNECTIVES = (frozenset(words.split()) for words in (
    "get find list search fetch check describe count lookup show view read",
    "order email label comment charge refund transfer draft post type commit invite reply",
    ("status history detail details info state log logs event events date time count total id ids url code reason "
    "policy request requests label labels line lines item items number price cost limit rate method methods options"),
    "and or then to plus also if n with while before after",
))  # fmt: skip
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
_MCP = "mcp__"  # starts the names of MCP tools
_JOINT = re.compile("_(?=_)")
_MOST_READINGS = 64  # of one name
_NO_NAME_SIGN = re.compile(r"[^a-z0-9]")
_LONGEST = 300  # characters of a name; the catalog has none that is longer
_Table = dict[str, str]


@dataclass(frozen=True)
class _Catalog:
    """Kinds by the name of the tool."""

    programs: dict[str, _Table] = field(default_factory=dict)  # as spelled: a server's `read-file` is no `read_file`
    own: _Table = field(default_factory=dict)  # of all programs
    servers: dict[str, _Table] = field(default_factory=dict)
    by_joined_name: _Table = field(default_factory=dict)  # `server_tool`
    changing: _Table = field(default_factory=dict)  # by skeleton: the tool that a lookalike resembles


# ---------------------------------------------------------------- queries


def find_kinds(tool: str, server: str = "", program: str = "", claimed_kind: str = "") -> tuple[str, ...]:
    """Return every kind that the tool may have, the most dangerous first.

    `server`: its MCP server or package, "" for the agent program's own tools. `program`: the agent program, if known.
    `claimed_kind`: the kind that the agent claims.
    """
    short = len(tool) + len(server) <= _LONGEST
    kinds = _find_kinds(tool, server, program) if short else _sort_by_danger(("other", *_find_promised_kinds(tool)))
    return (claimed_kind, *kinds) if DANGER.get(claimed_kind, 0) > DANGER[kinds[0]] else kinds


def find_kind(tool: str, server: str = "", program: str = "") -> str:
    """Return the most dangerous kind that the tool may have."""
    return find_kinds(tool, server, program)[0]


def is_known_tool(tool: str, server: str = "", program: str = "") -> bool:
    """Return whether the catalog has this tool of this program or server."""
    if len(tool) + len(server) > _LONGEST:
        return False
    return _is_in_catalog(tool, server, program)


@lru_cache(maxsize=2_048)
def _is_in_catalog(tool: str, server: str, program: str) -> bool:
    return _look_up_kind(tool, server, program) is not None


def display_kind(tool: str, claimed_kind: str = "", server: str = "") -> str:
    """Return the kind that a card shows.

    It is the more dangerous of ours and the agent's; an unknown tool also gets the kind that a friendly name implies.
    """
    is_short = len(tool) + len(server) + len(claimed_kind) <= _LONGEST
    return (_find_display_kind if is_short else _find_display_kind.__wrapped__)(tool, claimed_kind, server)


@lru_cache(maxsize=2_048)
def _find_display_kind(tool: str, claimed_kind: str, server: str) -> str:
    kind = find_kinds(tool, server, claimed_kind=claimed_kind)[0]
    if kind != "other":
        return kind
    if claimed_kind in KINDS:
        return claimed_kind
    words = split_words(_get_last_part(tool))
    return next((_FRIENDLY[word] for word in words[:1] if word in _FRIENDLY), "other")


def list_own_tools() -> frozenset[str]:
    """Return the names of all tools built into agent programs."""
    return frozenset(_load_catalog().own)


def is_program_tool(name: str) -> bool:
    """Return whether some agent program has this tool itself."""
    return any(name in table for table in _load_catalog().programs.values())


def is_program(name: str) -> bool:
    """Return whether the catalog has tools of this agent program."""
    return name in _load_catalog().programs


def is_server(name: str) -> bool:
    """Return whether the catalog has tools of a server with this name."""
    return normalize_server(name) in _load_catalog().servers


def list_servers(tool: str) -> tuple[str, ...]:
    """Return every server that a name such as `mcp__server__tool` may name.

    Both parts can contain the joint, so `mcp__docs__prod__get` may be of `docs` or of `docs__prod`.
    """
    if not tool.startswith(_MCP):
        return ()
    joints = (match.start() for match in islice(_JOINT.finditer(tool, len(_MCP) + 1), _MOST_READINGS))
    return tuple(tool[len(_MCP) : joint] for joint in joints if joint + 2 < len(tool))


def parse_server(tool: str) -> str:
    """Return the server in `mcp__server__tool`, "" if none is certain."""
    servers = list_servers(tool) if tool.startswith(_MCP) else ()
    return servers[0] if len(servers) == 1 else ""


def find_server_in_name(tool: str, server: str) -> str:
    """Return the server as `mcp__server__tool` spells it, or ""."""
    name = normalize_server(server) if tool.startswith(_MCP) else ""
    return next((each for each in list_servers(tool) if normalize_server(each) == name), "") if name else ""


def normalize_server(server: str) -> str:
    """Return the server's name in one spelling, "" beyond ASCII.

    Programs replace what is no letter, digit or hyphen by an underscore.
    """
    return _NO_NAME_SIGN.sub("-", server.lower()) if server.isascii() else ""


# ---------------------------------------------------------------- looking up


@lru_cache(maxsize=2_048)
def _find_kinds(tool: str, server: str, program: str) -> tuple[str, ...]:
    listed_kinds = _look_up_kind(tool, server, program)
    return (listed_kinds,) if listed_kinds else _sort_by_danger(("other", *_find_promised_kinds(tool)))


def _look_up_kind(tool: str, server: str, program: str) -> str | None:
    """Return the catalog's kind of exactly this tool."""
    catalog = _load_catalog()
    if server in OWN and not tool.startswith(_MCP):
        if program in catalog.programs:
            return catalog.programs[program].get(tool) or catalog.by_joined_name.get(_join_name(tool))
        return catalog.own.get(_normalize_name(tool)) or catalog.by_joined_name.get(_join_name(tool))
    if not tool.startswith(_MCP):
        return catalog.servers.get(normalize_server(server), {}).get(_normalize_name(tool))
    name_server = parse_server(tool) if server in OWN else find_server_in_name(tool, server)
    if not name_server:
        return None  # the name can be read in several ways, or it and the agent disagree about the server
    bare = tool[len(_MCP) + len(name_server) + 2 :]
    return catalog.servers.get(normalize_server(name_server), {}).get(_normalize_name(bare))


def _find_promised_kinds(tool: str) -> Iterator[str]:
    """Yield the kinds of change that the name promises.

    These are the kinds of its verbs, and of the dangerous tools that it resembles.
    """
    changing = _load_catalog().changing
    shape = make_skeleton(tool[:_LONGEST])
    for part in {shape, *_JOINTS.split(shape)}:
        if part in changing:
            yield changing[part]
    words = split_words(_get_last_part(tool))
    is_reading = tool.isascii() and bool(words) and words[0] in _READING
    for place, word in enumerate(words):
        if make_skeleton(word) in _CHANGES and not (is_reading and _is_noun(words, place)):
            yield _CHANGES[make_skeleton(word)]


def _is_noun(words: list[str], place: int) -> bool:
    """Return whether this word of a name that begins with a reading verb names what is read."""
    following = words[place + 1] if place + 1 < len(words) else ""
    return _CONNECTIVES.isdisjoint(words[:place]) and (words[place] in _NOUNS or following in _HEADS)


def _sort_by_danger(kinds: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(dict.fromkeys(kinds), key=lambda kind: -DANGER[kind]))


def split_words(name: str) -> list[str]:
    """Split a name into lower-case words.

    `deleteFile` and `delete_file` have two.
    """
    return [word.lower() for word in _WORDS.findall(to_latin(name[:200]))]


def _get_last_part(tool: str) -> str:
    return tool.rsplit("__", 1)[-1]


def _normalize_name(tool: str) -> str:
    return tool.replace("-", "_")


def _join_name(tool: str) -> str:
    """Return `server_tool` for a name that joins both in any way."""
    plain = _normalize_name(_JOINTS.sub("_", tool.removeprefix("@")))
    return plain.removeprefix("mcp_")


# ---------------------------------------------------------------- reading the data


@lru_cache(maxsize=1)
def _load_catalog() -> _Catalog:
    catalog, data = _Catalog(), tomllib.loads(_DATA.read_text("utf-8"))
    for program, groups in data["programs"].items():
        for name, kind in _iterate_rows(groups):
            _add(catalog.programs.setdefault(program, {}), name, kind)
            _add(catalog.own, _normalize_name(name), kind)
    for groups in data["servers"].values():
        for name, kind in ((_normalize_name(name), kind) for name, kind in _iterate_rows(groups)):
            if groups.get("plain"):
                _add(catalog.own, name, kind)
            for alias in groups["names"].split():
                _add(catalog.servers.setdefault(normalize_server(alias), {}), name, kind)
                _add(catalog.by_joined_name, f"{_normalize_name(alias)}_{name}", kind)
    for name, kind in catalog.own.items():
        if DANGER[kind] > DANGER["other"]:
            _add(catalog.changing, make_skeleton(name), kind)
    return catalog


def _iterate_rows(groups: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for kind in KINDS:
        for name in groups.get(kind, "").split():
            yield name, kind


def _add(table: _Table, name: str, kind: str) -> None:
    """Add the kind; of two kinds under one name the more dangerous counts."""
    previous = table.get(name)
    if previous is None or DANGER[kind] > DANGER[previous]:
        table[name] = kind
