"""What is judged: one tool call with everything that rules may ask about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcards.client.common import catalogue


@dataclass(frozen=True, slots=True)
class Question:
    """A tool call as policy sees it. Make it with `Question.of`: the kind is ours, never the agent's claim.

    `user` holds names and groups ("ana", "group:dev"). `has_input` False: the input is not known, so conditions on it
    cannot be told. `now` 0: the time is not known. `counts` answers `Policy.rates` with the number of earlier
    calls of this tool; what is missing there is not known.
    """

    tool: str
    source: str = ""
    kind: str = ""
    agent_path: tuple[str, ...] = ()
    env: str = ""
    user: tuple[str, ...] = ()
    input: Any = None
    has_input: bool = True
    run: str = ""
    now: float = 0.0
    known: bool = True
    changed: bool = False
    can_wait: bool = True
    counts: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, tool: str, *, source: str = "", **more: Any) -> Question:
        """Return the question with the kind that our catalogue knows, and an MCP tool's server as its source."""
        if not source and tool.startswith("mcp__") and tool.count("__") > 1:
            source = tool.split("__", 2)[1]
        return cls(tool, source=source, kind=catalogue.kind_of(tool), **more)
