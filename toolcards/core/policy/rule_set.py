"""All rules of one version, compiled and indexed, and several of them laid over each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.evaluation_context import EvaluationContext
from toolcards.core.policy.matching.conditions import RateCondition
from toolcards.core.policy.rule import AskTerms, Effect, Rule
from toolcards.core.policy.rule_index import RuleIndex

BUILT_IN = ("default", "unknown_tool", "changed_tool")


@dataclass(frozen=True)
class RuleSet:
    """An immutable, numbered version of all rules, ready to judge."""

    version: int = 0
    sha256: str = ""
    default: Effect = Effect.ASK
    unknown_tool: Effect | None = None
    changed_tool: Effect | None = None
    rules: tuple[Rule, ...] = ()
    overridable: bool = False
    ask: AskTerms = AskTerms()
    document: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def _index(self) -> RuleIndex:
        return RuleIndex(sorted(self.rules, key=lambda rule: rule.id))

    def candidates(self, context: EvaluationContext) -> Iterable[Rule]:
        """Return the rules that could match, each once."""
        return self._index.find_candidates(context)

    def names(self, tool: str) -> bool:
        """Return whether a rule that counts names this very tool, which makes it known (contract 8 l)."""
        return tool in self._named

    @cached_property
    def _named(self) -> frozenset[str]:
        naming = (rule for rule in self.rules if rule.enabled and not rule.monitor and not rule.subordinate)
        return frozenset(tool for rule in naming for tool in rule.tools if "*" not in tool)

    @cached_property
    def rates(self) -> frozenset[tuple[str, int]]:
        """Return (scope, seconds) of every count that rules ask for, as `PolicyRequest.counts` is keyed."""
        clauses = [clause for rule in self.rules for clause in (rule.match, *rule.unless)]
        found = (condition for clause in clauses for condition in clause.conditions)
        return frozenset((rate.scope, rate.per) for rate in found if isinstance(rate, RateCondition))

    @cached_property
    def _by_id(self) -> dict[str, Rule]:
        return {rule.id: rule for rule in self.rules}

    def rule_sha256(self, rule: str) -> str:
        """Return the content hash that a grant for this rule must name; "" if there is no such rule."""
        if rule in BUILT_IN:
            return self._built_in[rule]
        return self._by_id[rule].sha256 if rule in self._by_id else ""

    @cached_property
    def _built_in(self) -> dict[str, str]:
        terms = self.document.get("default_ask")
        return {name: digest({"builtin": name} | ({"ask": terms} if terms else {})) for name in BUILT_IN}


def combine(layers: Sequence[RuleSet], *, version: int = 0) -> RuleSet:
    """Return one policy of several, the strongest layer first; a lower layer can only make it stricter.

    Its rules answer the default only where every layer above says `overridable`; else its allows are left out and
    its asks never turn a default deny into a question.
    Raises ValueError if two layers use the same rule id.
    """
    rules: list[Rule] = []
    overridable = True
    default = _find_strictest(layer.default for layer in layers) or Effect.ASK
    unknown: list[Effect] = []
    changed: list[Effect] = []
    for number, layer in enumerate(layers):
        kept = layer.rules if overridable else tuple(rule for rule in layer.rules if rule.wide)
        rules += [rule.move_to_layer(number, subordinate=not overridable) for rule in kept]
        for said, all_said in ((layer.unknown_tool, unknown), (layer.changed_tool, changed)):
            if said and (overridable or said.strictness >= default.strictness):
                all_said.append(said)
        overridable = overridable and layer.overridable
    if len({rule.id for rule in rules}) < len(rules):
        raise ValueError("two layers use the same rule id")
    return RuleSet(
        version=version,
        sha256=digest([layer.sha256 for layer in layers]),
        default=default,
        unknown_tool=_find_strictest(unknown),
        changed_tool=_find_strictest(changed),
        rules=tuple(rules),
        overridable=overridable,
        ask=reduce(AskTerms.union, (layer.ask for layer in layers)) if layers else AskTerms(),
        document={"layers": [layer.document for layer in layers]},
    )


def _find_strictest(effects: Iterable[Effect]) -> Effect | None:
    return max(effects, key=lambda effect: effect.strictness, default=None)
