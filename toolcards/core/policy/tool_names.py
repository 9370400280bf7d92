"""The names of a call's tool: those that deny and ask, and the one that allows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from toolcards.client.common import tool_kinds
from toolcards.client.common.lookalikes import make_skeleton
from toolcards.client.common.tool_kinds import OWN

_JOINTS = re.compile(r"_{2,3}|[./:]")
_MARK = re.compile(r"(?<![A-Za-z0-9])mcp__")  # starts the name of an MCP tool
_START = re.compile(r"mcp_{1,2}|__|[./:]")  # behind these, the name of a server may begin
_END = re.compile(r"(?<!_)_|[-./:]")  # and here it may end
_MOST = 24  # parts of a name; no client joins more
_LONGEST = 600  # characters of ordinary names


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The names of one tool of one source.

    `server` is the MCP server or package of the tool, "" for the agent program's own tools; `qualified` is the tool's
    name with the server, as MCP clients write it. `exact` has the names by which a rule allows the tool, and
    `exact_with_source` those for a rule that also names the source. `qualifier` is how the qualified name
    begins for this server and no other, "" if that is not certain. `skeletons` are the skeletons of all names that it
    could be mistaken for, `source_skeletons` those of the servers that an MCP tool may be of, and
    `possible_source_skeletons` those of servers that clients may have joined with the name.
    """

    server: str
    qualified: str
    exact: tuple[str, ...]
    exact_with_source: tuple[str, ...]
    qualifier: str
    skeletons: tuple[str, ...]
    source_skeletons: tuple[str, ...]
    possible_source_skeletons: tuple[str, ...]


def read_tool_names(tool: str, source: str) -> ToolNames:
    """Return all names of the tool."""
    return _read_short_names(tool, source) if len(tool) + len(source) <= _LONGEST else _read_long_names(tool, source)


@lru_cache(maxsize=2_048)
def _read_short_names(tool: str, source: str) -> ToolNames:
    return _read_names(tool, source)


@lru_cache(maxsize=2)  # each rule reads them in each decision; no agent program has such tools
def _read_long_names(tool: str, source: str) -> ToolNames:
    return _read_names(tool, source)


def _read_names(tool: str, source: str) -> ToolNames:
    server = "" if source in OWN else source
    is_joined = tool.startswith("mcp__")
    qualified_name = f"mcp__{server}__{tool}" if server and not is_joined else tool
    name_server = tool_kinds.find_server_in_name(tool, server) if is_joined else server
    sources = [source] if source else []
    if not server or (is_joined and not name_server):  # no one tells the server, or not the one in the name
        sources += _list_servers_in_name(tool)
    return ToolNames(
        server=server,
        qualified=qualified_name,
        exact=(qualified_name,),
        exact_with_source=tuple(dict.fromkeys((tool, qualified_name))),
        qualifier=f"mcp__{name_server}__" if name_server else "",
        skeletons=_list_skeletons(tool, qualified_name),
        source_skeletons=tuple(dict.fromkeys(map(make_skeleton, sources))),
        possible_source_skeletons=() if server else tuple(dict.fromkeys(map(make_skeleton, _list_starts(tool)))),
    )


def _list_servers_in_name(tool: str) -> list[str]:
    """Return the servers of MCP that the name may name, also behind other words (`functions.mcp__shop__x`)."""
    starts = [mark.start() for mark in _MARK.finditer(tool[:_LONGEST])][:_MOST]
    return [server for start in starts for server in tool_kinds.list_servers(tool[start:])[:_MOST]]


def _list_starts(tool: str) -> list[str]:
    """Return what a client may have joined with the name: `shop_x`, `shop-x`, `mcp_shop_x` may be of `shop`.

    A program's own tool is of no server.
    """
    if tool_kinds.is_program_tool(tool):
        return []
    tool = tool[:_LONGEST]
    starts = [0, *(mark.end() for mark in _START.finditer(tool))][:_MOST]
    ends = [joint.start() for joint in _END.finditer(tool)]
    return [tool[start:end] for start in starts for end in [end for end in ends if end > start][:_MOST]]


def _list_skeletons(tool: str, qualified_name: str) -> tuple[str, ...]:
    """Return the skeletons of the tool, with and without its server.

    `mcp__files__bash`, `files__bash`, `mcp_files_bash` and `files.bash` could all be mistaken for `bash`.
    """
    shape = make_skeleton(tool)
    starts = [joint.end() for joint in _JOINTS.finditer(shape)]
    if shape.startswith("mcp_"):
        starts += [position + 1 for position, char in enumerate(shape) if char == "_"]
    if len(shape) > _LONGEST:
        starts = starts[-1:]
    return tuple(dict.fromkeys((shape, make_skeleton(qualified_name), *(shape[start:] for start in starts))))


def make_tool_key(tool: str) -> str:
    """Return the key by which calls of a tool are counted.

    It is the same for all spellings of the name, with and without a server, as for rules that ask.
    """
    shape = make_skeleton(tool)
    return (_JOINTS.split(shape)[-1] or shape)[:300]


def list_agent_skeletons(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the skeletons of the agents in a path."""
    return tuple([make_skeleton(name) for name in path])


def make_skeleton_pattern(text: str) -> str:
    """Return the skeleton of a name in a rule; `*` stays special."""
    return "*".join(make_skeleton(part).replace("*", "") for part in text.split("*"))
