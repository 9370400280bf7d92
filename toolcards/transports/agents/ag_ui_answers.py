"""The approvals of an AG-UI run: which wait, and which answers its agent has not received yet."""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings

from toolcards import gate
from toolcards.adapters import ADAPTERS, ApprovalAnswer
from toolcards.adapters.ag_ui import input_requests
from toolcards.clocks import clock
from toolcards.core.calls import facts as f
from toolcards.database import retry_reads
from toolcards.doorbell import get_approvals_bell, listen
from toolcards.models import Approval, Source

HEARTBEAT = 2.0  # seconds after which waiting requests read without a ring
APPROVED_STATES = ("approved", "claimed")
DELIVERABLE_STATES = (*APPROVED_STATES, "denied", "expired", "revoked")  # the answers that are delivered to the agent


class PendingAnswers:
    """The approvals of a run that wait, and the answers not yet delivered to its agent."""

    def __init__(self, rows: list[Approval]) -> None:
        ready = [
            row for row in rows if row.state in DELIVERABLE_STATES and (row.by_kind == "host" or not _is_held_back(row))
        ]
        self.waiting = len(rows) - len(ready)
        self.ids = [row.id for row in ready]
        self.answers = [answer for row in ready if (answer := _build_answer(row)) is not None]
        self.form_results = [result for row in ready if (result := _build_form_result(row)) is not None]
        approvals = [row.call.as_card().approval for row in rows]
        replies = [request.reply_to for request in approvals if request]
        self.is_langgraph = bool(replies) and all(_is_of_langgraph(reply_to) for reply_to in replies)
        self.forms = {
            request.source_id: (row.call.as_card().input, request.reply_to) if row.state == "pending" else None
            for row, request in zip(rows, approvals, strict=True)
            if request and input_requests.is_form(request.reply_to)
        }
        batched_requests = [
            request for request in approvals if request and _get_style(request.reply_to) == "langgraph-batch"
        ]
        self.batch = [
            request.source_id
            for request in sorted(batched_requests, key=lambda request: request.reply_to.get("place", 0))
        ]


def _is_held_back(row: Approval) -> bool:
    return clock.is_recent(row.decided_at, settings.TOOLCARDS.handover_seconds)


def _get_style(reply_to: Any) -> str:
    return str(reply_to.get("style", "")) if isinstance(reply_to, dict) else ""


def _is_of_langgraph(reply_to: Any) -> bool:
    is_form = isinstance(reply_to, dict) and reply_to.get("langgraph") is True
    return is_form or _get_style(reply_to).startswith("langgraph")


def _build_form_result(row: Approval) -> f.OutputReady | None:
    """Return the result of an answered question: the value itself, since no tool runs."""
    card = row.call.as_card()
    if row.state not in APPROVED_STATES or card.approval is None or not input_requests.is_form(card.approval.reply_to):
        return None
    return f.OutputReady(card.call_id, output=input_requests.read_payload(card.input, card.approval.reply_to))


def _build_answer(row: Approval) -> ApprovalAnswer | None:
    card = row.call.as_card()
    ask = card.approval
    if ask is None or ask.id != row.id:
        return None
    edited_input = card.input if card.repair == "edited" else None
    return ApprovalAnswer(
        card.call_id, ask.source_id, row.state in APPROVED_STATES, ask.reason, edited_input, ask.reply_to
    )


def _load_pending_answers(run: int) -> PendingAnswers:
    rows = Approval.objects.filter(run=run, opener="agent", channel="poll", delivered_at=None)
    rows = rows.filter(state__in=["pending", *DELIVERABLE_STATES])
    return PendingAnswers(list(rows.select_related("call").order_by("call__ordinal")))


def _load_answers(approvals: list[str]) -> PendingAnswers:
    """Return these answers as they are now: until they were claimed or fetched, a person could undo them."""
    rows = Approval.objects.filter(id__in=approvals).select_related("call").order_by("call__ordinal")
    return PendingAnswers(list(rows))


aload_pending_answers = retry_reads(_load_pending_answers)
aload_answers = retry_reads(_load_answers)


async def await_answers(run: int, seconds: float) -> PendingAnswers:
    """Return the answers of a run once all are there.

    After `seconds`, those that are there.
    """
    deadline = time.monotonic() + seconds
    async with listen(get_approvals_bell(run)) as bell:
        while (pending := await aload_pending_answers(run)).waiting and (remaining := deadline - time.monotonic()) > 0:
            await bell.wait(min(remaining, HEARTBEAT))
    return pending


async def fetch_entries(source: Source, pending: PendingAnswers) -> list[dict[str, Any]]:
    """Return the entries of a `resume`, none while others wait.

    The agent has them from here on: they cannot be undone.
    """
    if pending.waiting:
        return []
    for approval in pending.ids:
        await gate.aget_decision(source, approval)
    return encode_entries((await aload_answers(pending.ids)).answers)


def encode_entries(answers: list[ApprovalAnswer]) -> list[dict[str, Any]]:
    """Return the answers as entries of a `resume`."""
    encode_all = ADAPTERS["ag-ui"].encode_all
    assert encode_all is not None
    entries: list[dict[str, Any]] = encode_all(answers)
    return entries
