"""The request that policy evaluates: one tool call and its circumstances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcards.client.common import tool_kinds
from toolcards.core.policy.places.project import Project, read_project
from toolcards.core.policy.tool_names import ToolNames, read_tool_names


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """A tool call under evaluation. Create it with `for_tool`, which looks the tool's kinds up in the catalog.

    `kind` is the most dangerous kind that the tool may have, `also` the others. `user` holds names and groups ("ana",
    "group:dev"). `schema` is the digest of the tool's schema, "" if unknown. `has_input` False: the input is unknown,
    so conditions on it are UNKNOWN. `root` is the absolute folder of the project, `folder` the one in which the call
    works; "" is unknown, and the root. `now` is a Unix time in seconds, 0 if unknown. `counts` holds the number of
    earlier calls of this tool for each (scope, seconds) of `RuleSet.rates`; a missing entry is unknown.
    """

    tool: str
    source: str = ""
    kind: str = ""
    also: tuple[str, ...] = ()
    agent_path: tuple[str, ...] = ()
    env: str = ""
    user: tuple[str, ...] = ()
    input: Any = None
    has_input: bool = True
    run: str = ""
    now: float = 0.0
    is_known: bool = True
    changed: bool = False
    schema: str = ""
    can_wait: bool = True
    counts: Mapping[tuple[str, int], int] = field(default_factory=dict)
    root: str = ""
    folder: str = ""

    @classmethod
    def for_tool(
        cls, tool: str, *, source: str = "", program: str = "", claimed_kind: str = "", **fields: Any
    ) -> PolicyRequest:
        """Return a request with the tool's kinds and source filled in.

        `program`: the agent program, if known. `claimed_kind`: the kind that the agent states; it can only add kinds.
        """
        kind, *also = tool_kinds.find_kinds(tool, source, program, claimed_kind)
        return cls(tool, source=source or tool_kinds.parse_server(tool), kind=kind, also=tuple(also), **fields)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind that the tool may have."""
        return (self.kind or "other", *self.also)

    @property
    def names(self) -> ToolNames:
        """The names of the tool in rules."""
        return read_tool_names(self.tool, self.source)

    @property
    def project(self) -> Project | None:
        """The project as seen from the folder, None if unknown."""
        return read_project(self.root, self.folder)

    @property
    def moment(self) -> dict[str, Any]:
        """Return the circumstances of the evaluation, without defaults, as JSON."""
        facts: dict[str, Any] = {
            "now": self.now, "can_wait": self.can_wait, "env": self.env, "user": list(self.user), "schema": self.schema,
            "counts": [[scope, seconds, count] for (scope, seconds), count in sorted(self.counts.items())],
            "root": self.root, "folder": self.folder,
        }  # fmt: skip
        return {name: value for name, value in facts.items() if value != _MOMENT[name]}


def read_moment(moment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request from a recorded `PolicyRequest.moment`."""
    facts = _MOMENT | dict(moment)
    facts["user"] = tuple(facts["user"])
    facts["counts"] = {(scope, seconds): count for scope, seconds, count in facts["counts"]}
    return facts


_MOMENT: dict[str, Any] = {
    "now": 0.0, "can_wait": True, "env": "", "user": [], "schema": "", "counts": [], "root": "", "folder": "",
}  # fmt: skip
