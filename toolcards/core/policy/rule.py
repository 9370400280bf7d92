"""One compiled rule, and its answer for one call."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from toolcards.core.policy.evaluation_context import EvaluationContext, OverBudget
from toolcards.core.policy.matching.conditions import CommandCondition, Condition
from toolcards.core.policy.shell.script import CommandSegment
from toolcards.core.policy.truth import FALSE, OPAQUE, TRUE, Truth, negate

REASONS = ("optional", "on_deny", "always")
GRANTS = ("once", "run", "until")
SEVERITIES = ("low", "medium", "high", "critical")


class Effect(StrEnum):
    """The effect of policy, from mild to strict."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        """Return 0 for allow, 1 for ask, 2 for deny."""
        return ("allow", "ask", "deny").index(self.value)


@dataclass(frozen=True, slots=True)
class AskTerms:
    """The terms of an approval. Times are seconds; `decide_ttl` 0 is the server's setting (TOOLCARDS_DECIDE_TTL).

    `approvers` has one list for each rule that names approvers; an approver must be in every list. The requester is the
    person that the agent works for. `editable` has JSON Pointers below which the input may be changed; "" is all of it.
    `escalate` has the seconds without an answer after which a person or group is asked too, `escalated` the steps that
    have happened, and `stands_in` the list of approvers that this person or group then belongs to. `review` names the
    reviewer that is asked before people, `shadow_review` one whose answers are only recorded.
    """

    decide_ttl: float = 0.0
    use_ttl: float = 300.0
    approvers: tuple[tuple[str, ...], ...] = ()
    quorum: int = 1
    deny_quorum: int = 1
    allow_requester: bool = False
    reason: str = "optional"
    reauth: bool = False
    editable: tuple[str, ...] = ("",)
    grants: tuple[str, ...] = GRANTS
    escalate: tuple[tuple[float, str], ...] = ()
    stands_in: tuple[tuple[float, str, tuple[str, ...]], ...] = ()
    escalated: tuple[tuple[float, str], ...] = ()
    severity: str = "medium"
    review: str = ""
    shadow_review: str = ""

    def may_answer(self, identities: Collection[str]) -> bool:
        """Return whether a person with these names and groups (`group:x`) may answer."""
        return all(
            any(name in identities for name in (*names, *self._list_stand_ins(names))) for names in self.approvers
        )

    def _list_stand_ins(self, names: tuple[str, ...]) -> list[str]:
        return [
            to
            for after, to, names_in_rule in self.stands_in
            if names_in_rule == names and (after, to) in self.escalated
        ]

    def find_due_escalations(self, silence: float) -> tuple[tuple[float, str], ...]:
        """Return the escalations that are due after this silence in seconds."""
        return tuple(step for step in self.escalate if step[0] <= silence and step not in self.escalated)

    def union(self, terms: AskTerms) -> AskTerms:
        """Return the stricter of both for each term."""
        return AskTerms(
            decide_ttl=min(filter(None, (self.decide_ttl, terms.decide_ttl)), default=0.0),
            use_ttl=min(self.use_ttl, terms.use_ttl),
            approvers=tuple(sorted({*self.approvers, *terms.approvers})),
            quorum=max(self.quorum, terms.quorum),
            deny_quorum=min(self.deny_quorum, terms.deny_quorum),
            allow_requester=self.allow_requester and terms.allow_requester,
            reason=max(self.reason, terms.reason, key=REASONS.index),
            reauth=self.reauth or terms.reauth,
            editable=_intersect_pointers(self.editable, terms.editable),
            grants=tuple(kind for kind in self.grants if kind in terms.grants),
            escalate=tuple(sorted({*self.escalate, *terms.escalate})),
            stands_in=tuple(
                sorted(
                    stand_in
                    for stand_in in {*self.stands_in, *terms.stands_in}
                    if self._accepts_stand_in(stand_in) and terms._accepts_stand_in(stand_in)
                )
            ),
            severity=max(self.severity, terms.severity, key=SEVERITIES.index),
            review=self.review if self.review == terms.review else "",
            shadow_review=max(self.shadow_review, terms.shadow_review),
        )

    def without_review(self) -> AskTerms:
        """Return the terms under which no reviewer answers before people."""
        return replace(self, review="") if self.review else self

    def _accepts_stand_in(self, stand_in: tuple[float, str, tuple[str, ...]]) -> bool:
        """Return whether these terms lack that list or have the same stand-in."""
        return stand_in[2] not in self.approvers or stand_in in self.stands_in


TERMS = AskTerms()


def _intersect_pointers(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    """Return the pointers that both allow: the deeper one of each matching pair."""
    pairs = [(first, second) for first in ours for second in theirs]
    both = {first for first, second in pairs if _is_below(first, second)} | {
        second for first, second in pairs if _is_below(second, first)
    }
    return tuple(sorted(both))


def _is_below(pointer: str, parent: str) -> bool:
    return pointer == parent or pointer.startswith(parent + "/")


@dataclass(frozen=True)
class Clause:
    """Conditions that all must hold, cheap ones first."""

    conditions: tuple[Condition, ...]

    @cached_property
    def about_call(self) -> tuple[Condition, ...]:
        """The conditions that do not read arguments.

        They have the same answer for every part of a command.
        """
        return tuple(condition for condition in self.conditions if not condition.cost)

    @cached_property
    def about_input(self) -> tuple[Condition, ...]:
        """The conditions that read arguments."""
        return tuple(condition for condition in self.conditions if condition.cost)

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return AND over the conditions."""
        return check_all(self.conditions, context, segment)


def check_all(
    conditions: tuple[Condition, ...], context: EvaluationContext, segment: CommandSegment | None, truth: Truth = TRUE
) -> Truth:
    """Return AND over the conditions and the truth so far."""
    for condition in conditions:
        if truth is FALSE:
            break
        answer = condition.check(context, segment)
        if answer < truth:
            truth = answer
    return truth


@dataclass(frozen=True)
class Rule:
    """Conditions, exceptions and an effect. `focus` is the path of the only shell command that it reads, if any."""

    id: str
    effect: Effect
    match: Clause
    unless: tuple[Clause, ...] = ()
    focus: tuple[str, ...] | None = None
    monitor: bool = False
    enabled: bool = True
    expires_at: float = 0.0
    severity: str = "medium"
    ask: AskTerms = AskTerms()
    public_reason: str = ""
    suggest: str = ""
    sentence: str = ""
    sha256: str = ""
    tools: tuple[str, ...] = ()  # as written, for the index and for people
    kinds: tuple[str, ...] = ()
    heads: tuple[tuple[str, ...], ...] | None = None  # the rule can match only if one of these runs; None: unknown

    @property
    def reason(self) -> str:
        """The reason for people and agents."""
        return self.public_reason or self.sentence

    @cached_property
    def wide(self) -> bool:
        """Whether doubt counts as a match, as for ask and deny."""
        return self.effect is not Effect.ALLOW

    def is_active(self, now: float) -> bool:
        """Return whether the rule is enabled and has not expired.

        At an unknown time, an allow has expired, and an ask or deny has not.
        """
        if not self.enabled:
            return False
        if not self.expires_at:
            return True
        return now < self.expires_at if now > 0 else self.wide


def list_parts(rule: Rule, context: EvaluationContext) -> tuple[CommandSegment | None, ...]:
    """Return the parts that the rule is evaluated on.

    These are the segments of its shell command, or None for the entire call. If one part is enough and there are no
    exceptions, the entire call has the same answer.
    """
    if rule.focus is None or (rule.wide and not rule.unless):
        return (None,)
    script = context.script(rule.focus)
    return script.segments if script is not None else (None,)


def evaluate_parts(rule: Rule, context: EvaluationContext) -> tuple[Truth, ...]:
    """Return for each part whether the conditions hold and no exception does."""
    context.step()
    truth = check_all(rule.match.about_call, context, None)
    if rule.wide and rule.focus is not None and rule.unless:
        truth = min(truth, check_all(rule.match.about_input, context, None, truth))
    if truth is FALSE:
        return (FALSE,)
    if rule.focus is None:
        return (_evaluate_part(rule, context, None, truth),)
    return tuple([_evaluate_part(rule, context, part, truth) for part in list_parts(rule, context)])


def _evaluate_part(rule: Rule, context: EvaluationContext, part: CommandSegment | None, truth: Truth) -> Truth:
    truth = check_all(rule.match.about_input, context, part, truth)
    for clause in rule.unless:
        if truth is FALSE:
            break
        context.step()
        truth = min(truth, negate(clause.check(context, part)))
    return truth


def is_match(rule: Rule, answers: tuple[Truth, ...]) -> bool:
    """Return whether the rule matches.

    For ask and deny, one part is enough. An opaque command without the denied words requires approval instead, see
    MatchedRules.opaque.
    """
    if not rule.wide:
        return not answers or min(answers) is TRUE
    surest = answers[0] if len(answers) == 1 else max(answers)
    return surest is not FALSE and not (surest is OPAQUE and rule.effect is Effect.DENY)


def explain_rule(rule: Rule, context: EvaluationContext) -> dict[str, Any]:
    """Return the answer of each condition with the values that it read.

    The values may be secrets.
    """
    explanation = {"rule": rule.id, "effect": rule.effect.value, "monitor": rule.monitor}
    try:
        answers = evaluate_parts(rule, context)
        conditions = [_explain_condition(rule, "match", condition, context) for condition in rule.match.conditions]
        for number, clause in enumerate(rule.unless):
            conditions += [
                _explain_condition(rule, f"unless/{number}", condition, context) for condition in clause.conditions
            ]
    except OverBudget:
        return explanation | {"matched": False, "truth": "unknown", "conditions": ()}
    truth = _name_truth(max(answers) if rule.wide else min(answers))
    return explanation | {"matched": is_match(rule, answers), "truth": truth, "conditions": tuple(conditions)}


def _explain_condition(rule: Rule, clause: str, condition: Condition, context: EvaluationContext) -> dict[str, Any]:
    answers = [condition.check(context, part) for part in list_parts(rule, context)]
    truth = max(answers) if rule.wide == (clause == "match") else min(answers)
    return {"clause": clause, "what": condition.name, "matched": _name_truth(truth), "value": condition.actual(context)}


def _name_truth(truth: Truth) -> str:
    return {TRUE: "true", FALSE: "false"}.get(truth, "unknown")


def list_command_conditions(clause: Clause) -> tuple[CommandCondition, ...]:
    """Return the clause's conditions on shell commands."""
    return tuple(condition for condition in clause.conditions if isinstance(condition, CommandCondition))
