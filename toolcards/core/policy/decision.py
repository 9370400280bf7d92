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
from toolcards.core.policy.evaluation import Findings, evaluate, trace
from toolcards.core.policy.evaluation_context import MAX_STEPS
from toolcards.core.policy.grants import Grant, granted
from toolcards.core.policy.request import Question
from toolcards.core.policy.rule import AskTerms, Effect, Rule
from toolcards.core.policy.rule_set import Policy, combine

__all__ = ["AskTerms", "Decision", "Effect", "Grant", "Policy", "Question", "Rule", "combine", "decide"]

Eligible: TypeAlias = int | Callable[[AskTerms], int] | None
Identity: TypeAlias = tuple[str, Effect]  # what the tool's own identity demands: the code, and the effect


@dataclass(frozen=True)
class Decision:
    """What policy said and why. `rules` are all rules behind the effect; `ask` is set when a person is wanted.

    `complete`: every rule that could have been stricter was evaluated. `moment`: what else the answer depended on
    (Question.moment), where it is recorded.
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

    def but(self, **changes: Any) -> Decision:
        """Return this decision with some fields changed; a copy of one __dict__, as of a Card."""
        said = object.__new__(Decision)
        object.__setattr__(said, "__dict__", self.__dict__ | changes)
        return said


def decide(
    policy: Policy | None,
    question: Question,
    *,
    grants: Iterable[Grant] = (),
    kill_switch: bool = False,
    eligible: Eligible = None,
    explain: bool = False,
    limit: int = MAX_STEPS,
) -> Decision:
    """Return what policy says. Never raises: whatever goes wrong inside is a deny with code `gate_error`.

    `eligible` is the number of people who could answer, or a function of the ask's terms; None is not checked.
    `explain` adds a trace of every rule and condition; it holds the looked-at values, so redact before showing.
    `limit` is the number of steps that evaluation may take (see `asked`); beyond it the code is `over_budget`.
    """
    if kill_switch:
        return Decision(Effect.DENY, "kill_switch", "All tool calls are stopped.", by=Actor("kill_switch"))
    try:
        if policy is None:
            return Decision(Effect.DENY, "gate_error", "There is no active policy.", by=Actor("gate_error"))
        said = _decide(policy, question, tuple(grants), limit).but(version=policy.version)
        if said.effect is Effect.ASK:
            said = _someone(said, question, eligible)
        return said.but(trace=trace(policy, question, limit)) if explain else said
    except Exception as error:  # unclear answers deny
        reason = f"The policy could not be evaluated ({type(error).__name__})."
        return Decision(
            Effect.DENY, "gate_error", reason, by=Actor("gate_error"), version=getattr(policy, "version", 0)
        )


# ---------------------------------------------------------------- the order


def _decide(policy: Policy, question: Question, grants: tuple[Grant, ...], limit: int) -> Decision:
    findings = evaluate(policy, question, limit)
    identity = _identity(policy, question)
    said = _denial(findings, identity)
    if said is None:
        rest = _rest(policy, question, findings, identity, grants)
        said = _ask(policy, question, findings, identity, grants) or rest
        if rest.effect is Effect.DENY and identity is None and all(rule.subordinate for rule in findings.ask):
            said = rest
        asks = said.effect is Effect.ASK and said is not rest  # no allow could have changed that
        if findings.unfinished is Effect.ASK or (findings.unfinished and not asks):
            said = _unfinished(policy, findings.left, rest)
        elif doubts := _doubts(said, findings):
            said = _opaque(policy, doubts)
    return said.but(would=findings.would) if findings.would else said


def _denial(findings: Findings, identity: Identity | None) -> Decision | None:
    """Return the deny of the rules or of the tool's identity, if any."""
    if findings.unfinished is Effect.DENY:
        reason = "The rules that deny could not be evaluated completely for a call of this size, so it is denied."
        return Decision(Effect.DENY, "over_budget", reason, by=Actor("default"), complete=False)
    if findings.deny:
        return _by_rules(Effect.DENY, "rule_denied", findings.deny)
    if identity is not None and identity[1] is Effect.DENY:
        return Decision(Effect.DENY, identity[0], _TOLD[identity[0]], by=Actor("default"))
    return None


def _unfinished(policy: Policy, left: tuple[Rule, ...], rest: Decision) -> Decision:
    """Return an answer as strict as any complete evaluation could give.

    A default that denies stays; else a person is asked, on the terms of every rule that could have asked.
    """
    reason = "The rules could not be evaluated completely for a call of this size"
    if rest.effect is Effect.DENY:
        reason = f"{reason}, and the default is to deny."
        return Decision(Effect.DENY, "over_budget", reason, by=Actor("default"), complete=False)
    asking = (rule.ask for rule in left if rule.effect is Effect.ASK)
    terms = replace(reduce(AskTerms.union, asking, policy.ask), grants=("once",))
    return Decision(
        Effect.ASK, "over_budget", f"{reason}, so approval is required.", by=Actor("default"), ask=terms, complete=False
    )


_TOLD = {
    "unknown_tool": "This tool has not been seen before.",
    "changed_tool": "This tool is another one than before: its definition has changed, or where it comes from.",
}


def _identity(policy: Policy, question: Question) -> Identity | None:
    """Return the strictest that the tool's identity demands; nothing where the document leaves it to the default."""
    demands: list[tuple[str, Effect]] = []
    if question.changed and policy.changed_tool in {Effect.ASK, Effect.DENY}:
        demands.append(("changed_tool", policy.changed_tool))
    if policy.unknown_tool and not (question.known or policy.names(question.tool)):
        demands.append(("unknown_tool", policy.unknown_tool))
    return max(demands, key=lambda demand: demand[1].strictness, default=None)


def _ask(
    policy: Policy,
    question: Question,
    findings: Findings,
    identity: Identity | None,
    grants: tuple[Grant, ...],
) -> Decision | None:
    """Return the ask of everything that asks and is not granted; an allow if all of it is; None if nothing asks."""
    names = [rule.id for rule in findings.ask]
    if identity is not None and identity[1] is Effect.ASK:
        names.append(identity[0])
    if not names:
        return None
    used = {name: grant for name in names if (grant := granted(name, policy.rule_sha256(name), question, grants))}
    if len(used) == len(names):
        return _by_grants(used, findings.ask)
    open_rules = [rule for rule in findings.ask if rule.id not in used]
    if open_rules:
        said = _by_rules(Effect.ASK, "rule_asks", open_rules)
        said = said.but(reason=_explained(said, findings))
        terms = open_rules[0].ask
        for rule in open_rules[1:]:
            if rule.ask != open_rules[0].ask:  # hundreds of rules mostly say the same
                terms = terms.union(rule.ask)
        if identity is not None and identity[0] not in used and identity[1] is Effect.ASK:
            terms = terms.union(policy.ask)
    else:
        said = Decision(Effect.ASK, names[-1], _TOLD[names[-1]], by=Actor("default"))
        terms = policy.ask
    return said.but(ask=terms)


def _explained(said: Decision, findings: Findings) -> str:
    """Return the reason, and what about the command made the rule ask."""
    why = next((why for rule, why in findings.opaque if rule.id == said.rule), "")
    return f"{said.reason.removesuffix('.')}: {why}." if why else said.reason


def _rest(
    policy: Policy,
    question: Question,
    findings: Findings,
    identity: Identity | None,
    grants: tuple[Grant, ...],
) -> Decision:
    """Return what an allow rule says, else the default."""
    if findings.allow:
        return _by_rules(Effect.ALLOW, "rule_allowed", findings.allow)
    if identity is not None and identity == ("unknown_tool", Effect.ALLOW):
        return Decision(Effect.ALLOW, "unknown_tool", "Tools not seen before are allowed.", by=Actor("default"))
    if policy.default is Effect.ASK:
        grant = granted("default", policy.rule_sha256("default"), question, grants)
        if grant:
            return _by_grants({"default": grant}, [])
        reason = "No rule answers, so a person is asked."
        return Decision(Effect.ASK, "default", reason, by=Actor("default"), ask=policy.ask)
    reason = f"No rule answers; the default is to {policy.default.value}."
    return Decision(policy.default, "default", reason, by=Actor("default"))


def _doubts(said: Decision, findings: Findings) -> list[tuple[Rule, str]]:
    """Return the doubts about a command that a person must settle: those of denies, of allows where none is sure."""
    if said.effect is Effect.DENY or (said.effect is Effect.ASK and said.code != "default"):
        return []
    sure = said.code in {"rule_allowed", "granted"}
    doubted = {Effect.DENY} if sure else {Effect.DENY, Effect.ALLOW}  # an ask in doubt stands by itself
    return [doubt for doubt in findings.opaque if doubt[0].effect in doubted]


def _opaque(policy: Policy, doubts: list[tuple[Rule, str]]) -> Decision:
    rules, terms = _sorted([rule for rule, _ in doubts]), policy.ask
    why = next(why for rule, why in doubts if rule is rules[0])
    return Decision(
        Effect.ASK,
        "opaque_command",
        f"No rule can allow this command: {why}.",
        rule=rules[0].id,
        rules=tuple(rule.id for rule in rules),
        by=Actor("rule", rules[0].id),
        ask=replace(terms, grants=("once",)),
    )


def _someone(said: Decision, question: Question, eligible: Eligible) -> Decision:
    """Return the ask, or a deny at once where nobody can answer it."""
    terms = said.ask or AskTerms()
    count = eligible(terms) if callable(eligible) else eligible
    if question.can_wait and (count is None or count >= terms.quorum):
        return said
    why = "nobody may answer it" if question.can_wait else "the agent cannot wait for an answer"
    reason = f"{said.reason} A person's answer is needed and {why}."
    return said.but(effect=Effect.DENY, code="no_approver", reason=reason, by=Actor("no_approver"), ask=None)


def _by_rules(effect: Effect, code: str, rules: list[Rule]) -> Decision:
    rules = _sorted(rules)
    first = rules[0]
    suggest = next((rule.suggest for rule in rules if rule.suggest), "")
    ids = tuple(rule.id for rule in rules)
    return Decision(effect, code, first.reason, rule=first.id, rules=ids, by=Actor("rule", first.id), suggest=suggest)


def _sorted(rules: list[Rule]) -> list[Rule]:
    """Return the rules, the one to name first: highest layer, gravest, then by id."""
    order = ("critical", "high", "medium", "low").index
    return sorted(rules, key=lambda rule: (rule.layer, order(rule.severity), rule.id))


def _by_grants(used: Mapping[str, Grant], rules: list[Rule]) -> Decision:
    names = sorted(used)
    first = _sorted(rules)[0].id if rules else ""
    by = Actor("grant", used[names[0]].id or names[0])
    ids = tuple(rule.id for rule in _sorted(rules))
    given = tuple(used[name].id for name in names)
    reason = "A person allowed this in advance."
    return Decision(Effect.ALLOW, "granted", reason, rule=first, rules=ids, by=by, grants=given)
