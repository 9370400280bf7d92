"""What is judged: one tool call with everything that rules may ask about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcards.client.common import tool_kinds
from toolcards.core.policy.tool_names import ToolNames, tool_names


@dataclass(frozen=True, slots=True)
class Question:
    """A tool call as policy sees it. Make it with `Question.of`: the kind is ours, never the agent's claim alone.

    `kind` is the gravest that the tool may be of, `also` the others. `user` holds names and groups ("ana",
    "group:dev"). `schema` is the digest of the tool's schema, "" if none is known. `has_input` False: the input is not
    known, so conditions on it cannot be told. `now` 0: the time is not known. `counts` answers `Policy.rates` with the
    number of earlier calls of this tool; what is missing there is not known.
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
    known: bool = True
    changed: bool = False
    schema: str = ""
    can_wait: bool = True
    counts: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, tool: str, *, source: str = "", program: str = "", claimed: str = "", **more: Any) -> Question:
        """Return the question with the tool's kinds and source filled in.

        `program`: the agent program, where it is known. `claimed`: the kind that the agent says; it only adds doubt.
        """
        kind, *also = tool_kinds.kinds_of(tool, source, program, claimed)
        return cls(tool, source=source or tool_kinds.server_of(tool), kind=kind, also=tuple(also), **more)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Every kind that the tool may be of."""
        return (self.kind or "other", *self.also)

    @property
    def names(self) -> ToolNames:
        """What the tool may be called."""
        return tool_names(self.tool, self.source)

    @property
    def moment(self) -> dict[str, Any]:
        """Return when and for whom the call is judged, without defaults."""
        facts: dict[str, Any] = {
            "now": self.now, "can_wait": self.can_wait, "env": self.env, "user": list(self.user), "schema": self.schema,
            "counts": [[scope, seconds, count] for (scope, seconds), count in sorted(self.counts.items())],
        }  # fmt: skip
        return {name: value for name, value in facts.items() if value != _MOMENT[name]}


def facts_of(moment: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a recorded `Question.moment` says, as fields of the question."""
    facts = _MOMENT | dict(moment)
    facts["user"] = tuple(facts["user"])
    facts["counts"] = {(scope, seconds): count for scope, seconds, count in facts["counts"]}
    return facts


_MOMENT: dict[str, Any] = {
    "now": 0.0, "can_wait": True, "env": "", "user": [], "schema": "", "counts": [],
}  # fmt: skip
