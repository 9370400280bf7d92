"""What all rules say about one question: denies first and completely, then asks, then allows, then those that watch.

Whatever cannot be finished within the limit is told by `unfinished`: a stage that was broken off counts as a whole,
so nothing depends on which of its rules came first.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from toolcards.core.asked import MAX_STEPS, Asked, OverBudget
from toolcards.core.question import Question
from toolcards.core.rulebook import Policy
from toolcards.core.rules import Effect, Rule, counts, explained, truths
from toolcards.core.truth import TRUE, Truth

STAGES = (Effect.DENY, Effect.ASK, Effect.ALLOW)
_TRACE_FACTOR = 8  # a trace asks every condition of every rule, also those that decide nothing


@dataclass(slots=True)
class Findings:
    """What the rules say. `unfinished` is the first stage that was not finished, `left` all rules of it."""

    deny: list[Rule] = field(default_factory=list)
    ask: list[Rule] = field(default_factory=list)
    allow: list[Rule] = field(default_factory=list)
    opaque: list[Rule] = field(default_factory=list)  # looked at a command that is not plain
    would: tuple[dict[str, Any], ...] = ()
    unfinished: Effect | None = None
    left: tuple[Rule, ...] = ()


def evaluate(policy: Policy, question: Question, limit: int = MAX_STEPS) -> Findings:
    """Ask every rule that could match, in at most `limit` steps."""
    asked, findings = Asked(question, limit), Findings()
    try:
        could = policy.candidates(asked)
    except OverBudget:  # every stage that has rules is over budget too
        could = policy.rules
    stages: dict[Effect, list[Rule]] = {effect: [] for effect in STAGES}
    watching: list[Rule] = []
    for rule in could:
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
    """Find the rules that allow: alone, or each a part of one command line."""
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
    asked.opaque = False
    answers = truths(rule, asked)
    if asked.opaque and rule.effect is not Effect.ASK:  # an ask about an opaque command stands by itself
        findings.opaque.append(rule)
    return answers


def _watching(rules: list[Rule], asked: Asked) -> tuple[dict[str, Any], ...]:
    found = [rule for rule in rules if counts(rule, truths(rule, asked))]
    return tuple({"rule": rule.id, "effect": rule.effect.value} for rule in sorted(found, key=lambda rule: rule.id))


def trace(policy: Policy, question: Question, limit: int = MAX_STEPS) -> tuple[dict[str, Any], ...]:
    """Return what every rule and condition says, with the values looked at (they may hold secrets)."""
    asked = Asked(question, limit * _TRACE_FACTOR)
    return tuple(explained(rule, asked) for rule in sorted(policy.rules, key=lambda rule: rule.id) if rule.enabled)
