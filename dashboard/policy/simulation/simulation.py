"""The calls that a draft would decide differently from the active policy. Changes nothing.

Only counts, shapes and at most 20 examples of each are kept; no arguments are kept or shown here.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from django.db import connections

from dashboard.policy.simulation.past_calls import PastCall, Span, iterate_past_calls, split_span
from dashboard.policy.simulation.simulation_result import (
    GROUPS,
    ChangeGroup,
    SimulationResult,
    add_example,
    merge_results,
)
from toolcards.core.policy.decision import PolicyDecision, PolicyRequest, RuleSet, decide
from toolcards.core.policy.equivalence import collect_criteria
from toolcards.core.policy.evaluation_context import EvaluationContext
from toolcards.core.policy.rule import evaluate_parts
from toolcards.core.policy.truth import FALSE

ANSWERS = 4_000  # cached decisions of each policy
CHEAP = 1_000  # steps of the rules that differ; calls that need more are evaluated by both policies
EVERY = 0.2  # seconds between two reports of progress, which may also cancel


Answer = TypeVar("Answer")


class SimulationCancelled(Exception):
    """The simulation was cancelled."""


def simulate(
    old: RuleSet,
    new: RuleSet,
    span: Span,
    *,
    calls: Iterable[PastCall] | None = None,
    on_progress: Callable[[SimulationResult], None] | None = None,
    seconds: float = 0.0,
) -> SimulationResult:
    """Return what would change in the span, or in these calls.

    `on_progress` gets the result so far and may raise SimulationCancelled; `seconds` limits the time.
    """
    work = _Comparison(old, new, SimulationResult(total=span.total()))
    began = last_report = time.monotonic()
    for number, call in enumerate(iterate_past_calls(span) if calls is None else calls):
        work.take(call)
        if number & 15:
            continue
        now = time.monotonic()
        if seconds and now - began > seconds:
            work.tally.partial = True
            break
        if on_progress and now - last_report > EVERY:
            last_report = now
            on_progress(work.tally)
    if not work.tally.partial:
        work.tally.total = work.tally.examined_count  # calls outside the span were not examined
    work.tally.seconds = time.monotonic() - began
    return work.tally


class _Comparison:
    """Two policies, compared call by call."""

    def __init__(self, old: RuleSet, new: RuleSet, tally: SimulationResult) -> None:
        self.tally = tally
        self.old, self.new = _CachedPolicy(old, decide), _CachedPolicy(new, decide)
        differ = extract_differing_rules(old, new)
        self.differs = _CachedPolicy(differ, can_affect) if differ else None
        old_rules = _list_rules(old)
        self.fresh = {key[0] for key in _list_rules(new) if key not in old_rules}
        self.groups: dict[tuple[str, str, str, str], ChangeGroup] = {}

    def take(self, call: PastCall) -> None:
        """Evaluate the call with both policies."""
        tally, question = self.tally, call.question
        if question is None:
            tally.unknown += 1
            return
        tally.judged += 1
        if self.differs and not self.differs.says(question):
            return  # both policies have the same rules for it, and the same default
        old, new = self.old.says(question), self.new.says(question)
        self._count(new)
        if old.effect is not new.effect:
            self._change(call, old, new)

    def _count(self, decision: PolicyDecision) -> None:
        for rule in self.fresh.intersection(decision.rules):
            self.tally.hits[rule] = self.tally.hits.get(rule, 0) + 1
        for rule in self.fresh.intersection(entry["rule"] for entry in decision.would):
            self.tally.would[rule] = self.tally.would.get(rule, 0) + 1

    def _change(self, call: PastCall, old: PolicyDecision, new: PolicyDecision) -> None:
        self.tally.changed += 1
        key = (call.tool, str(old.effect), str(new.effect), new.rule or old.rule or new.code)
        if key not in self.groups:
            if len(self.groups) >= GROUPS:
                self.tally.other += 1
                return
            self.groups[key] = ChangeGroup(*key)
            self.tally.groups.append(self.groups[key])
        add_example(self.groups[key], call.pk)
        if call.person == "denied" and new.effect == "allow":
            add_example(self.tally.opened, call.pk)
        if call.person == "approved" and new.effect == "deny":
            add_example(self.tally.closed, call.pk)


class _CachedPolicy(Generic[Answer]):
    """A policy with cached decisions for calls that agree in all that it reads."""

    def __init__(self, policy: RuleSet, ask: Callable[[RuleSet, PolicyRequest], Answer]) -> None:
        self.policy, self.ask = policy, ask
        self.looks_at = collect_criteria(policy.rules)
        self._answers: dict[Hashable, Answer] = {}

    def says(self, question: PolicyRequest) -> Answer:
        """Return the decision on this call."""
        key = self.looks_at.key(question)
        if key is None:
            return self.ask(self.policy, question)
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= ANSWERS:
                self._answers.clear()
            answer = self._answers[key] = self.ask(self.policy, question)
        return answer


def extract_differing_rules(old: RuleSet, new: RuleSet) -> RuleSet | None:
    """Return the rules that only one policy has.

    None if all calls may differ.
    """
    heads = ("default", "unknown_tool", "changed_tool", "ask")
    if any(getattr(old, name) != getattr(new, name) for name in heads):
        return None
    old_rules, new_rules = _list_rules(old), _list_rules(new)
    rules = [rule for key, rule in {**old_rules, **new_rules}.items() if (key in old_rules) != (key in new_rules)]
    # A changed rule counts as two rules, so each needs its own id for the index.
    return RuleSet(rules=tuple(replace(rule, id=f"{number}") for number, rule in enumerate(rules)))


def _list_rules(policy: RuleSet) -> dict[tuple[Any, ...], Any]:
    return {(rule.id, rule.sha256, rule.enabled): rule for rule in policy.rules}


def can_affect(rules: RuleSet, question: PolicyRequest) -> bool:
    """Return whether any rule may match the call or cannot read it.

    Rules that never match a large call may still cost so much that the others cannot be finished.
    """
    context = EvaluationContext(question)
    try:
        for rule in rules.candidates(context):
            if not rule.is_active(question.now):
                continue
            context.doubt = ""
            if any(answer is not FALSE for answer in evaluate_parts(rule, context)) or context.doubt:
                return True
    except Exception:  # in case of an error, both policies decide themselves
        return True
    return context.steps > CHEAP


# ---------------------------------------------------------------- on several cores

_pair: list[RuleSet] = []  # the policies of a forked process


def simulate_in_processes(
    old: RuleSet, new: RuleSet, span: Span, on_progress: Callable[[SimulationResult], None], cores: int = 2
) -> SimulationResult:
    """Return what `simulate` does, in several processes.

    Only for a process without other threads.
    """
    began, total = time.monotonic(), SimulationResult()
    parts = split_span(span)
    total.total = sum(part.calls for part in parts)
    _pair[:] = [old, new]
    connections.close_all()  # a connection must not be shared with a forked process
    with multiprocessing.get_context("fork").Pool(cores) as pool:
        for part in pool.imap(_simulate_slice, parts):
            merge_results(total, part)
            on_progress(total)
    total.total, total.seconds = total.examined_count, time.monotonic() - began
    return total


def _simulate_slice(span: Span) -> SimulationResult:
    old, new = _pair
    return simulate(old, new, span)
