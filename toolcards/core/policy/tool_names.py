"""The names of a call's tool: those that deny and ask, and the one that allows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from toolcards.client.common.lookalikes import make_skeleton
from toolcards.client.common.tool_kinds import OWN

_JOINTS = re.compile(r"_{2,3}|[./:]")
_LONGEST = 600  # characters of ordinary names


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The names of one tool of one source.

    `server` is the MCP server or package of the tool, "" for the agent program's own tools; `qualified` is the tool's
    name with the server, as MCP clients write it. `exact` has the names by which a rule allows the tool, and
    `exact_with_source` those for a rule that also names the source. `skeletons` are the skeletons of all names that it
    could be mistaken for.
    """

    server: str
    qualified: str
    exact: tuple[str, ...]
    exact_with_source: tuple[str, ...]
    skeletons: tuple[str, ...]
    source_skeletons: tuple[str, ...]


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
    qualified_name = f"mcp__{server}__{tool}" if server and not tool.startswith("mcp__") else tool
    return ToolNames(
        server=server,
        qualified=qualified_name,
        exact=(qualified_name,),
        exact_with_source=tuple(dict.fromkeys((tool, qualified_name))),
        skeletons=_list_skeletons(tool, qualified_name),
        source_skeletons=(make_skeleton(source),) if source else (),
    )


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
