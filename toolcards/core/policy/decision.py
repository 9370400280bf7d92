"""What policy says about a call: kill switch > deny > unsatisfied ask > allow > default. Rule order changes nothing.

Exceptions are written as `unless` on the strict rule; no rule is stronger for being more specific, first or last.
What cannot be told counts as a match for ask and deny, and as none for allow (`truth.Truth`). The same goes for what
cannot be finished within the limit of steps: see `_unfinished`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeAlias

from toolcards.core.calls.facts import Actor
from toolcards.core.policy.evaluation import MatchedRules, evaluate, trace_rules
from toolcards.core.policy.evaluation_context import MAX_STEPS
from toolcards.core.policy.grants import PolicyGrant, find_grant
from toolcards.core.policy.request import PolicyRequest
from toolcards.core.policy.rule import AskTerms, Effect, Rule
from toolcards.core.policy.rule_set import RuleSet, combine

__all__ = [
    "AskTerms",
    "Effect",
    "PolicyDecision",
    "PolicyGrant",
    "PolicyRequest",
    "Rule",
    "RuleSet",
    "combine",
    "decide",
]

EligibleCount: TypeAlias = int | Callable[[AskTerms], int] | None
IdentityDemand: TypeAlias = tuple[str, Effect]  # what the tool's own identity demands: the code, and the effect


@dataclass(frozen=True)
class PolicyDecision:
    """What policy said and why. `rules` are all rules behind the effect; `ask` is set when a person is wanted.

    `complete`: every rule that could have been stricter was evaluated. `moment`: what else the answer depended on
    (PolicyRequest.moment), where it is recorded.
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

    @property
    def liftable(self) -> bool:
        """Whether break-glass may lift it: a question that was fully evaluated."""
        return self.complete and (self.effect is Effect.ASK or self.code == "no_approver")

    def but(self, **changes: Any) -> PolicyDecision:
        """Return this decision with some fields changed; a copy of one __dict__, as of a Card."""
        said = object.__new__(PolicyDecision)
        object.__setattr__(said, "__dict__", self.__dict__ | changes)
        return said


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
    """Return what policy says. Never raises: whatever goes wrong inside is a deny with code `gate_error`.

    `eligible` is the number of people who could answer, or a function of the ask's terms; None is not checked.
    `explain` adds a trace of every rule and condition; it holds the looked-at values, so redact before showing.
    `limit` is the number of steps that evaluation may take (see `asked`); beyond it the code is `over_budget`.
    """
    if kill_switch:
        return PolicyDecision(Effect.DENY, "kill_switch", "All tool calls are stopped.", by=Actor("kill_switch"))
    try:
        if policy is None:
            return PolicyDecision(Effect.DENY, "gate_error", "There is no active policy.", by=Actor("gate_error"))
        said = _apply_precedence(policy, request, tuple(grants), limit).but(version=policy.version)
        if said.effect is Effect.ASK:
            said = _require_approver(said, request, eligible)
        return said.but(trace=trace_rules(policy, request, limit)) if explain else said
    except Exception as error:  # unclear answers deny
        reason = f"The policy could not be evaluated ({type(error).__name__})."
        return PolicyDecision(
            Effect.DENY, "gate_error", reason, by=Actor("gate_error"), version=getattr(policy, "version", 0)
        )


# ---------------------------------------------------------------- the order


def _apply_precedence(
    policy: RuleSet, request: PolicyRequest, grants: tuple[PolicyGrant, ...], limit: int
) -> PolicyDecision:
    matched = evaluate(policy, request, limit)
    identity = _find_identity_demand(policy, request)
    said = _find_denial(matched, identity)
    if said is None:
        rest = _find_allow_or_default(policy, request, matched, identity, grants)
        said = _find_ask(policy, request, matched, identity, grants) or rest
        if rest.effect is Effect.DENY and identity is None and all(rule.subordinate for rule in matched.ask):
            said = rest
        asks = said.effect is Effect.ASK and said is not rest  # no allow could have changed that
        if matched.unfinished is Effect.ASK or (matched.unfinished and not asks):
            said = _decide_unfinished(policy, matched.left, rest)
        elif doubts := _list_open_doubts(said, matched):
            said = _ask_about_opaque_command(policy, doubts)
    return said.but(would=matched.would) if matched.would else said


def _find_denial(matched: MatchedRules, identity: IdentityDemand | None) -> PolicyDecision | None:
    """Return the deny of the rules or of the tool's identity, if any."""
    if matched.unfinished is Effect.DENY:
        reason = "The rules that deny could not be evaluated completely for a call of this size, so it is denied."
        return PolicyDecision(Effect.DENY, "over_budget", reason, by=Actor("default"), complete=False)
    if matched.deny:
        return _decide_by_rules(Effect.DENY, "rule_denied", matched.deny)
    if identity is not None and identity[1] is Effect.DENY:
        return PolicyDecision(Effect.DENY, identity[0], _IDENTITY_REASONS[identity[0]], by=Actor("default"))
    return None


def _decide_unfinished(policy: RuleSet, left: tuple[Rule, ...], rest: PolicyDecision) -> PolicyDecision:
    """Return an answer as strict as any complete evaluation could give.

    A default that denies stays; else a person is asked, on the terms of every rule that could have asked.
    """
    reason = "The rules could not be evaluated completely for a call of this size"
    if rest.effect is Effect.DENY:
        reason = f"{reason}, and the default is to deny."
        return PolicyDecision(Effect.DENY, "over_budget", reason, by=Actor("default"), complete=False)
    asking = (rule.ask for rule in left if rule.effect is Effect.ASK)
    terms = replace(reduce(AskTerms.union, asking, policy.ask), grants=("once",))
    return PolicyDecision(
        Effect.ASK, "over_budget", f"{reason}, so approval is required.", by=Actor("default"), ask=terms, complete=False
    )


_IDENTITY_REASONS = {
    "unknown_tool": "This tool has not been seen before.",
    "changed_tool": "This tool is another one than before: its definition has changed, or where it comes from.",
}


def _find_identity_demand(policy: RuleSet, request: PolicyRequest) -> IdentityDemand | None:
    """Return the strictest that the tool's identity demands; nothing where the document leaves it to the default."""
    demands: list[tuple[str, Effect]] = []
    if request.changed and policy.changed_tool in {Effect.ASK, Effect.DENY}:
        demands.append(("changed_tool", policy.changed_tool))
    if policy.unknown_tool and not (request.known or policy.names(request.tool)):
        demands.append(("unknown_tool", policy.unknown_tool))
    return max(demands, key=lambda demand: demand[1].strictness, default=None)


def _find_ask(
    policy: RuleSet,
    request: PolicyRequest,
    matched: MatchedRules,
    identity: IdentityDemand | None,
    grants: tuple[PolicyGrant, ...],
) -> PolicyDecision | None:
    """Return the ask of everything that asks and is not granted; an allow if all of it is; None if nothing asks."""
    names = [rule.id for rule in matched.ask]
    if identity is not None and identity[1] is Effect.ASK:
        names.append(identity[0])
    if not names:
        return None
    used = {name: grant for name in names if (grant := find_grant(name, policy.rule_sha256(name), request, grants))}
    if len(used) == len(names):
        return _decide_by_grants(used, matched.ask)
    open_rules = [rule for rule in matched.ask if rule.id not in used]
    if open_rules:
        said = _decide_by_rules(Effect.ASK, "rule_asks", open_rules)
        said = said.but(reason=_add_doubt(said, matched))
        terms = open_rules[0].ask
        for rule in open_rules[1:]:
            if rule.ask != open_rules[0].ask:  # hundreds of rules mostly say the same
                terms = terms.union(rule.ask)
        if identity is not None and identity[0] not in used and identity[1] is Effect.ASK:
            terms = terms.union(policy.ask)
    else:
        said = PolicyDecision(Effect.ASK, names[-1], _IDENTITY_REASONS[names[-1]], by=Actor("default"))
        terms = policy.ask
    return said.but(ask=terms)


def _add_doubt(said: PolicyDecision, matched: MatchedRules) -> str:
    """Return the reason, and what about the command made the rule ask."""
    why = next((why for rule, why in matched.opaque if rule.id == said.rule), "")
    return f"{said.reason.removesuffix('.')}: {why}." if why else said.reason


def _find_allow_or_default(
    policy: RuleSet,
    request: PolicyRequest,
    matched: MatchedRules,
    identity: IdentityDemand | None,
    grants: tuple[PolicyGrant, ...],
) -> PolicyDecision:
    """Return what an allow rule says, else the default."""
    if matched.allow:
        return _decide_by_rules(Effect.ALLOW, "rule_allowed", matched.allow)
    if identity is not None and identity == ("unknown_tool", Effect.ALLOW):
        return PolicyDecision(Effect.ALLOW, "unknown_tool", "Tools not seen before are allowed.", by=Actor("default"))
    if policy.default is Effect.ASK:
        grant = find_grant("default", policy.rule_sha256("default"), request, grants)
        if grant:
            return _decide_by_grants({"default": grant}, [])
        reason = "No rule answers, so a person is asked."
        return PolicyDecision(Effect.ASK, "default", reason, by=Actor("default"), ask=policy.ask)
    reason = f"No rule answers; the default is to {policy.default.value}."
    return PolicyDecision(policy.default, "default", reason, by=Actor("default"))


def _list_open_doubts(said: PolicyDecision, matched: MatchedRules) -> list[tuple[Rule, str]]:
    """Return the doubts about a command that a person must settle: those of denies, of allows where none is sure."""
    if said.effect is Effect.DENY or (said.effect is Effect.ASK and said.code != "default"):
        return []
    sure = said.code in {"rule_allowed", "granted"}
    doubted = {Effect.DENY} if sure else {Effect.DENY, Effect.ALLOW}  # an ask in doubt stands by itself
    return [doubt for doubt in matched.opaque if doubt[0].effect in doubted]


def _ask_about_opaque_command(policy: RuleSet, doubts: list[tuple[Rule, str]]) -> PolicyDecision:
    rules, terms = _sort_rules([rule for rule, _ in doubts]), policy.ask
    why = next(why for rule, why in doubts if rule is rules[0])
    return PolicyDecision(
        Effect.ASK,
        "opaque_command",
        f"No rule can allow this command: {why}.",
        rule=rules[0].id,
        rules=tuple(rule.id for rule in rules),
        by=Actor("rule", rules[0].id),
        ask=replace(terms, grants=("once",)),
    )


def _require_approver(said: PolicyDecision, request: PolicyRequest, eligible: EligibleCount) -> PolicyDecision:
    """Return the ask, or a deny at once where nobody can answer it."""
    terms = said.ask or AskTerms()
    count = eligible(terms) if callable(eligible) else eligible
    if request.can_wait and (count is None or count >= terms.quorum):
        return said
    why = "no one may approve it" if request.can_wait else "the agent cannot wait for an answer"
    reason = f"{said.reason} A person's answer is needed and {why}."
    return said.but(effect=Effect.DENY, code="no_approver", reason=reason, by=Actor("no_approver"), ask=None)


def _decide_by_rules(effect: Effect, code: str, rules: list[Rule]) -> PolicyDecision:
    rules = _sort_rules(rules)
    first = rules[0]
    suggest = next((rule.suggest for rule in rules if rule.suggest), "")
    ids = tuple(rule.id for rule in rules)
    return PolicyDecision(
        effect, code, first.reason, rule=first.id, rules=ids, by=Actor("rule", first.id), suggest=suggest
    )


def _sort_rules(rules: list[Rule]) -> list[Rule]:
    """Return the rules, the one to name first: highest layer, gravest, then by id."""
    order = ("critical", "high", "medium", "low").index
    return sorted(rules, key=lambda rule: (rule.layer, order(rule.severity), rule.id))


def _decide_by_grants(used: Mapping[str, PolicyGrant], rules: list[Rule]) -> PolicyDecision:
    names = sorted(used)
    first = _sort_rules(rules)[0].id if rules else ""
    by = Actor("grant", used[names[0]].id or names[0])
    ids = tuple(rule.id for rule in _sort_rules(rules))
    given = tuple(used[name].id for name in names)
    reason = "A person allowed this in advance."
    return PolicyDecision(Effect.ALLOW, "granted", reason, rule=first, rules=ids, by=by, grants=given)
