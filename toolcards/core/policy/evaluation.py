"""Evaluates all rules for one question: denies first, then asks, allows and monitors.

A stage that cannot be finished within the limit counts as a whole, so nothing depends on the order of its rules.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from toolcards.core.policy.evaluation_context import MAX_STEPS, Asked, OverBudget
from toolcards.core.policy.request import Question
from toolcards.core.policy.rule import Effect, Rule, counts, explained, truths
from toolcards.core.policy.rule_set import Policy
from toolcards.core.policy.truth import TRUE, Truth

STAGES = (Effect.DENY, Effect.ASK, Effect.ALLOW)
_TRACE_FACTOR = 8  # a trace asks every condition of every rule, also those that decide nothing


@dataclass(slots=True)
class Findings:
    """The rules that match, by effect.

    `opaque` holds rules in doubt about a command, each with the reason. `unfinished` is the first stage that was not
    finished, `left` holds all rules of it.
    """

    deny: list[Rule] = field(default_factory=list)
    ask: list[Rule] = field(default_factory=list)
    allow: list[Rule] = field(default_factory=list)
    opaque: list[tuple[Rule, str]] = field(default_factory=list)
    would: tuple[dict[str, Any], ...] = ()
    unfinished: Effect | None = None
    left: tuple[Rule, ...] = ()


def evaluate(policy: Policy, question: Question, limit: int = MAX_STEPS) -> Findings:
    """Ask every rule that could match, in at most `limit` steps."""
    asked, findings = Asked(question, limit), Findings()
    try:
        candidates = policy.candidates(asked)
    except OverBudget:  # every stage that has rules is over budget too
        candidates = policy.rules
    stages: dict[Effect, list[Rule]] = {effect: [] for effect in STAGES}
    watching: list[Rule] = []
    for rule in candidates:
        if rule.alive(question.now):
            (watching if rule.monitor else stages[rule.effect]).append(rule)
    for effect, rules in stages.items():
        try:
            _STAGE[effect](rules, asked, findings)
        except OverBudget:
            findings.unfinished, findings.left = effect, tuple(rules)
            return findings
    with suppress(OverBudget):
        findings.would = _watching(watching, asked)
    return findings


def _strict(stage: list[Rule], asked: Asked, findings: Findings) -> None:
    """Find the rules that deny, or ask."""
    for rule in stage:
        answers = _answers(rule, asked, findings)
        if counts(rule, answers):
            (findings.deny if rule.effect is Effect.DENY else findings.ask).append(rule)


def _mild(stage: list[Rule], asked: Asked, findings: Findings) -> None:
    """Find the rules that allow, alone or each a part of one command."""
    cover: dict[tuple[str, ...], list[tuple[Rule, tuple[Truth, ...]]]] = {}
    for rule in stage:
        answers = _answers(rule, asked, findings)
        if rule.focus is not None and len(answers) > 1:
            cover.setdefault(rule.focus, []).append((rule, answers))
        elif counts(rule, answers):
            findings.allow.append(rule)
    for pairs in cover.values():
        if all(TRUE in column for column in zip(*(answers for _, answers in pairs), strict=True)):
            findings.allow += [rule for rule, answers in pairs if TRUE in answers]


_STAGE = {Effect.DENY: _strict, Effect.ASK: _strict, Effect.ALLOW: _mild}


def _answers(rule: Rule, asked: Asked, findings: Findings) -> tuple[Truth, ...]:
    asked.doubt = ""
    answers = truths(rule, asked)
    if asked.doubt:
        findings.opaque.append((rule, asked.doubt))
    return answers


def _watching(rules: list[Rule], asked: Asked) -> tuple[dict[str, Any], ...]:
    matching = sorted((rule for rule in rules if counts(rule, truths(rule, asked))), key=lambda rule: rule.id)
    return tuple({"rule": rule.id, "effect": rule.effect.value} for rule in matching)


def trace(policy: Policy, question: Question, limit: int = MAX_STEPS) -> tuple[dict[str, Any], ...]:
    """Return what every rule and condition answers.

    The entries hold the values that were looked at, which may be secrets.
    """
    asked = Asked(question, limit * _TRACE_FACTOR)
    return tuple(explained(rule, asked) for rule in sorted(policy.rules, key=lambda rule: rule.id) if rule.enabled)
