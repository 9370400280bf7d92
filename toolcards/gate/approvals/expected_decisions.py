"""Decisions that requests of this process wait for: the commit of a vote builds them, so that none has to ask again.

A shortcut. Who waits also follows the bell, and then fetches the decision: after a vote in another process, after an
answer by the clock or by policy, and while an approval is held back.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.db import transaction

from toolcards.core.calls.card import Card
from toolcards.gate.agents.liveness import note_request
from toolcards.gate.agents.run_commands import build_decision_on_approval
from toolcards.gate.approvals.permits import note_fetch
from toolcards.gate.writer import approval_rows, group_commit
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Source

_expected: dict[str, list[ExpectedDecision]] = {}  # by approval
_lock = threading.Lock()


class ExpectedDecision:
    """What one request waits for."""

    def __init__(self, source: Source, approval: str) -> None:
        self.source, self.approval = source, approval
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[dict[str, Any]] = self._loop.create_future()

    def deliver(self, decision: dict[str, Any]) -> None:
        """Answer the request, from any thread."""

        def set_result() -> None:
            if not self.future.done():
                self.future.set_result(decision)

        group_commit.call_on_loop(self._loop, set_result)


@contextmanager
def expect_decision(source: Source, approval: str) -> Iterator[asyncio.Future[dict[str, Any]]]:
    """Give a future that a vote sets to the decision object.

    Votes in other processes do not set it.
    """
    expected_decision = ExpectedDecision(source, approval)
    with _lock:
        _expected.setdefault(approval, []).append(expected_decision)
    try:
        yield expected_decision.future
    finally:
        with _lock:
            _expected[approval].remove(expected_decision)
            if not _expected[approval]:
                del _expected[approval]


def answer_requests(tx: Transaction, memory: RunMemory, card: Card, approval: str, *, is_approved: bool) -> None:
    """Answer those who wait for this approval once the transaction is committed.

    Before the bell rings, which would make them fetch the decision.
    """
    with _lock:
        waiting = _expected.get(approval, ())
        requests = [request for request in waiting if request.source.pk == memory.row.source_id]
    if not requests or settings.TOOLCARDS.handover_seconds:  # an approval is held back
        return
    if is_approved:  # as if they fetched it
        note_request(tx, memory)
        note_fetch(tx, memory, card)
    tx.after_write.append(lambda: _build_decisions(memory, approval, requests))


def _build_decisions(memory: RunMemory, approval: str, requests: list[ExpectedDecision]) -> None:
    row = approval_rows.load_approval(approval)
    if row is None or row.state not in ("approved", "denied"):  # the same commit may have ended the call
        return
    decision = build_decision_on_approval(memory, approval_rows.get_card(memory, row), row)
    for request in requests:
        transaction.on_commit(functools.partial(request.deliver, decision), robust=True)
