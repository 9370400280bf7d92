"""Evaluates all rules for one call, and the identity of its tool: denies first, then asks, allows and monitors.

A stage that exceeds the limit counts as unfinished for all of its rules, so their order has no effect.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from toolcards.core.policy.evaluation_context import MAX_STEPS, EvaluationContext, OverBudget
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.rule import Effect, Rule, evaluate_parts, explain_rule, is_match
from toolcards.core.policy.rule_set import RuleSet
from toolcards.core.policy.truth import FALSE, TRUE, Truth

STAGES = (Effect.DENY, Effect.ASK, Effect.ALLOW)
_TRACE_FACTOR = 8  # a trace checks every condition of every rule, even if the decision does not depend on it


class Doubt(NamedTuple):
    """A rule, and why it does not surely match a command.

    `is_open`: it does not surely fail to match either.
    """

    rule: Rule
    why: str
    is_open: bool


@dataclass(slots=True)
class MatchedRules:
    """The rules that match, by effect.

    `opaque` has the doubts about a command. `unfinished` is the first stage that was not finished, `stage_rules` has
    all of its rules.
    """

    deny: list[Rule] = field(default_factory=list)
    ask: list[Rule] = field(default_factory=list)
    allow: list[Rule] = field(default_factory=list)
    opaque: list[Doubt] = field(default_factory=list)
    would: tuple[dict[str, Any], ...] = ()
    unfinished: Effect | None = None
    stage_rules: tuple[Rule, ...] = ()


class IdentityDemand(NamedTuple):
    """What the tool's identity demands, and its reason code."""

    code: str
    effect: Effect


def evaluate(policy: RuleSet, request: PolicyRequest, limit: int = MAX_STEPS) -> MatchedRules:
    """Evaluate every rule that could match, in at most `limit` steps."""
    context, matches = EvaluationContext(request, limit), MatchedRules()
    try:
        candidates = policy.candidates(context)
    except OverBudget:  # every stage that has rules is over budget too
        candidates = policy.rules
    stages: dict[Effect, list[Rule]] = {effect: [] for effect in STAGES}
    monitors: list[Rule] = []
    for rule in candidates:
        if rule.is_active(request.now):
            (monitors if rule.monitor else stages[rule.effect]).append(rule)
    for effect, rules in stages.items():
        try:
            _EVALUATORS[effect](rules, context, matches)
        except OverBudget:
            matches.unfinished, matches.stage_rules = effect, tuple(rules)
            return matches
    if monitors:
        with suppress(OverBudget):
            matches.would = _list_monitor_matches(monitors, context)
    return matches


def find_identity_demand(policy: RuleSet, request: PolicyRequest) -> IdentityDemand | None:
    """Return the strictest demand of the tool's identity, None without one."""
    demands: list[IdentityDemand] = []
    if request.changed and policy.changed_tool in {Effect.ASK, Effect.DENY}:
        demands.append(IdentityDemand("changed_tool", policy.changed_tool))
    if policy.unknown_tool and not (request.is_known or policy.names(request.tool)):
        demands.append(IdentityDemand("unknown_tool", policy.unknown_tool))
    return max(demands, key=lambda demand: demand.effect.strictness, default=None)


def _evaluate_strict_rules(stage: list[Rule], context: EvaluationContext, matches: MatchedRules) -> None:
    """Find the rules that deny, or ask."""
    for rule in stage:
        answers = _evaluate_rule(rule, context, matches)
        if is_match(rule, answers):
            (matches.deny if rule.effect is Effect.DENY else matches.ask).append(rule)


def _evaluate_allow_rules(stage: list[Rule], context: EvaluationContext, matches: MatchedRules) -> None:
    """Find the rules that allow the call, alone or together, each for parts of a command."""
    cover: dict[tuple[str, ...], list[tuple[Rule, tuple[Truth, ...]]]] = {}
    for rule in stage:
        answers = _evaluate_rule(rule, context, matches)
        if rule.focus is not None and len(answers) > 1:
            cover.setdefault(rule.focus, []).append((rule, answers))
        elif is_match(rule, answers):
            matches.allow.append(rule)
    for pairs in cover.values():
        if all(TRUE in column for column in zip(*(answers for _, answers in pairs), strict=True)):
            matches.allow += [rule for rule, answers in pairs if TRUE in answers]


_EVALUATORS = {
    Effect.DENY: _evaluate_strict_rules,
    Effect.ASK: _evaluate_strict_rules,
    Effect.ALLOW: _evaluate_allow_rules,
}


def _evaluate_rule(rule: Rule, context: EvaluationContext, matches: MatchedRules) -> tuple[Truth, ...]:
    context.doubt = ""
    answers = evaluate_parts(rule, context)
    if context.doubt:
        matches.opaque.append(Doubt(rule, context.doubt, any(answer not in (TRUE, FALSE) for answer in answers)))
    return answers


def _list_monitor_matches(rules: list[Rule], context: EvaluationContext) -> tuple[dict[str, Any], ...]:
    matching = sorted(
        (rule for rule in rules if is_match(rule, evaluate_parts(rule, context))), key=lambda rule: rule.id
    )
    return tuple({"rule": rule.id, "effect": rule.effect.value} for rule in matching)


def trace_rules(policy: RuleSet, request: PolicyRequest, limit: int = MAX_STEPS) -> tuple[dict[str, Any], ...]:
    """Return the answers of every rule and condition.

    The entries contain the values that were read, which may be secrets.
    """
    context = EvaluationContext(request, limit * _TRACE_FACTOR)
    return tuple(explain_rule(rule, context) for rule in sorted(policy.rules, key=lambda rule: rule.id) if rule.enabled)
