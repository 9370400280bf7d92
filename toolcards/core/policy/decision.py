"""The policy decision on a call: kill switch > deny > unsatisfied ask > allow > default. Rule order has no effect.

Exceptions are written as `unless` on the strict rule; no rule is stronger because it is more specific, first or last.
Unknown answers count as a match for ask and deny, and as no match for allow (`truth.Truth`). The same applies to rules
that cannot be evaluated within the limit of steps: see `_decide_unfinished`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeAlias

from toolcards.client.common.tool_results import is_exact
from toolcards.core.calls.facts import Actor
from toolcards.core.policy.evaluation import (
    Doubt,
    IdentityDemand,
    MatchedRules,
    evaluate,
    find_identity_demand,
    trace_rules,
)
from toolcards.core.policy.evaluation_context import MAX_STEPS
from toolcards.core.policy.grants import PolicyGrant, find_grant
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.rule import AskTerms, Effect, Rule
from toolcards.core.policy.rule_set import RuleSet

__all__ = [
    "AskTerms",
    "Effect",
    "PolicyDecision",
    "PolicyGrant",
    "PolicyRequest",
    "Rule",
    "RuleSet",
    "decide",
]

EligibleCount: TypeAlias = int | Callable[[AskTerms], int] | None


@dataclass(frozen=True)
class PolicyDecision:
    """The effect of policy on a call, and why. `rules` are all rules with this effect; `ask` has the terms of an ask.

    `complete`: every rule that could have been stricter was evaluated. `moment`: the recorded circumstances
    (PolicyRequest.moment). `offers`: the lasting answers to an ask (gate/lasting_answers.py). `parts`: the judgement of
    each command of a line (gate/questions/opening.py).
    """

    effect: Effect
    code: str
    reason: str
    rule: str = ""
    rules: tuple[str, ...] = ()
    version: int = 0
    by: Actor = Actor("default")
    suggest: str = ""
    would: tuple[dict[str, Any], ...] = ()
    ask: AskTerms | None = None
    trace: tuple[dict[str, Any], ...] = ()
    grants: tuple[str, ...] = ()
    complete: bool = True
    moment: Mapping[str, Any] = field(default_factory=dict)
    offers: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def liftable(self) -> bool:
        """Whether break-glass may override it: an ask that was evaluated completely."""
        return self.complete and (self.effect is Effect.ASK or self.code == "no_approver")

    def with_changes(self, **changes: Any) -> PolicyDecision:
        """Return this decision with some fields changed."""
        decision = object.__new__(PolicyDecision)
        object.__setattr__(decision, "__dict__", self.__dict__ | changes)
        return decision


def decide(
    policy: RuleSet | None,
    request: PolicyRequest,
    *,
    grants: Iterable[PolicyGrant] = (),
    kill_switch: bool = False,
    eligible: EligibleCount = None,
    explain: bool = False,
    limit: int = MAX_STEPS,
) -> PolicyDecision:
    """Return the decision of the policy; never raises.

    Any internal error is a deny with code `gate_error`. `eligible` is the number of people who may answer, or a
    function of the ask's terms; None is not checked. `explain` adds a trace of every rule and condition with the values
    that they read, so redact it before showing it. `limit` is the number of steps that evaluation may take (see
    `evaluation_context`); beyond it the code is `over_budget`.
    """
    if kill_switch:
        return PolicyDecision(Effect.DENY, "kill_switch", "All tool calls are stopped.", by=Actor("kill_switch"))
    try:
        if policy is None:
            return PolicyDecision(Effect.DENY, "gate_error", "There is no active policy.", by=Actor("gate_error"))
        decision = _apply_precedence(policy, request, tuple(grants), limit).with_changes(version=policy.version)
        if decision.effect is Effect.ASK:
            if decision.ask is not None and not is_exact(request.input):  # another call may look the same
                decision = decision.with_changes(ask=replace(decision.ask, grants=("once",), review=""))
            decision = require_approver(decision, request, eligible)
        return decision.with_changes(trace=trace_rules(policy, request, limit)) if explain else decision
    except Exception as error:  # unclear answers deny
        reason = f"The policy could not be evaluated ({type(error).__name__})."
        return PolicyDecision(
            Effect.DENY, "gate_error", reason, by=Actor("gate_error"), version=getattr(policy, "version", 0)
        )


# ---------------------------------------------------------------- the order


def _apply_precedence(
    policy: RuleSet, request: PolicyRequest, grants: tuple[PolicyGrant, ...], limit: int
) -> PolicyDecision:
    matches = evaluate(policy, request, limit)
    identity = find_identity_demand(policy, request)
    decision = _find_denial(matches, identity)
    if decision is None:
        fallback = _find_allow_or_default(policy, request, matches, identity, grants)
        decision = _find_ask(policy, request, matches, identity, grants) or fallback
        asks = decision.effect is Effect.ASK and decision is not fallback  # no allow rule could have changed it
        if matches.unfinished is Effect.ASK or (matches.unfinished and not asks):
            decision = _decide_unfinished(policy, matches.stage_rules, fallback)
        elif doubts := _list_open_doubts(decision, matches):
            decision = _ask_about_opaque_command(policy, doubts)
    return decision.with_changes(would=matches.would) if matches.would else decision


def _find_denial(matches: MatchedRules, identity: IdentityDemand | None) -> PolicyDecision | None:
    """Return the deny of the rules or of the tool's identity, if any."""
    if matches.unfinished is Effect.DENY:
        reason = "The call is too large to evaluate every deny rule, so it is denied."
        return PolicyDecision(Effect.DENY, "over_budget", reason, by=Actor("default"), complete=False)
    if matches.deny:
        return _decide_by_rules(Effect.DENY, "rule_denied", matches.deny)
    if identity is not None and identity.effect is Effect.DENY:
        return PolicyDecision(Effect.DENY, identity.code, _IDENTITY_REASONS[identity.code], by=Actor("default"))
    return None


def _decide_unfinished(policy: RuleSet, stage_rules: tuple[Rule, ...], fallback: PolicyDecision) -> PolicyDecision:
    """Return a decision as strict as any complete evaluation could give.

    A deny by default stays a deny; else approval is required on the terms of every rule that could have asked.
    """
    reason = "The call is too large to evaluate every rule"
    if fallback.effect is Effect.DENY:
        reason = f"{reason}, and the default is to deny."
        return PolicyDecision(Effect.DENY, "over_budget", reason, by=Actor("default"), complete=False)
    open_terms = (rule.ask for rule in stage_rules if rule.effect is Effect.ASK)
    terms = replace(reduce(AskTerms.union, open_terms, policy.ask), grants=("once",), review="")
    return PolicyDecision(
        Effect.ASK, "over_budget", f"{reason}, so approval is required.", by=Actor("default"), ask=terms, complete=False
    )


_IDENTITY_REASONS = {
    "unknown_tool": "This tool has not been seen before.",
    "changed_tool": "This tool is not the same as before: its definition or its server has changed.",
}


def _find_ask(
    policy: RuleSet,
    request: PolicyRequest,
    matches: MatchedRules,
    identity: IdentityDemand | None,
    grants: tuple[PolicyGrant, ...],
) -> PolicyDecision | None:
    """Return the ask of all rules without a grant.

    If every rule has a grant, the result is an allow; if no rule asks, None.
    """
    names = [rule.id for rule in matches.ask]
    if identity is not None and identity.effect is Effect.ASK:
        names.append(identity.code)
    if not names:
        return None
    grants_by_rule = {
        name: grant for name in names if (grant := find_grant(name, policy.rule_sha256(name), request, grants))
    }
    if len(grants_by_rule) == len(names):
        return _decide_by_grants(grants_by_rule, matches.ask)
    open_rules = [rule for rule in matches.ask if rule.id not in grants_by_rule]
    if open_rules:
        decision = _decide_by_rules(Effect.ASK, "rule_asks", open_rules)
        decision = decision.with_changes(reason=_add_doubt(decision, matches))
        terms = open_rules[0].ask
        for rule in open_rules[1:]:
            if rule.ask != open_rules[0].ask:  # hundreds of rules usually have the same terms
                terms = terms.union(rule.ask)
        if identity is not None and identity.code not in grants_by_rule and identity.effect is Effect.ASK:
            terms = terms.union(policy.ask).without_review()
    else:
        decision = PolicyDecision(Effect.ASK, names[-1], _IDENTITY_REASONS[names[-1]], by=Actor("default"))
        terms = policy.ask.without_review()
    return decision.with_changes(ask=terms)


def _add_doubt(decision: PolicyDecision, matches: MatchedRules) -> str:
    """Return the reason and the doubt about the command that made the rule ask."""
    why = next((doubt.why for doubt in matches.opaque if doubt.rule.id == decision.rule), "")
    return f"{decision.reason.removesuffix('.')}: {why}." if why else decision.reason


def _find_allow_or_default(
    policy: RuleSet,
    request: PolicyRequest,
    matches: MatchedRules,
    identity: IdentityDemand | None,
    grants: tuple[PolicyGrant, ...],
) -> PolicyDecision:
    """Return the decision of the allow rules, else of the default."""
    if matches.allow:
        return _decide_by_rules(Effect.ALLOW, "rule_allowed", matches.allow)
    if identity is not None and identity == ("unknown_tool", Effect.ALLOW):
        return PolicyDecision(
            Effect.ALLOW, "unknown_tool", "Tools that have not been seen before are allowed.", by=Actor("default")
        )
    if policy.default is Effect.ASK:
        grant = find_grant("default", policy.rule_sha256("default"), request, grants)
        if grant:
            return _decide_by_grants({"default": grant}, [])
        reason = "No rule matches, so approval is required."
        return PolicyDecision(Effect.ASK, "default", reason, by=Actor("default"), ask=policy.ask)
    reason = f"No rule matches; the default is to {policy.default.value}."
    return PolicyDecision(policy.default, "default", reason, by=Actor("default"))


def _list_open_doubts(decision: PolicyDecision, matches: MatchedRules) -> list[Doubt]:
    """Return the doubts about a command that a person must resolve.

    These are the doubts of deny rules, and of allow rules if no allow is certain; where the default allows, not of
    those that surely do not cover the command.
    """
    if decision.effect is Effect.DENY or (decision.effect is Effect.ASK and decision.code != "default"):
        return []
    sure = decision.code in {"rule_allowed", "granted"}
    doubted_effects = {Effect.DENY} if sure else {Effect.DENY, Effect.ALLOW}  # an ask in doubt is a match already
    doubts = [doubt for doubt in matches.opaque if doubt.rule.effect in doubted_effects]
    return [each for each in doubts if each.is_open or each.rule.wide or decision.effect is not Effect.ALLOW]


def _ask_about_opaque_command(policy: RuleSet, doubts: list[Doubt]) -> PolicyDecision:
    ids = tuple(rule.id for rule in _sort_rules([doubt.rule for doubt in doubts]))
    why = next(doubt.why for doubt in doubts if doubt.rule.id == ids[0])
    reason, terms = f"No rule can allow this command: {why}.", replace(policy.ask, grants=("once",), review="")
    return PolicyDecision(
        Effect.ASK, "opaque_command", reason, rule=ids[0], rules=ids, by=Actor("rule", ids[0]), ask=terms
    )


def require_approver(decision: PolicyDecision, request: PolicyRequest, eligible: EligibleCount) -> PolicyDecision:
    """Return the ask, or a deny if no one can answer it."""
    terms = decision.ask or AskTerms()
    count = eligible(terms) if callable(eligible) else eligible
    if request.can_wait and (count is None or count >= terms.quorum):
        return decision
    why = "no one can approve it" if request.can_wait else "the agent cannot wait for an answer"
    reason = f"{decision.reason} Approval is required and {why}."
    return decision.with_changes(
        effect=Effect.DENY, code="no_approver", reason=reason, by=Actor("no_approver"), ask=None
    )


def _decide_by_rules(effect: Effect, code: str, rules: list[Rule]) -> PolicyDecision:
    rules = _sort_rules(rules)
    first = rules[0]
    suggest = next(filter(None, [rule.suggest for rule in rules]), "")
    ids = tuple([rule.id for rule in rules])
    return PolicyDecision(
        effect, code, first.reason, rule=first.id, rules=ids, by=Actor("rule", first.id), suggest=suggest
    )


def _sort_rules(rules: list[Rule]) -> list[Rule]:
    """Return the rules in the order in which they are named: by severity, then by id."""
    if len(rules) == 1:
        return rules
    order = ("critical", "high", "medium", "low").index
    return sorted(rules, key=lambda rule: (order(rule.severity), rule.id))


def _decide_by_grants(grants_by_rule: Mapping[str, PolicyGrant], rules: list[Rule]) -> PolicyDecision:
    names = sorted(grants_by_rule)
    first = _sort_rules(rules)[0].id if rules else ""
    actor = Actor("grant", grants_by_rule[names[0]].id or names[0])
    ids = tuple(rule.id for rule in _sort_rules(rules))
    grant_ids = tuple(grants_by_rule[name].id for name in names)
    reason = "A standing approval covers this call."
    return PolicyDecision(Effect.ALLOW, "granted", reason, rule=first, rules=ids, by=actor, grants=grant_ids)
