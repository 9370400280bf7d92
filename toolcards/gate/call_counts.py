"""Counts the calls of a tool within the last seconds or minutes, for the rates of a policy."""

from __future__ import annotations

from datetime import UTC, datetime

from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import RuleSet
from toolcards.core.policy.tool_names import make_tool_key
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.models import ToolCall

LEAST_COUNTED = 500  # calls of a rate's window, so that a draft with another rate can be simulated


def count_recent_calls(policy: RuleSet, memory: RunMemory, card: Card, now: float) -> dict[tuple[str, int], int]:
    """Return the number of earlier calls for each scope and seconds."""
    counts, limit = {}, max(policy.highest_rate + 1, LEAST_COUNTED)  # no rule asks for more
    for scope, seconds in policy.rates:
        window_start = datetime.fromtimestamp(now - seconds, UTC)
        same_tool = ToolCall.objects.filter(tool_key=make_tool_key(card.tool.name), started_at__gte=window_start)
        calls = same_tool.exclude(run_id=memory.row.pk, ordinal=card.ordinal)
        if scope == "run":
            calls = calls.filter(run_id=memory.row.pk)
        elif scope in {"agent", "source"}:
            calls = calls.filter(run__source=memory.row.source_id)
        counts[scope, seconds] = calls[:limit].count()
    return counts
