"""The names of a call's tool: those that deny and ask, and the one that allows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from toolcards.client.common.lookalikes import skeleton
from toolcards.client.common.tool_kinds import OWN

_JOINTS = re.compile(r"_{2,3}|[./:]")
_LONGEST = 600  # characters of ordinary names


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The names of one tool of one source.

    `server` is the MCP server or package that it comes from, "" for the agent program's own tools; `qualified` the
    tool's name with it, as MCP clients write it. `exact` holds what a rule has to spell to allow the tool, or may spell
    where it names the source as well. `alike` are the skeletons of all that it may be taken for.
    """

    server: str
    qualified: str
    exact: tuple[str, ...]
    exact_with_source: tuple[str, ...]
    alike: tuple[str, ...]
    source_alike: tuple[str, ...]


def tool_names(tool: str, source: str) -> ToolNames:
    """Return all names of the tool."""
    return _short(tool, source) if len(tool) + len(source) <= _LONGEST else _long(tool, source)


@lru_cache(maxsize=2_048)
def _short(tool: str, source: str) -> ToolNames:
    return _read(tool, source)


@lru_cache(maxsize=2)  # every rule asks once a decision; no agent program has such tools
def _long(tool: str, source: str) -> ToolNames:
    return _read(tool, source)


def _read(tool: str, source: str) -> ToolNames:
    server = "" if source in OWN else source
    qualified = f"mcp__{server}__{tool}" if server and not tool.startswith("mcp__") else tool
    return ToolNames(
        server=server,
        qualified=qualified,
        exact=(qualified,),
        exact_with_source=tuple(dict.fromkeys((tool, qualified))),
        alike=_taken_for(tool, qualified),
        source_alike=(skeleton(source),) if source else (),
    )


def _taken_for(tool: str, qualified: str) -> tuple[str, ...]:
    """Return the skeletons of the tool, with and without its server.

    `mcp__files__bash`, `files__bash`, `mcp_files_bash` and `files.bash` may all be taken for `bash`.
    """
    shape = skeleton(tool)
    starts = [joint.end() for joint in _JOINTS.finditer(shape)]
    if shape.startswith("mcp_"):
        starts += [at + 1 for at, char in enumerate(shape) if char == "_"]
    if len(shape) > _LONGEST:
        starts = starts[-1:]
    return tuple(dict.fromkeys((shape, skeleton(qualified), *(shape[start:] for start in starts))))


def agents_alike(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the skeletons of the agents in a path."""
    return tuple([skeleton(name) for name in path])


def looks_like(text: str) -> str:
    """Return the skeleton of a name in a rule, in which only `*` is special."""
    return "*".join(skeleton(part).replace("*", "") for part in text.split("*"))
