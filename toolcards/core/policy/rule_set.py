"""All rules of one policy version, compiled and indexed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.evaluation_context import EvaluationContext
from toolcards.core.policy.matching.conditions import RateCondition
from toolcards.core.policy.rule import AskTerms, Effect, Rule
from toolcards.core.policy.rule_index import RuleIndex

BUILT_IN = ("default", "unknown_tool", "changed_tool")


@dataclass(frozen=True)
class RuleSet:
    """An immutable, numbered version of all rules, ready for evaluation."""

    version: int = 0
    sha256: str = ""
    default: Effect = Effect.ASK
    unknown_tool: Effect | None = None
    changed_tool: Effect | None = None
    rules: tuple[Rule, ...] = ()
    ask: AskTerms = AskTerms()
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def _index(self) -> RuleIndex:
        return RuleIndex(sorted(self.rules, key=lambda rule: rule.id))

    def candidates(self, context: EvaluationContext) -> Iterable[Rule]:
        """Return the rules that could match, without duplicates."""
        return self._index.find_candidates(context)

    def names(self, tool: str) -> bool:
        """Return whether an active rule names exactly this tool.

        Such a tool is known (contract 8 l).
        """
        return tool in self._tool_names

    @cached_property
    def _tool_names(self) -> frozenset[str]:
        active_rules = (rule for rule in self.rules if rule.enabled and not rule.monitor)
        return frozenset(tool for rule in active_rules for tool in rule.tools if "*" not in tool)

    @cached_property
    def rates(self) -> frozenset[tuple[str, int]]:
        """Return (scope, seconds) of every rate condition, the keys of `PolicyRequest.counts`."""
        clauses = [clause for rule in self.rules for clause in (rule.match, *rule.unless)]
        conditions = (condition for clause in clauses for condition in clause.conditions)
        return frozenset((rate.scope, rate.per) for rate in conditions if isinstance(rate, RateCondition))

    @cached_property
    def _by_id(self) -> dict[str, Rule]:
        return {rule.id: rule for rule in self.rules}

    def rule_sha256(self, rule: str) -> str:
        """Return the content hash for grants of this rule, or ""."""
        if rule in BUILT_IN:
            return self._built_in[rule]
        return self._by_id[rule].sha256 if rule in self._by_id else ""

    @cached_property
    def _built_in(self) -> dict[str, str]:
        terms = self.document.get("default_ask")
        return {name: digest({"builtin": name} | ({"ask": terms} if terms else {})) for name in BUILT_IN}
