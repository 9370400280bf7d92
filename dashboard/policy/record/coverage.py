"""How many of the latest calls of a source each lasting answer to a question covers."""

from __future__ import annotations

from django.db.models import Max

from dashboard.policy.simulation.past_calls import Span, iterate_past_calls
from toolcards.core.policy.decision import Effect, PolicyRequest, decide
from toolcards.core.policy.language.document import parse
from toolcards.core.policy.lasting.answers import LastingAnswer, list_candidates
from toolcards.models import ToolCall

LOOKED_AT = Span(calls=300, days=30)
_NEWEST_ROWS = 5_000  # rows of the table in which the calls of the source are looked for


def describe_coverage(call: ToolCall) -> dict[str, str]:
    """Return how many past calls each lasting answer covers, in words."""
    question = next(
        (each.question for each in iterate_past_calls(LOOKED_AT, ToolCall.objects.filter(pk=call.pk))), None
    )
    if question is None:
        return {}
    newest = ToolCall.objects.aggregate(newest=Max("id"))["newest"] or 0
    rows = ToolCall.objects.not_removed().filter(run__source=call.run.source_id, id__gt=newest - _NEWEST_ROWS)
    past_calls = iterate_past_calls(LOOKED_AT, rows.exclude(pk=call.pk))
    requests = [each.question for each in past_calls if each.question is not None]
    return {answer.value: _describe_count(answer, requests) for answer in list_candidates(question)}


def _describe_count(answer: LastingAnswer, requests: list[PolicyRequest]) -> str:
    policy = parse({"default": "ask", "rules": [answer.build_rule(Effect.ALLOW)]})
    count = sum(1 for request in requests if decide(policy, request).effect is Effect.ALLOW)
    return f"{count:,} of {len(requests):,} past calls"
