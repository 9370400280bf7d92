"""Limits how many calls of one agent wait for people, so that one agent cannot fill the inbox."""

from __future__ import annotations

from dataclasses import replace

from django.conf import settings
from django.db import connection

from toolcards.core.calls.facts import Actor
from toolcards.core.policy.decision import Effect, PolicyDecision
from toolcards.gate.writer.transaction import Transaction

TOO_MANY_WAITING = "too_many_waiting"
# Counts no further than the limit; the index of `state` finds the few rows.
_COUNT_WAITING = (
    "SELECT COUNT(*) FROM (SELECT 1 FROM toolcards_approval JOIN toolcards_run ON toolcards_run.id = run_id"
    " WHERE state = 'pending' AND asked AND opener = 'gate' AND source_id = %s LIMIT %s) AS waiting"
)


def limit_waiting(tx: Transaction, source: int, decision: PolicyDecision) -> PolicyDecision:
    """Return the decision, a deny instead of an ask beyond the limit.

    `source`: primary key of the agent. Other processes may pass the limit by the calls of commits that have not ended:
    an exact count would hold a lock for each agent that asks, which runs of the agent at several processes wait for.
    """
    if decision.effect != Effect.ASK:
        return decision
    limit = settings.TOOLCARDS.max_waiting
    count = tx.waiting_by_source.get(source)
    if count is None:
        count = _count_waiting(source, limit)
    tx.waiting_by_source[source] = count + 1
    if count < limit:
        return decision
    calls = "1 call" if limit == 1 else f"{limit:,} calls"
    reason = f"Too many pending approvals: only {calls} of this agent can wait at once. Request the call again later."
    return replace(decision, effect=Effect.DENY, code=TOO_MANY_WAITING, reason=reason, by=Actor("gate_error"), ask=None)


def _count_waiting(source: int, limit: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_WAITING, [source, limit])
        return int(cursor.fetchone()[0])
