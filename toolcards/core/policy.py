"""What policy says about a call: kill switch > deny > unsatisfied ask > allow > default. Rule order changes nothing.

Exceptions are written as `unless` on the strict rule; no rule is stronger for being more specific, first or last.
What cannot be told counts as a match for ask and deny, and as none for allow (`matchers.Truth`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from toolcards.core.asked import Asked, OverBudget
from toolcards.core.facts import By
from toolcards.core.grants import Grant, granted
from toolcards.core.matchers import OPAQUE, TRUE, Truth
from toolcards.core.question import Question
from toolcards.core.rulebook import Policy, combine
from toolcards.core.rules import AskTerms, Effect, Rule, explained, matched, truths

__all__ = ["AskTerms", "Decision", "Effect", "Grant", "Policy", "Question", "Rule", "combine", "decide"]

Eligible: TypeAlias = int | Callable[[AskTerms], int] | None


@dataclass(frozen=True)
class Decision:
    """What policy said and why. `rules` are all rules behind the effect; `ask` is set when a person is wanted."""

    effect: Effect
    code: str
    reason: str
    rule: str = ""
    rules: tuple[str, ...] = ()
    version: int = 0
    by: By = By("default")
    suggest: str = ""
    would: tuple[dict[str, Any], ...] = ()
    ask: AskTerms | None = None
    trace: tuple[dict[str, Any], ...] = ()
    grants: tuple[str, ...] = ()

    def but(self, **changes: Any) -> Decision:
        """Return this decision with some fields changed; a copy of one __dict__, as of a Card."""
        said = object.__new__(Decision)
        object.__setattr__(said, "__dict__", self.__dict__ | changes)
        return said


@dataclass(slots=True)
class _Found:
    """What the rules said."""

    deny: list[Rule] = field(default_factory=list)
    ask: list[Rule] = field(default_factory=list)
    allow: list[Rule] = field(default_factory=list)
    opaque: list[tuple[Rule, str]] = field(default_factory=list)  # in doubt about a command, and why
    would: list[dict[str, Any]] = field(default_factory=list)


def decide(
    policy: Policy | None,
    question: Question,
    *,
    grants: Iterable[Grant] = (),
    kill_switch: bool = False,
    eligible: Eligible = None,
    explain: bool = False,
) -> Decision:
    """Return what policy says. Never raises: whatever goes wrong inside is a deny with code `gate_error`.

    `eligible` is the number of people who could answer, or a function of the ask's terms; None is not checked.
    `explain` adds a trace of every rule and condition; it holds the looked-at values, so redact before showing.
    """
    if kill_switch:
        return Decision(Effect.DENY, "kill_switch", "All tool calls are stopped.", by=By("kill_switch"))
    try:
        if policy is None:
            return Decision(Effect.DENY, "gate_error", "There is no active policy.", by=By("gate_error"))
        said = _decide(policy, question, tuple(grants)).but(version=policy.version)
        if said.effect is Effect.ASK:
            said = _someone(said, question, eligible)
        return said.but(trace=_trace(policy, question)) if explain else said
    except Exception as error:  # unclear answers deny
        reason = f"The policy could not be evaluated ({type(error).__name__})."
        return Decision(Effect.DENY, "gate_error", reason, by=By("gate_error"), version=getattr(policy, "version", 0))


# ---------------------------------------------------------------- the order


def _decide(policy: Policy, question: Question, grants: tuple[Grant, ...]) -> Decision:
    asked, found = Asked(question), _Found()
    try:
        _look(policy, asked, found)
    except OverBudget:
        if not found.deny:
            reason = "Judging this call took too long, so a person should look."
            terms = replace(policy.ask, grants=("once",))
            return Decision(Effect.ASK, "over_budget", reason, by=By("default"), ask=terms)
    would = tuple(sorted(found.would, key=lambda told: str(told["rule"])))
    identity = _identity(policy, question)
    if found.deny:
        return _by_rules(Effect.DENY, "rule_denied", found.deny).but(would=would)
    if identity is not None and identity[1] is Effect.DENY:
        return Decision(Effect.DENY, identity[0], _TOLD[identity[0]], by=By("default"), would=would)
    rest = _rest(policy, question, found, identity, grants)
    said = _ask(policy, question, found, identity, grants) or rest
    if rest.effect is Effect.DENY and identity is None and all(rule.subordinate for rule in found.ask):
        said = rest
    doubts = _doubts(said, found)
    if doubts:
        said = _opaque(policy, doubts)
    return said.but(would=would) if would else said


_TOLD = {
    "unknown_tool": "This tool has not been seen before.",
    "changed_tool": "This tool is another one than before: its definition has changed, or where it comes from.",
}


def _identity(policy: Policy, question: Question) -> tuple[str, Effect] | None:
    """Return the strictest that the tool's identity demands; nothing where the document leaves it to the default."""
    demands: list[tuple[str, Effect]] = []
    if question.changed and policy.changed_tool in {Effect.ASK, Effect.DENY}:
        demands.append(("changed_tool", policy.changed_tool))
    if policy.unknown_tool and not (question.known or policy.names(question.tool)):
        demands.append(("unknown_tool", policy.unknown_tool))
    return max(demands, key=lambda demand: demand[1].strictness, default=None)


def _ask(
    policy: Policy, question: Question, found: _Found, identity: tuple[str, Effect] | None, grants: tuple[Grant, ...]
) -> Decision | None:
    """Return the ask of everything that asks and is not granted; an allow if all of it is; None if nothing asks."""
    names = [rule.id for rule in found.ask]
    if identity is not None and identity[1] is Effect.ASK:
        names.append(identity[0])
    if not names:
        return None
    used = {name: grant for name in names if (grant := granted(name, policy.rule_sha256(name), question, grants))}
    if len(used) == len(names):
        return _by_grants(used, found.ask)
    open_rules = [rule for rule in found.ask if rule.id not in used]
    if open_rules:
        said = _by_rules(Effect.ASK, "rule_asks", open_rules)
        said = said.but(reason=_explained(said, found))
        terms = open_rules[0].ask
        for rule in open_rules[1:]:
            if rule.ask != open_rules[0].ask:  # hundreds of rules mostly say the same
                terms = terms.union(rule.ask)
        if identity is not None and identity[0] not in used and identity[1] is Effect.ASK:
            terms = terms.union(policy.ask)
    else:
        said = Decision(Effect.ASK, names[-1], _TOLD[names[-1]], by=By("default"))
        terms = policy.ask
    return said.but(ask=terms)


def _explained(said: Decision, found: _Found) -> str:
    """Return the reason, and what about the command made the rule ask."""
    why = next((why for rule, why in found.opaque if rule.id == said.rule), "")
    return f"{said.reason.removesuffix('.')}: {why}." if why else said.reason


def _rest(
    policy: Policy, question: Question, found: _Found, identity: tuple[str, Effect] | None, grants: tuple[Grant, ...]
) -> Decision:
    """Return what an allow rule says, else the default."""
    if found.allow:
        return _by_rules(Effect.ALLOW, "rule_allowed", found.allow)
    if identity is not None and identity == ("unknown_tool", Effect.ALLOW):
        return Decision(Effect.ALLOW, "unknown_tool", "Tools not seen before are allowed.", by=By("default"))
    if policy.default is Effect.ASK:
        grant = granted("default", policy.rule_sha256("default"), question, grants)
        if grant:
            return _by_grants({"default": grant}, [])
        reason = "No rule answers, so a person is asked."
        return Decision(Effect.ASK, "default", reason, by=By("default"), ask=policy.ask)
    reason = f"No rule answers; the default is to {policy.default.value}."
    return Decision(policy.default, "default", reason, by=By("default"))


def _doubts(said: Decision, found: _Found) -> list[tuple[Rule, str]]:
    """Return the doubts about a command that a person must settle: those of denies, of allows where none is sure."""
    if said.effect is Effect.DENY or (said.effect is Effect.ASK and said.code != "default"):
        return []
    sure = said.code in {"rule_allowed", "granted"}
    doubted = {Effect.DENY} if sure else {Effect.DENY, Effect.ALLOW}  # an ask in doubt stands by itself
    return [doubt for doubt in found.opaque if doubt[0].effect in doubted]


def _opaque(policy: Policy, doubts: list[tuple[Rule, str]]) -> Decision:
    rules, terms = _sorted([rule for rule, _ in doubts]), policy.ask
    why = next(why for rule, why in doubts if rule is rules[0])
    return Decision(
        Effect.ASK,
        "opaque_command",
        f"No rule can allow this command: {why}.",
        rule=rules[0].id,
        rules=tuple(rule.id for rule in rules),
        by=By("rule", rules[0].id),
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
    return said.but(effect=Effect.DENY, code="no_approver", reason=reason, by=By("no_approver"), ask=None)


# ---------------------------------------------------------------- what the rules say


def _look(policy: Policy, asked: Asked, found: _Found) -> None:
    """Ask every rule that could match; what was found so far stays when it takes too long."""
    cover: dict[tuple[str, ...], list[tuple[Rule, tuple[Truth, ...]]]] = {}
    for rule in policy.candidates(asked):
        if not rule.alive(asked.question.now):
            continue
        asked.doubt = ""
        answers = truths(rule, asked)
        if rule.monitor:
            if matched(rule, answers):
                found.would.append({"rule": rule.id, "effect": rule.effect.value})
            continue
        if asked.doubt:
            found.opaque.append((rule, asked.doubt))
        if rule.effect is Effect.ALLOW and rule.focus is not None and len(answers) > 1:
            cover.setdefault(rule.focus, []).append((rule, answers))
        elif matched(rule, answers):
            _file(found, rule, answers)
    for pairs in cover.values():
        if all(TRUE in column for column in zip(*(answers for _, answers in pairs), strict=True)):
            found.allow += [rule for rule, answers in pairs if TRUE in answers]


def _file(found: _Found, rule: Rule, answers: tuple[Truth, ...]) -> None:
    if rule.effect is Effect.DENY:
        if max(answers) is OPAQUE:  # an opaque command that does not spell the denied words is asked about
            return
        found.deny.append(rule)
    elif rule.effect is Effect.ASK:
        found.ask.append(rule)
    else:
        found.allow.append(rule)


def _by_rules(effect: Effect, code: str, rules: list[Rule]) -> Decision:
    rules = _sorted(rules)
    first = rules[0]
    suggest = next((rule.suggest for rule in rules if rule.suggest), "")
    ids = tuple(rule.id for rule in rules)
    return Decision(effect, code, first.reason, rule=first.id, rules=ids, by=By("rule", first.id), suggest=suggest)


def _sorted(rules: list[Rule]) -> list[Rule]:
    """Return the rules, the one to name first: highest layer, gravest, then by id."""
    order = ("critical", "high", "medium", "low").index
    return sorted(rules, key=lambda rule: (rule.layer, order(rule.severity), rule.id))


def _trace(policy: Policy, question: Question) -> tuple[dict[str, Any], ...]:
    return tuple(
        explained(rule, Asked(question)) for rule in sorted(policy.rules, key=lambda rule: rule.id) if rule.enabled
    )


def _by_grants(used: Mapping[str, Grant], rules: list[Rule]) -> Decision:
    names = sorted(used)
    first = _sorted(rules)[0].id if rules else ""
    by = By("grant", used[names[0]].id or names[0])
    ids = tuple(rule.id for rule in _sorted(rules))
    given = tuple(used[name].id for name in names)
    reason = "A person allowed this in advance."
    return Decision(Effect.ALLOW, "granted", reason, rule=first, rules=ids, by=by, grants=given)
