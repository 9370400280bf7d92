"""Agent HTTP commands: fetch or find a decision, withdraw an approval, heartbeat, end a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, ToolCallState
from toolcards.core.calls.facts.outcome_facts import WITHDRAWN_REASON
from toolcards.core.runs.run_end import ends_card
from toolcards.gate.agents.liveness import BEAT_LEASE, note_poll, note_request, resume_run, void_permits
from toolcards.gate.approvals.expiry import EXPIRED_REASON, expire_if_overdue
from toolcards.gate.approvals.permits import build_decision_with_permit, is_kept, note_fetch
from toolcards.gate.decisions.responses import build_decision, format_time, get_approval_effect
from toolcards.gate.refusals import NotFound, TooLate
from toolcards.gate.writer import approval_rows
from toolcards.gate.writer.bulk_sql import fit_text
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.command import RunCommand
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Run, Source

# The end of a stream: which calls it closes if the protocol does not end the run itself.
END_OF_STREAM = "\x00end-of-stream"


def build_end_of_stream() -> f.RunEnded:
    """Return the fact to push after the last frame of a body."""
    return f.RunEnded(reason=END_OF_STREAM)


def is_end_of_stream(content: Any) -> bool:
    """Return whether the frame is the end of a body."""
    return isinstance(content, list) and any(getattr(fact, "reason", "") == END_OF_STREAM for fact in content)


def find_run_end(memory: RunMemory) -> f.RunEnded | None:
    """Return the end of a run whose body is complete.

    None if the protocol has ended it.
    """
    context = memory.board.context
    if context.ended or not memory.seq:
        return None
    if context.error:
        return f.RunEnded(outcome="error", reason=context.error)
    return f.RunEnded(outcome="truncated", reason="The stream ended without a final status.")


def close_own_calls(
    tx: Transaction,
    memory: RunMemory,
    run_end: f.RunEnded,
    moment: float,
    *,
    touched_calls: set[int],
    gates: bool,
    is_shared: bool,
) -> bool:
    """Close only the stream's own calls if another part continues; return whether.

    Other parts are calls decided elsewhere, because an agent that polls is alive, and calls of another stream, which
    may still be open; if it is not, the run's lease expires. `touched_calls`: ordinals of the calls in the stream's
    frames; `gates`: the stream asks for decisions; `is_shared`: another connection of this process sends the same run.
    """
    open_cards = [card for card in memory.board.list_open_cards() if not card.soft]
    decided_ordinals = {card.ordinal for card in open_cards if card.decision}
    other_calls = {ordinal for ordinal in decided_ordinals if not gates or ordinal not in touched_calls}
    unanswered_cards = [card for card in open_cards if not (card.unanswered or card.awaiting_client)]
    streaming = {card.ordinal for card in unanswered_cards if ends_card(card, run_end, memory.board.context)}
    if not (is_shared or other_calls or streaming - touched_calls):
        return False
    for card in open_cards:
        if card.ordinal in touched_calls and card.ordinal not in other_calls:
            tx.record(memory, f.CallClosed(card.call_id, run_end.outcome, reason=run_end.reason, at=moment), card)
    return True


_DECIDED_STATES = (ToolCallState.APPROVAL_REQUESTED, ToolCallState.APPROVAL_RESPONDED, ToolCallState.OUTPUT_DENIED)


class FetchDecision(RunCommand):
    """Fetch the current decision about an approval. A polling agent is alive."""

    def __init__(self, source: Source, approval: str) -> None:
        super().__init__(source, "")
        self.approval = approval

    def run_keys(self) -> Iterable[tuple[int, str]]:
        """See group_commit.Work."""
        return ()

    def list_approvals(self) -> Iterable[str]:
        """See group_commit.Work."""
        return [self.approval]

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = self._load_approval(self.approval)
        if not row.asked:
            raise NotFound("Approval not found.")
        memory = tx.load_run(row.run_id)
        if not expire_if_overdue(tx, memory, row) and row.state in ("pending", "approved"):
            (note_poll if row.state == "pending" else note_request)(tx, memory)
        card = approval_rows.get_card(memory, row)
        if card.approval is not None and card.approval.id == row.id:
            note_fetch(tx, memory, card)
        self.answer = build_decision_on_approval(memory, memory.board.cards[card.ordinal], row)


def build_decision_on_approval(memory: RunMemory, card: Card, row: Approval) -> dict[str, Any]:
    """Return the decision object for an agent that asks about this approval."""
    decision = build_decision_with_permit(memory, card, newest=_get_newest(card, row))
    if card.approval is None or card.approval.id != row.id:  # superseded by an approval that policy opened later
        decide_by = format_time(row.expires_at)
        approval = {"id": row.id, "state": row.state, "need": 1, "have": 0, "decide_by": decide_by}
        decision |= {"decision": "deny", "permit": None, "approval": approval, "args_sha256": row.args_sha256}
        decision["reason"] = {"code": "superseded", "text": "A newer question replaced this one.", "suggest": ""}
    if row.opener == "agent" and not is_kept(row, card):
        decision["decision"] = get_approval_effect(card)
    return decision


def _get_newest(card: Card, row: Approval) -> Approval | None:
    """Return the row if it is the newest of its call, None if that has to be read."""
    return row if card.approval is not None and card.approval.id == row.id else None


class FindDecision(RunCommand):
    """Find the newest call with that tool and input. The answer is its decision.

    None if it was neither asked about nor denied, or its approval is not handed over yet.
    """

    def __init__(self, source: Source, run: str, tool: str, tool_input: Any, question: str = "") -> None:
        super().__init__(source, run)
        self.tool, self.tool_input, self.question = tool, tool_input, question

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        memory = self._run(tx)
        card = memory.board.find_asked_card(self.tool, self.tool_input, self.question)
        if card is not None and card.state in _DECIDED_STATES and not card.awaits_delivery:
            self.answer = build_decision_with_permit(memory, card)


class WithdrawApproval(RunCommand):
    """Withdraw an approval on behalf of the agent."""

    def __init__(self, source: Source, approval: str, *, timed_out: bool = False) -> None:
        super().__init__(source, "")
        self.approval, self.timed_out = approval, timed_out

    def run_keys(self) -> Iterable[tuple[int, str]]:
        """See group_commit.Work."""
        return ()

    def list_approvals(self) -> Iterable[str]:
        """See group_commit.Work."""
        return [self.approval]

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = self._load_approval(self.approval)
        memory = tx.load_run(row.run_id)
        card = approval_rows.get_card(memory, row)
        if row.state not in ("pending", "approved"):
            if row.state == "cancelled":
                self.answer = build_decision(memory, card)
                return
            raise TooLate(f"This approval is {row.state}.", code="used" if row.claimed_at else "expired")
        end: f.AnyFact = f.CallClosed(card.call_id, "cancelled", reason=WITHDRAWN_REASON, at=tx.now)
        if self.timed_out and row.state == "pending":  # the agent's own time limit: the same as its frame
            end = f.OutputDenied(card.call_id, EXPIRED_REASON, at=tx.now)
        if card.approval and card.approval.id == row.id:
            tx.record(memory, end, card)
        approval_rows.update_approval(row.id, state="cancelled")
        self.answer = build_decision(memory, memory.board.cards[card.ordinal])


class AnnounceRetry(RunCommand):
    """Find a call that a person let try again, which its agent does not know yet. The answer is its card, or None.

    It is announced once. `lane`: the sub-agent that asks.
    """

    def __init__(self, source: Source, run: str, lane: str) -> None:
        super().__init__(source, run)
        self.lane = lane

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row = Run.objects.filter(source=self.source, name=self.run).only("pk").first()
        cards = tx.load_run(row.pk).board.cards.values() if row is not None else ()
        self.answer = next((card for card in cards if card.retry == "granted" and card.lane == self.lane), None)
        if self.answer is not None and row is not None:
            fact = f.RetryChanged(self.answer.call_id, "announced", self.answer.retry_by, tx.now)
            tx.record(tx.load_run(row.pk), fact, self.answer)


class RecordHeartbeat(RunCommand):
    """Record that the agent is alive. After its first heartbeat, it must continue to send them."""

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        memory = self._run(tx)
        resume_run(tx, memory)
        if not memory.row.beats:
            Run.objects.filter(pk=memory.row.pk).update(beats=True)
            memory.row.beats = True
        memory.row.alive_until, memory.touched = tx.working + BEAT_LEASE, True
        self.answer = {"run": memory.row.name, "status": memory.status, "lease_seconds": BEAT_LEASE}


class EndRun(RunCommand):
    """End the run, close its open calls and withdraw its open approvals."""

    OUTCOMES: dict[str, f.Outcome] = {
        "success": "ok", "ok": "ok", "aborted": "aborted", "error": "error", "truncated": "truncated",
    }  # fmt: skip

    def __init__(self, source: Source, run: str, outcome: str, reason: str) -> None:
        super().__init__(source, run)
        self.outcome, self.reason = self.OUTCOMES[outcome], reason

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        memory = self._run(tx)
        if not memory.board.context.ended:
            tx.record(memory, f.RunEnded(outcome=self.outcome, reason=self.reason, at=tx.now))
            memory.row.reason = fit_text(self.reason, 2000)
            void_permits(tx, memory)
        tx.after_write.append(lambda: self._answer(memory))

    def _answer(self, memory: RunMemory) -> None:
        self.answer = {"run": memory.row.name, "status": memory.status, "seq": memory.seq}
