"""Events of tool calls for hooks and webhooks, in order.

Each attempt of a call has one `before`, then at most one of `after` and `error`, then one `settled`; approval events
can occur in between. If a later frame shows that a settled call had a different outcome, `corrected` reports it. The
functions are pure: the same two cards always give the same events, so a replay gives the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolcards.client.common import error_codes
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import TERMINAL, UNKNOWN_OUTCOME_CAUSES, Card, ToolCallState

S = ToolCallState
EXECUTE_BEFORE, EXECUTE_AFTER, EXECUTE_ERROR, EXECUTE_SETTLED = (
    f"tool.execute.{word}" for word in ("before", "after", "error", "settled")
)
EXECUTE_CORRECTED = "tool.execute.corrected"
APPROVAL_REQUESTED, APPROVAL_ESCALATED, APPROVAL_RESOLVED = (
    "approval.requested",
    "approval.escalated",
    "approval.resolved",
)
UNGOVERNED, RUN_FAILED = "source.ungoverned", "run.failed"
# Events of a source; RECOVERED reports the end of FAILS_OPEN, SILENT or FAILING.
FAILS_OPEN, SILENT, FAILING, RECOVERED = (f"source.{word}" for word in ("fails_open", "silent", "failing", "recovered"))
AUDIT_BROKEN = "audit.broken"  # event of the server: its audit trail is damaged
TOOL_EVENTS = (EXECUTE_BEFORE, EXECUTE_AFTER, EXECUTE_ERROR, EXECUTE_SETTLED)
EVENTS = (
    *TOOL_EVENTS, EXECUTE_CORRECTED, APPROVAL_REQUESTED, APPROVAL_ESCALATED, APPROVAL_RESOLVED, UNGOVERNED, RUN_FAILED,
    SILENT, FAILING, FAILS_OPEN, RECOVERED, AUDIT_BROKEN,
)  # fmt: skip
_RANK = {
    EXECUTE_BEFORE: 0,
    EXECUTE_AFTER: 2,
    EXECUTE_ERROR: 2,
    RUN_FAILED: 2,
    EXECUTE_CORRECTED: 2,
    EXECUTE_SETTLED: 3,
} | dict.fromkeys((APPROVAL_REQUESTED, APPROVAL_ESCALATED, APPROVAL_RESOLVED, UNGOVERNED), 1)
_EVENTS_PER_FACT = 4
_UNGOVERNED_ANOMALIES = {"ungoverned", "ran-without-approval"}
MAX_MESSAGE_LENGTH = 2000  # characters of an error message in an event
END_EVENTS = (EXECUTE_AFTER, EXECUTE_SETTLED)
TAIL_LENGTH = 3  # facts at the end of a log that `ToolEventSequencer.from_log` reads
_OWN_ANOMALY = "ungoverned"


@dataclass(frozen=True, slots=True)
class PendingEnd:
    """A call whose end events are held back: its card at the end, and its log position."""

    ordinal: int
    card: Card
    position: int


@dataclass(frozen=True, slots=True)
class LoggedFact:
    """One fact of a run's log, with its position."""

    ordinal: int
    seq: int
    fact: f.AnyFact
    applied: bool


class ToolEventSequencer:
    """Orders the events of one run, and holds back the end of a call that the next fact may correct.

    Pydantic AI over AG-UI reports in the next frame that a result was an error. So when a result has a message of its
    own, `after` and `settled` wait for the run's next fact. The log alone restores this state (`from_log`).
    """

    def __init__(self, pending: PendingEnd | None = None) -> None:
        self.pending = pending

    @classmethod
    def from_log(cls, cards: Mapping[int, Card], tail: Iterable[LoggedFact]) -> ToolEventSequencer:
        """Return a run's sequencer; `tail`: the last `TAIL_LENGTH` facts, newest first."""
        amended_ordinals = set()  # ordinals of the cards that later facts amend
        for entry in tail:
            if _amends_result(entry.fact):
                amended_ordinals.add(entry.ordinal)
                continue
            card = cards.get(entry.ordinal)
            is_result = entry.applied and isinstance(entry.fact, f.OutputReady) and amended_ordinals <= {entry.ordinal}
            if is_result and card is not None and _may_be_amended(card):
                return cls(PendingEnd(card.ordinal, card, entry.seq))
            break
        return cls()

    def release(self, ordinal: int, fact: f.AnyFact) -> PendingEnd | None:
        """Return the end to send before the events of this fact."""
        pending = self.pending
        if pending is None or (pending.ordinal == ordinal and _amends_result(fact)):
            return None
        self.pending = None
        return pending

    def list_events(self, ordinal: int, before: Card | None, after: Card, fact: f.AnyFact, position: int) -> list[str]:
        """Return the events that the fact causes, in order."""
        pending = self.pending
        is_report = isinstance(fact, f.OutcomeReported) and before is not None
        if pending is not None and pending.ordinal == ordinal and is_report and before is not None:
            self.pending = None
            return list_tool_events(before.replace(state=S.INPUT_AVAILABLE), after)
        events = list_tool_events(before, after)
        if EXECUTE_SETTLED in events and _may_be_amended(after):
            self.pending = PendingEnd(ordinal, after, position)
            events = [event for event in events if event not in END_EVENTS]
        return events


def list_tool_events(before: Card | None, after: Card) -> list[str]:
    """Return the events between two cards of a call, in order."""
    events = [] if before is None else _list_approval_events(before, after)
    was_begun = before is not None and before.begun
    was_over = before is not None and (before.finished or before.removed)
    if after.removed:
        return [*events, EXECUTE_SETTLED] if was_begun and not was_over else events
    if not after.begun:
        return events
    if before is not None and was_begun and was_over and after.finished:
        is_other = before.soft is not after.soft or (not after.soft and get_outcome(before) != get_outcome(after))
        return [*events, EXECUTE_CORRECTED] if is_other or before.by_hand is not after.by_hand else events
    if not was_begun or (was_over and not after.finished):
        events = [EXECUTE_BEFORE, *events]
    if after.finished:
        events += _list_end_events(before, after)
    return events


def may_have_events(before: Card | None, after: Card) -> bool:
    """Return whether two cards may have events between them (cheap)."""
    return (
        before is None
        or before.state is not after.state
        or before.soft != after.soft
        or before.removed != after.removed
        or before.preliminary != after.preliminary
        or before.anomalies is not after.anomalies
        or before.by_hand is not after.by_hand
        or (
            before.approval is not after.approval
            and (before.waiting != after.waiting or list_escalated(before, after) != [])
        )
    )


def get_attempt(card: Card) -> int:
    """Return the attempt: counts retries, reused call ids and revived calls."""
    return max(card.attempt, card.occurrence) + card.revived


def compute_event_seq(position: int, event: str) -> int:
    """Return a number that grows with each event of a run."""
    return position * _EVENTS_PER_FACT + _RANK[event]


def build_event_id(subject: str, event: str, position: int) -> str:
    """Return the stable event id; `subject`: call and attempt, or run."""
    word = event.rpartition(".")[2]
    return f"evt_{subject}-{word}" if event in TOOL_EVENTS else f"evt_{subject}-{word}-{position}"


def get_outcome(card: Card, before: Card | None = None) -> str:
    """Return the call's outcome: ok, error, denied, aborted or unknown."""
    if card.removed or card.state not in TERMINAL:
        return "aborted"
    if card.state is S.OUTPUT_AVAILABLE:
        return "ok"
    if card.state is S.OUTPUT_DENIED:
        return "denied"
    if not card.soft or card.by_hand is not None:
        return "error"
    return "unknown" if card.cause in UNKNOWN_OUTCOME_CAUSES and not _was_waiting(card, before) else "aborted"


def build_error(card: Card, before: Card | None = None) -> dict[str, Any] | None:
    """Return the error part of a payload; None without an error."""
    outcome, after_ms, title = get_outcome(card, before), None, ""
    if outcome == "denied":
        by_kind = card.denied_by.kind if card.denied_by else ""
        code = card.decision.code if card.decision and card.decision.effect == "deny" else ""
        code = code if code in error_codes.TABLE else error_codes.get_denial_code(by_kind)
        title = error_codes.get_denial_title(code, by_kind)
        fault, message = error_codes.complete_failure(code), card.denied
    elif outcome == "unknown":
        fault, message = error_codes.complete_failure("lost"), card.error.message if card.error else ""
    elif outcome == "error" and card.error is not None:
        error = card.error
        fault = error_codes.complete_failure(
            error.code, authority=error.authority, retryable=error.retryable, phase=error.phase
        )
        message, after_ms = error.message, error.after_ms
    else:
        return None
    return {
        "error": {
            "code": fault.code, "message": message[:MAX_MESSAGE_LENGTH],
            "title": title or error_codes.get_title(fault.code),
            "fingerprint": error_codes.make_fingerprint(card.tool.name, fault.code, fault.phase),
        },
        "retryable": fault.retryable, "authority": fault.authority, "phase": fault.phase,
        "retry": {"safe": _rate_retry(fault.code, fault.retryable), "after_ms": after_ms},
        "side_effects": _get_side_effects(fault.code),
    }  # fmt: skip


def _list_end_events(before: Card | None, after: Card) -> list[str]:
    if get_outcome(after, before) == "ok":
        return [EXECUTE_AFTER, EXECUTE_SETTLED]
    return [EXECUTE_ERROR, EXECUTE_SETTLED] if build_error(after, before) is not None else [EXECUTE_SETTLED]


def _list_approval_events(before: Card, after: Card) -> list[str]:
    events = []
    if before.anomalies is not after.anomalies:
        new = {code for code, _ in after.anomalies} - {code for code, _ in before.anomalies}
        events += [UNGOVERNED] if new & _UNGOVERNED_ANOMALIES else []
    if before.waiting != (is_waiting := after.waiting):
        events.append(APPROVAL_REQUESTED if is_waiting else APPROVAL_RESOLVED)
    elif list_escalated(before, after):
        events.append(APPROVAL_ESCALATED)
    return events


def list_escalated(before: Card | None, after: Card) -> list[str]:
    """Return the names that an escalation added between two cards."""
    old, new = before.approval if before else None, after.approval
    if old is new or old is None or new is None or old.id != new.id:
        return []
    return [name for name, _ in new.escalated[len(old.escalated) :]]


def _was_waiting(card: Card, before: Card | None) -> bool:
    """Return whether the call was waiting for approval when its run ended, so that it cannot have run."""
    if before is not None:
        return before.unanswered
    return bool(card.times.requested) and not card.times.decided


def _rate_retry(code: str, retryable: bool | None) -> str:
    row = error_codes.TABLE.get(code)
    if row is not None and row.effects == "none":
        return "yes"
    return "yes" if retryable else "unknown"


def _get_side_effects(code: str) -> str:
    return error_codes.TABLE[code].effects if code in error_codes.TABLE else "possible"


def _amends_result(fact: f.AnyFact) -> bool:
    """Return whether the fact reports a call's real outcome, or is an anomaly that we recorded about it."""
    return isinstance(fact, f.OutcomeReported) or (isinstance(fact, f.AnomalyRecorded) and fact.code == _OWN_ANOMALY)


def _may_be_amended(card: Card) -> bool:
    is_result = card.state is S.OUTPUT_AVAILABLE and card.finished and not card.overruled
    return is_result and bool(card.output_message) and not card.removed
