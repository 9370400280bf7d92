"""The gate: the only writer of runs, events, calls and approvals.

Import from this package only. Three of its modules are public as well: `policy_store` (policy versions), `policy_draft`
(the draft) and `emergency` (the state of the kill switch and break-glass).

Functions with the prefix `a` are for the event loop, the others block their thread. A request that the gate refuses
raises `RequestRefused` (refusals.py).

- Frames of agents: `open_stream`, `open_keyed_stream`, `build_end_of_stream`, and the keys of keyed bodies
  (`areserve_key`, `arenew_key`, `astore_answer`, `arelease_key`).
- Calls that agents ask to run: `decide`, `adecide`, `aget_decision`, `expect_decision`, `afind_decision`,
  `aannounce_retry`, `aclaim_permit`, `arecord_result`, `awithdraw_approval`, `arecord_heartbeat`, `aend_run`.
- Delivery of decisions: `aclaim_delivery`, `aconfirm_delivery`, `arelease_delivery`, `aexpire_approval`,
  `arenew_holds`.
- People: `vote`, `avote`, `revoke_approval`, `record_manual_outcome`, `set_kill_switch`, `break_glass`, `revoke_grant`,
  `accept_tool`, `reevaluate_waiting`.
- Reviewers: `record_review`, `record_stalled_reviews`.
- Policy: `activate`, `load_draft`, `replace_draft`, `get_active_version_number`.
- Periodic jobs and maintenance: `sweep`, `run_retention`, `rebuild`, `reseal`, `update_search_index`,
  `arecord_pulse`, `drain`, `drop_idle_runs`, `forget_committed_cards`.
- Reads: `can_undo`, `count_backlog`, `count_received_frames`, `find_committed_card`, `get_oldest_wait`,
  `is_anything_pending`, `is_tool_announced`, `iterate_steps`, `list_identities`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolcards.core.calls.card import Card
from toolcards.gate import emergency, timekeeping
from toolcards.gate.agent_requests import (
    aannounce_retry,
    aclaim_delivery,
    aclaim_permit,
    aconfirm_delivery,
    adecide,
    aend_run,
    aexpire_approval,
    afind_decision,
    aget_decision,
    arecord_heartbeat,
    arecord_result,
    arelease_delivery,
    arelease_hold,
    arelease_key,
    arenew_holds,
    arenew_key,
    areserve_key,
    astore_answer,
    awithdraw_approval,
    decide,
)
from toolcards.gate.agents.idempotency import BodyDigest, HeldKey, StoredAnswer
from toolcards.gate.agents.ingest import Stream
from toolcards.gate.agents.keyed_stream import KeyedStream
from toolcards.gate.agents.liveness import REQUEST_LEASE
from toolcards.gate.agents.run_commands import build_end_of_stream
from toolcards.gate.agents.stream_queue import CommitReport
from toolcards.gate.approvals import delivery, expiry, manual_outcome, reevaluation, revocation, votes
from toolcards.gate.approvals.delivery import VotedCall, Voter
from toolcards.gate.approvals.expected_decisions import expect_decision
from toolcards.gate.approvals.manual_outcome import ManualOutcome, RefusalAnswer
from toolcards.gate.approvals.revocation import Revocation, can_undo
from toolcards.gate.approvals.votes import Ballot
from toolcards.gate.call_trace import TraceStep, iterate_steps
from toolcards.gate.decisions.decision_request import DecisionRequest
from toolcards.gate.decisions.eligibility import list_identities, list_voters
from toolcards.gate.decisions.grants import revoke_grant, revoke_grants_of
from toolcards.gate.decisions.tool_register import accept_tool, is_tool_announced
from toolcards.gate.maintenance import rebuild as rebuilding
from toolcards.gate.maintenance import retention
from toolcards.gate.maintenance.rekey import BATCH as RESEAL_BATCH
from toolcards.gate.maintenance.rekey import reseal
from toolcards.gate.maintenance.search_index import update_search_index
from toolcards.gate.policy_draft import load_draft, replace_draft
from toolcards.gate.policy_store import VersionConflict, activate, get_active_version_number
from toolcards.gate.questions import review_answers
from toolcards.gate.questions.reviews import ReviewOutcome
from toolcards.gate.refusals import (
    AlreadyDecided,
    CallChanged,
    InvalidRequest,
    KeyReuse,
    NotAllowed,
    NotFound,
    RequestRefused,
    TooLate,
)
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.attempt import CommitUnknown
from toolcards.gate.writer.cache import committed_cards, run_cache
from toolcards.gate.writer.cache.committed_cards import CardVersion, find_committed_card

sweep = expiry.sweep
is_anything_pending = expiry.is_anything_pending
run_retention = retention.run_retention
count_due_runs = retention.count_due_runs
open_stream = Stream
open_keyed_stream = KeyedStream
drain = group_commit.WRITER.drain
drop_idle_runs = run_cache.drop_idle
forget_committed_cards = committed_cards.clear


def count_backlog() -> int:
    """Return how many frames this process has accepted and not committed yet."""
    return group_commit.WRITER.backlog


def count_received_frames() -> int:
    """Return how many frames this process has received from agents."""
    return group_commit.WRITER.frames_received


def get_oldest_wait() -> float:
    """Return how many seconds the oldest work has waited, 0 for none."""
    return group_commit.WRITER.oldest_wait


async def arecord_pulse() -> float | None:
    """Write the pulse; return the time of the previous one, if any."""
    previous: float | None = await group_commit.submit(timekeeping.AdvancePulse())
    return previous


def vote(person: Any, ballot: Ballot, is_signed_in: Callable[[], bool] = lambda: True) -> Card:
    """Cast a vote; return the call's updated card.

    `is_signed_in` is called in the transaction: whether the session that sends the vote has not ended meanwhile. The
    rule of a lasting answer also answers the waiting calls that it covers.
    """
    card: Card = group_commit.execute_in_group(votes.CastVote(person, ballot, is_signed_in))
    if ballot.always and card.approval and card.approval.lasting_rule:
        group_commit.execute(reevaluation.ReevaluateWaiting(person.get_username(), card.approval.lasting_rule))
    return card


async def avote(session: str, find_voter: Callable[[], Voter | None], ballot: Ballot) -> VotedCall:
    """Cast the vote of this session, whose person `find_voter` returns.

    It is called in the transaction, once for all votes of the session in one commit. None is refused.
    """
    voted_call: VotedCall = await group_commit.submit(delivery.CastSessionVote(session, find_voter, ballot))
    return voted_call


def revoke_approval(person: Any, approval: str) -> Revocation:
    """Revoke an undelivered approval; return the card and what went with it."""
    answer: Revocation = group_commit.execute(revocation.RevokeApproval(person, approval))
    return answer


def record_manual_outcome(person: Any, outcome: ManualOutcome) -> Card:
    """Record the outcome of a lost call; return the updated card."""
    card: Card = group_commit.execute(manual_outcome.RecordManualOutcome(person, outcome))
    return card


def record_review(outcome: ReviewOutcome) -> bool:
    """Record what became of a review; return whether it answered the question."""
    return bool(group_commit.execute_in_group(review_answers.RecordReview(outcome)))


def record_stalled_reviews(before: float) -> None:
    """Record that reviews have stalled, so people answer.

    `before`: epoch seconds; reviews that began earlier and did not end have stalled.
    """
    for outcome in review_answers.list_stalled(before):
        record_review(outcome)


def answer_refusal(person: Any, answer: RefusalAnswer) -> Card:
    """Let a refused call try again once, or dismiss it."""
    card: Card = group_commit.execute(manual_outcome.AnswerRefusal(person, answer))
    return card


def set_kill_switch(actor: str, on: bool, reason: str = "", kind: str = "human") -> dict[str, Any]:
    """Turn the kill switch on or off."""
    return emergency.set_kill_switch(actor, on, reason, kind)


def break_glass(actor: str, reason: str, minutes: float, kind: str = "human") -> dict[str, Any]:
    """Start break-glass for a number of minutes; 0 ends it."""
    return dict(group_commit.execute(emergency.SetBreakGlass(actor, reason, minutes, kind)))


def reevaluate_waiting(actor: str) -> dict[str, int]:
    """Apply the active policy to the waiting calls.

    Return the number of calls `allowed`, `denied`, `asked_anew` and `left` as they were.
    """
    return dict(group_commit.execute(reevaluation.ReevaluateWaiting(actor)))


def rebuild(check: bool = False) -> list[str]:
    """Rebuild (or check) the cards from the log; return the differences."""
    return rebuilding.rebuild(check=check)


__all__ = [
    "REQUEST_LEASE",
    "RESEAL_BATCH",
    "AlreadyDecided",
    "Ballot",
    "BodyDigest",
    "CallChanged",
    "CardVersion",
    "CommitReport",
    "CommitUnknown",
    "DecisionRequest",
    "HeldKey",
    "InvalidRequest",
    "KeyReuse",
    "KeyedStream",
    "ManualOutcome",
    "NotAllowed",
    "NotFound",
    "RefusalAnswer",
    "RequestRefused",
    "ReviewOutcome",
    "Revocation",
    "StoredAnswer",
    "Stream",
    "TooLate",
    "TraceStep",
    "VersionConflict",
    "VotedCall",
    "Voter",
    "aannounce_retry",
    "accept_tool",
    "aclaim_delivery",
    "aclaim_permit",
    "aconfirm_delivery",
    "activate",
    "adecide",
    "aend_run",
    "aexpire_approval",
    "afind_decision",
    "aget_decision",
    "answer_refusal",
    "arecord_heartbeat",
    "arecord_pulse",
    "arecord_result",
    "arelease_delivery",
    "arelease_hold",
    "arelease_key",
    "arenew_holds",
    "arenew_key",
    "areserve_key",
    "astore_answer",
    "avote",
    "awithdraw_approval",
    "break_glass",
    "build_end_of_stream",
    "can_undo",
    "count_backlog",
    "count_received_frames",
    "decide",
    "drain",
    "drop_idle_runs",
    "expect_decision",
    "find_committed_card",
    "forget_committed_cards",
    "get_active_version_number",
    "get_oldest_wait",
    "is_anything_pending",
    "is_tool_announced",
    "iterate_steps",
    "list_identities",
    "list_voters",
    "load_draft",
    "open_keyed_stream",
    "open_stream",
    "rebuild",
    "record_manual_outcome",
    "record_review",
    "record_stalled_reviews",
    "reevaluate_waiting",
    "replace_draft",
    "reseal",
    "revoke_approval",
    "revoke_grant",
    "revoke_grants_of",
    "run_retention",
    "set_kill_switch",
    "sweep",
    "update_search_index",
    "vote",
]  # fmt: skip
