"""Suggestions to stop asking: lasting answers that people have given many times, one call after the other."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import Any

from dashboard.policy.simulation.past_calls import Span, iterate_past_calls
from dashboard.policy.simulation.simulation import can_affect
from toolcards.client.common.canonical_json import digest
from toolcards.core.policy.decision import Effect, PolicyRequest, RuleSet, decide
from toolcards.core.policy.lasting.answers import LastingAnswer
from toolcards.core.policy.lasting.subjects import list_subjects
from toolcards.core.risk.assessment import assess_call_risk
from toolcards.gate import InvalidRequest, lasting_answers
from toolcards.models import Approval, ToolCall, Vote

# The questions that people were asked recently: each with its call, its answer, and the person who gave it.
LOOKED_AT = Span(calls=1_000, days=30)
_APPROVAL_STATES = frozenset({"approved", "claimed", "succeeded", "failed", "unknown"})
_REFUSAL_STATES = frozenset({"denied", "revoked"})


@dataclass(frozen=True, slots=True)
class PastQuestion:
    """A call that was asked about. `person` approved it as it was, or is "".

    `is_refused`: a person denied it, changed its input, or took the approval back.
    """

    pk: int
    request: PolicyRequest
    person: str
    is_refused: bool

    @property
    def agent(self) -> str:
        """Return the name of the agent that made the call."""
        return self.request.agent_path[-1] if self.request.agent_path else ""


def list_open_questions(policy: RuleSet) -> list[PastQuestion]:
    """Return the answered questions that this policy would ask again.

    The newest are first.
    """
    now, questions = time.time(), []
    answers = _list_answers()
    rows = ToolCall.objects.not_removed().filter(pk__in=list(answers))
    for call in iterate_past_calls(LOOKED_AT, rows):
        if call.question is None:
            continue
        request = replace(call.question, now=now, can_wait=True)
        if decide(policy, request).effect is Effect.ASK:
            questions.append(PastQuestion(call.pk, request, *answers[call.pk]))
    return questions


def _list_answers() -> dict[int, tuple[str, bool]]:
    """Return for each call who approved it, and whether a person refused it."""
    columns = ("id", "call_id", "state", "by_kind", "by_name")
    rows = Approval.objects.filter(asked=True, opener="gate", decided_at__gt=0).order_by("-decided_at", "-id")
    approvals = list(rows.values_list(*columns)[: LOOKED_AT.calls])
    votes = Vote.objects.filter(approval__in=[row[0] for row in approvals], decision__in=("deny", "edit"))
    refused_ids = set(votes.values_list("approval", flat=True))
    answers: dict[int, tuple[str, bool]] = {}
    for pk, call, state, kind, name in approvals:
        person = name if kind == "human" and state in _APPROVAL_STATES else ""
        is_refused = pk in refused_ids or (kind == "human" and state in _REFUSAL_STATES)
        earlier_person, was_refused = answers.get(call, ("", False))
        answers[call] = (earlier_person or person, was_refused or is_refused)
    return answers


def count_agents(questions: list[PastQuestion]) -> list[tuple[str, int]]:
    """Return the agents that made the calls, busiest first."""
    return Counter(question.agent for question in questions).most_common()


LEAST = 5  # approvals that a suggestion needs
MOST = 5  # suggestions on a page
_MAX_CANDIDATES = 12  # candidates, most approved first


@dataclass(frozen=True)
class AnswerSuggestion:
    """A lasting answer and its evidence.

    `covered` has the past questions that its rule would have answered, the newest first.
    """

    answer: LastingAnswer
    covered: list[PastQuestion]
    newest: PastQuestion  # approved by a person

    @property
    def rule_id(self) -> str:
        """Return the id of the rule that it would write."""
        return str(self.answer.build_rule(Effect.ALLOW)["id"])

    @property
    def approved_count(self) -> int:
        """Return how many of the questions people approved."""
        return sum(1 for question in self.covered if question.person)

    @property
    def people_count(self) -> int:
        """Return how many people approved them."""
        return len({question.person for question in self.covered if question.person})

    @property
    def agents(self) -> list[tuple[str, int]]:
        """Return the agents that were asked about."""
        return count_agents(self.covered)

    @property
    def evidence(self) -> str:
        """Return what the record says, in words."""
        people = f"{self.people_count} {'person' if self.people_count == 1 else 'people'}"
        return f"approved {self.approved_count} times by {people}, never denied"

    @property
    def whose(self) -> str:
        """Return for which agents it is."""
        return f"for {self.answer.scope}"


def list_suggestions(policy: RuleSet) -> list[AnswerSuggestion]:
    """Return the suggestions that the record supports, most approved first.

    None covers a question that a person refused, or a call of high risk. Of two for the same calls, the one that
    covers less is kept.
    """
    questions = list_open_questions(policy)
    candidates = [each for group in _group_candidates(questions) for each in _suggest(policy, questions, *group)]
    candidates.sort(key=lambda each: (-each.approved_count, len(each.covered)))
    suggestions: list[AnswerSuggestion] = []
    covered_pks: set[int] = set()
    for each in candidates:
        pks = {question.pk for question in each.covered}
        if not pks <= covered_pks and _has_low_risk(each):
            suggestions.append(each)
            covered_pks |= pks
    return suggestions[:MOST]


def _group_candidates(questions: list[PastQuestion]) -> list[tuple[dict[str, Any], list[PastQuestion]]]:
    """Return what lasting answers could cover, with the approved calls of each."""
    groups: dict[str, tuple[dict[str, Any], list[PastQuestion]]] = {}
    refused_keys: defaultdict[str, int] = defaultdict(int)
    for question in questions:
        if not (question.person or question.is_refused):
            continue
        for subject in list_subjects(question.request):
            key = digest(subject.match)
            if question.is_refused:
                refused_keys[key] += 1
            else:
                groups.setdefault(key, (subject.match, []))[1].append(question)
    able = [group for key, group in groups.items() if len(group[1]) >= LEAST and not refused_keys[key]]
    return sorted(able, key=lambda group: -len(group[1]))[:_MAX_CANDIDATES]


def _suggest(
    policy: RuleSet, questions: list[PastQuestion], match: dict[str, Any], calls: list[PastQuestion]
) -> list[AnswerSuggestion]:
    """Return the suggestion for these calls, if its rule keeps to what people approved."""
    newest = calls[0]
    scope = "agent" if len(count_agents(calls)) == 1 and newest.agent else "any"
    expected_match = match | ({"agent": [newest.agent]} if scope == "agent" else {})
    offers = lasting_answers.list_answers(policy, newest.request)
    answer = next((each for each in offers if each.match == expected_match), None)
    if answer is None:
        return []
    try:
        changed_policy = lasting_answers.try_answer(policy, newest.request, answer)
    except InvalidRequest:
        return []
    # Most questions are about other things: the new rule alone is evaluated first, which is much faster.
    rule = RuleSet(rules=changed_policy.rules[-1:])
    answered_questions = [
        each
        for each in questions
        if can_affect(rule, each.request) and decide(changed_policy, each.request).effect is Effect.ALLOW
    ]
    suggestion = AnswerSuggestion(answer, answered_questions, newest)
    is_refused = any(question.is_refused for question in answered_questions)
    return [] if is_refused or suggestion.approved_count < LEAST else [suggestion]


def _has_low_risk(suggestion: AnswerSuggestion) -> bool:
    calls = ToolCall.objects.filter(pk__in=[question.pk for question in suggestion.covered])
    return not any(assess_call_risk(call).level == "high" for call in calls)
