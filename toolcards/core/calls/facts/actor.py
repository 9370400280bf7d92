"""Who or what decided: a person, a rule, a time limit, the agent's host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actor:
    """The author of a decision: `kind` is a `by.kind` of the contract, `name` is set for people and rules."""

    kind: str
    name: str = ""
