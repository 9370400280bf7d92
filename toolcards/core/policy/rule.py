"""One rule, compiled, and what it says about one question."""

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
    """What policy says, from mild to strict."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        """Return 0 for allow, 1 for ask, 2 for deny."""
        return ("allow", "ask", "deny").index(self.value)


@dataclass(frozen=True, slots=True)
class AskTerms:
    """How an answer must come about. Times are seconds; `decide_ttl` 0 is the server's own (TOOLCARDS_DECIDE_TTL).

    `approvers` holds one list per rule that names approvers; who answers must be in every list. The requester is whom
    the agent works for. `editable` holds JSON Pointers below which the input may be changed; "" is all of it.
    `escalate` says after how long a silence who is asked too, `escalated` which of that has happened; `stands_in` for
    which list of its own rule that person or group then counts.
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

    def may_answer(self, identities: Collection[str]) -> bool:
        """Return whether someone with this name and these groups (`group:x`) may answer."""
        return all(
            any(name in identities for name in (*names, *self._list_stand_ins(names))) for names in self.approvers
        )

    def _list_stand_ins(self, names: tuple[str, ...]) -> list[str]:
        return [to for after, to, others in self.stands_in if others == names and (after, to) in self.escalated]

    def find_due_escalations(self, silence: float) -> tuple[tuple[float, str], ...]:
        """Return the escalations that so many seconds without an answer bring and that have not happened yet."""
        return tuple(step for step in self.escalate if step[0] <= silence and step not in self.escalated)

    def union(self, other: AskTerms) -> AskTerms:
        """Return the strictest of both."""
        return AskTerms(
            decide_ttl=min(filter(None, (self.decide_ttl, other.decide_ttl)), default=0.0),
            use_ttl=min(self.use_ttl, other.use_ttl),
            approvers=tuple(sorted({*self.approvers, *other.approvers})),
            quorum=max(self.quorum, other.quorum),
            deny_quorum=min(self.deny_quorum, other.deny_quorum),
            allow_requester=self.allow_requester and other.allow_requester,
            reason=max(self.reason, other.reason, key=REASONS.index),
            reauth=self.reauth or other.reauth,
            editable=_intersect_pointers(self.editable, other.editable),
            grants=tuple(kind for kind in self.grants if kind in other.grants),
            escalate=tuple(sorted({*self.escalate, *other.escalate})),
            stands_in=tuple(
                sorted(
                    stand_in
                    for stand_in in {*self.stands_in, *other.stands_in}
                    if self._accepts_stand_in(stand_in) and other._accepts_stand_in(stand_in)
                )
            ),
            severity=max(self.severity, other.severity, key=SEVERITIES.index),
        )

    def _accepts_stand_in(self, standing_in: tuple[float, str, tuple[str, ...]]) -> bool:
        """Whether these terms say nothing against it: they do not want that list, or they say the same."""
        return standing_in[2] not in self.approvers or standing_in in self.stands_in


TERMS = AskTerms()


def _intersect_pointers(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    """Return the pointers that both allow: of two, the one below the other."""
    pairs = [(one, other) for one in ours for other in theirs]
    both = {one for one, other in pairs if _is_below(one, other)} | {
        other for one, other in pairs if _is_below(other, one)
    }
    return tuple(sorted(both))


def _is_below(pointer: str, other: str) -> bool:
    return pointer == other or pointer.startswith(other + "/")


@dataclass(frozen=True)
class Clause:
    """Conditions that all have to hold, cheap ones first."""

    conditions: tuple[Condition, ...]

    @cached_property
    def about_call(self) -> tuple[Condition, ...]:
        """Those that say nothing about arguments: for every part of a command they say the same."""
        return tuple(condition for condition in self.conditions if not condition.cost)

    @cached_property
    def about_input(self) -> tuple[Condition, ...]:
        """The others."""
        return tuple(condition for condition in self.conditions if condition.cost)

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return AND over the conditions."""
        return check_all(self.conditions, context, segment)


def check_all(
    conditions: tuple[Condition, ...], context: EvaluationContext, segment: CommandSegment | None, truth: Truth = TRUE
) -> Truth:
    """Return AND over what is known already and the conditions."""
    for condition in conditions:
        if truth is FALSE:
            break
        truth = min(truth, condition.check(context, segment))
    return truth


@dataclass(frozen=True)
class Rule:
    """Conditions, exceptions and an effect. `focus` is the path of the one shell command it looks at, if any."""

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
    layer: int = 0
    subordinate: bool = False  # from a lower layer that may only make things stricter
    tools: tuple[str, ...] = ()  # as written, for the index and for people
    kinds: tuple[str, ...] = ()
    heads: tuple[tuple[str, ...], ...] | None = None  # one of these must run for it to match; None: not known

    @property
    def reason(self) -> str:
        """What people and agents are told."""
        return self.public_reason or self.sentence

    @property
    def wide(self) -> bool:
        """Doubt counts as a match for ask and deny, and as none for allow."""
        return self.effect is not Effect.ALLOW

    def is_active(self, now: float) -> bool:
        """Return whether the rule counts at this time; an unknown time ends an allow, never an ask or a deny."""
        if not self.enabled:
            return False
        if not self.expires_at:
            return True
        return now < self.expires_at if now > 0 else self.wide

    def move_to_layer(self, layer: int, *, subordinate: bool) -> Rule:
        """Return the same rule in another layer."""
        return replace(self, layer=layer, subordinate=subordinate)


def list_parts(rule: Rule, context: EvaluationContext) -> tuple[CommandSegment | None, ...]:
    """Return what the rule is judged on: each segment of its shell command, or the call as a whole.

    Where one part is enough and no exception speaks of single ones, the whole says the same at once.
    """
    if rule.focus is None or (rule.wide and not rule.unless):
        return (None,)
    script = context.script(rule.focus)
    return script.segments if script is not None else (None,)


def evaluate_parts(rule: Rule, context: EvaluationContext) -> tuple[Truth, ...]:
    """Return the rule's answer for each of its parts: the conditions hold and no exception does."""
    context.step()
    truth = check_all(rule.match.about_call, context, None)
    if rule.wide and rule.focus is not None and rule.unless:
        truth = min(truth, check_all(rule.match.about_input, context, None, truth))
    if truth is FALSE:
        return (FALSE,)
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
    """Return whether the answers make the rule decide: one part is enough for ask and deny.

    An opaque command that does not spell the denied words is asked about instead: see MatchedRules.opaque.
    """
    if not rule.wide:
        return all(answer is TRUE for answer in answers)
    surest = answers[0] if len(answers) == 1 else max(answers)
    return surest is not FALSE and not (surest is OPAQUE and rule.effect is Effect.DENY)


def explain_rule(rule: Rule, context: EvaluationContext) -> dict[str, Any]:
    """Return what each condition says, with the values looked at (they may hold secrets)."""
    told = {"rule": rule.id, "effect": rule.effect.value, "monitor": rule.monitor}
    try:
        answers = evaluate_parts(rule, context)
        conditions = [_explain_condition(rule, "match", condition, context) for condition in rule.match.conditions]
        for number, clause in enumerate(rule.unless):
            conditions += [
                _explain_condition(rule, f"unless/{number}", condition, context) for condition in clause.conditions
            ]
    except OverBudget:
        return told | {"matched": False, "truth": "unknown", "conditions": ()}
    truth = _name_truth(max(answers) if rule.wide else min(answers))
    return told | {"matched": is_match(rule, answers), "truth": truth, "conditions": tuple(conditions)}


def _explain_condition(rule: Rule, clause: str, condition: Condition, context: EvaluationContext) -> dict[str, Any]:
    answers = [condition.check(context, part) for part in list_parts(rule, context)]
    truth = max(answers) if rule.wide == (clause == "match") else min(answers)
    return {"clause": clause, "what": condition.name, "matched": _name_truth(truth), "value": condition.actual(context)}


def _name_truth(truth: Truth) -> str:
    return {TRUE: "true", FALSE: "false"}.get(truth, "unknown")


def list_command_conditions(clause: Clause) -> tuple[CommandCondition, ...]:
    """Return the clause's conditions on shell commands."""
    return tuple(condition for condition in clause.conditions if isinstance(condition, CommandCondition))
