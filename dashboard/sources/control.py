"""Who decides about the calls of a source, in a sentence: its agent, Toolcards, or both; and how it went yesterday."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from toolcards.core.calls.identity import DAY_SECONDS, WORDS
from toolcards.core.policy.decision import Effect
from toolcards.gate import policy_store
from toolcards.models import SourceDay


def load_yesterday(sources: Iterable[int]) -> dict[int, SourceDay]:
    """Return what was counted on the last whole day (UTC), by source."""
    yesterday = int(time.time() // DAY_SECONDS) - 1
    return {row.source: row for row in SourceDay.objects.filter(source__in=list(sources), day=yesterday)}


OWN_QUESTIONS = frozenset({"claude-code", "opencode", "acp"})  # protocols of agents that ask their own users


def describe_control(gates: str, agents: Sequence[str], protocols: Iterable[str], yesterday: SourceDay | None) -> str:
    """Return the sentence.

    `gates`: whether its calls can be held. `agents`: the names of its agents, if they are known.
    """
    if gates == "not seen yet":
        return ""
    agent = agents[0] if len(agents) == 1 else "the agent"
    parts = [
        _describe_policy(agent, asks=bool(OWN_QUESTIONS & set(protocols)))
        if gates != "observes"
        else f"{agent} decides, Toolcards only watches"
    ]
    if yesterday is not None:
        counts = [f"{count:,} {word}" for word in WORDS if (count := getattr(yesterday, word)) > 0]
        parts += [f"yesterday {', '.join(counts)}"] if counts else []
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]


def _describe_policy(agent: str, *, asks: bool) -> str:
    try:
        policy = policy_store.get_active_policy()
    except (policy_store.NoActivePolicy, policy_store.UnreadablePolicy):
        return "Toolcards denies every call, because no policy is active"
    count = sum(rule.enabled and not rule.monitor for rule in policy.rules)
    rules = f"{count:,} rule{'' if count == 1 else 's'}"
    if policy.default == Effect.ALLOW:
        more = ", Toolcards asks what it asks" if asks and not policy.leaves_questions else ""
        return f"{agent} decides{more}; {rules} on top" if count else f"{agent} decides{more}"
    verb = "asks about" if policy.default == Effect.ASK else "denies"
    return f"Toolcards {verb} every call that no rule allows; {rules}"
