"""The questions that people were asked recently: each with its call, its answer, and the person who gave it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace

from dashboard.policy.simulation.past_calls import Span, iterate_past_calls
from toolcards.core.policy.decision import Effect, PolicyRequest, RuleSet, decide
from toolcards.models import Approval, ToolCall, Vote

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
