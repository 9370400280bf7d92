"""What happened to a call, in the words of hooks: `before`, then `after` or `error` or neither, then `settled`.

One call, one attempt: `before` comes once, `settled` closes it once, and what comes between them is told in between.
Where a later frame proves that the call came out otherwise than it was settled, `corrected` says so; nothing is settled
a second time.
Pure: the same two cards always give the same happenings, so that a replay gives the same ids.
"""

from __future__ import annotations

from typing import Any

from toolcards.client.common import error_codes
from toolcards.core.calls.card import TERMINAL, UNKNOWN_OUTCOME_CAUSES, Card, ToolCallState

S = ToolCallState
BEFORE, AFTER, ERROR, SETTLED = (f"tool.execute.{word}" for word in ("before", "after", "error", "settled"))
CORRECTED = "tool.execute.corrected"
ASKED, ESCALATED, ANSWERED = "approval.requested", "approval.escalated", "approval.resolved"
UNGOVERNED, RUN_FAILED = "source.ungoverned", "run.failed"
# Of a source as a whole; the last one says that one of the two before it is over.
FAILS_OPEN, SILENT, FAILING, RECOVERED = (f"source.{word}" for word in ("fails_open", "silent", "failing", "recovered"))
AUDIT_BROKEN = "audit.broken"  # of this server: its audit trail is not whole
TOOL_EVENTS = (BEFORE, AFTER, ERROR, SETTLED)
EVENTS = (
    *TOOL_EVENTS, CORRECTED, ASKED, ESCALATED, ANSWERED, UNGOVERNED, RUN_FAILED, SILENT, FAILING, FAILS_OPEN, RECOVERED,
    AUDIT_BROKEN,
)  # fmt: skip
_RANK = {BEFORE: 0, AFTER: 2, ERROR: 2, RUN_FAILED: 2, CORRECTED: 2, SETTLED: 3} | dict.fromkeys(
    (ASKED, ESCALATED, ANSWERED, UNGOVERNED), 1
)
_PLACES = 4
_BEYOND_CONTROL = {"ungoverned", "ran-without-approval"}
MESSAGE_MOST = 2000


def happenings(before: Card | None, after: Card) -> list[str]:
    """Return what happened between the two, in order."""
    told = [] if before is None else _asked(before, after)
    was_begun = before is not None and before.begun
    was_over = before is not None and (before.finished or before.removed)
    if after.removed:
        return [*told, SETTLED] if was_begun and not was_over else told
    if not after.begun:
        return told
    if before is not None and was_begun and was_over and after.finished:
        other = before.soft is not after.soft or (not after.soft and outcome_of(before) != outcome_of(after))
        return [*told, CORRECTED] if other or before.by_hand is not after.by_hand else told
    if not was_begun or (was_over and not after.finished):
        told = [BEFORE, *told]
    if after.finished:
        told += _ending(before, after)
    return told


def matters(before: Card | None, after: Card) -> bool:
    """Return whether anything can have happened between the two; cheap, for the hot path."""
    return (
        before is None
        or before.state is not after.state
        or before.soft != after.soft
        or before.removed != after.removed
        or before.preliminary != after.preliminary
        or before.anomalies is not after.anomalies
        or before.by_hand is not after.by_hand
        or newly_asked(before, after) != []
    )


def attempt_of(card: Card) -> int:
    """Return the attempt that hooks count: retries, later calls of the same id, and runs that came back."""
    return max(card.attempt, card.occurrence) + card.revived


def seq_of(position: int, event: str) -> int:
    """Return a number that grows with every happening of a run, from its place in the log."""
    return position * _PLACES + _RANK[event]


def id_of(subject: str, event: str, position: int) -> str:
    """Return the happening's id: the same whenever it is told. `subject`: the call and its attempt, or the run."""
    word = event.rpartition(".")[2]
    return f"evt_{subject}-{word}" if event in TOOL_EVENTS else f"evt_{subject}-{word}-{position}"


def outcome_of(card: Card, before: Card | None = None) -> str:
    """Return how the call was settled: ok, error, denied, aborted or unknown."""
    if card.removed or card.state not in TERMINAL:
        return "aborted"
    if card.state is S.OUTPUT_AVAILABLE:
        return "ok"
    if card.state is S.OUTPUT_DENIED:
        return "denied"
    if not card.soft or card.by_hand is not None:
        return "error"
    return "unknown" if card.cause in UNKNOWN_OUTCOME_CAUSES and not _waited(card, before) else "aborted"


def error_of(card: Card, before: Card | None = None) -> dict[str, Any] | None:
    """Return the error part of a payload; None where there was none, or only an interruption."""
    outcome, after_ms = outcome_of(card, before), None
    if outcome == "denied":
        by = card.denied_by
        decided = card.decision.code if card.decision and card.decision.effect == "deny" else ""
        code = decided if decided in error_codes.TABLE else error_codes.of_denial(by.kind if by else "")
        told, message = error_codes.stated(code), card.denied
    elif outcome == "unknown":
        told, message = error_codes.stated("lost"), card.error.message if card.error else ""
    elif outcome == "error" and card.error is not None:
        said = card.error
        told = error_codes.stated(said.code, authority=said.authority, retryable=said.retryable, phase=said.phase)
        message, after_ms = said.message, said.after_ms
    else:
        return None
    return {
        "error": {
            "code": told.code, "message": message[:MESSAGE_MOST], "title": error_codes.title(told.code),
            "fingerprint": error_codes.fingerprint(card.tool.name, told.code, told.phase),
        },
        "retryable": told.retryable, "authority": told.authority, "phase": told.phase,
        "retry": {"safe": _safe(told.code, told.retryable), "after_ms": after_ms}, "side_effects": _effects(told.code),
    }  # fmt: skip


def _ending(before: Card | None, after: Card) -> list[str]:
    if outcome_of(after, before) == "ok":
        return [AFTER, SETTLED]
    return [ERROR, SETTLED] if error_of(after, before) is not None else [SETTLED]


def _asked(before: Card, after: Card) -> list[str]:
    told = []
    if before.anomalies is not after.anomalies:
        new = {code for code, _ in after.anomalies} - {code for code, _ in before.anomalies}
        told += [UNGOVERNED] if new & _BEYOND_CONTROL else []
    if before.waiting != after.waiting:
        told.append(ASKED if after.waiting else ANSWERED)
    elif newly_asked(before, after):
        told.append(ESCALATED)
    return told


def newly_asked(before: Card | None, after: Card) -> list[str]:
    """Return who was asked too between the two, since nobody had answered."""
    was, now = before.approval if before else None, after.approval
    if was is now or was is None or now is None or was.id != now.id:
        return []
    return [to for to, _ in now.escalated[len(was.escalated) :]]


def _waited(card: Card, before: Card | None) -> bool:
    """It was waiting for an answer when its run ended: it cannot have run."""
    if before is not None:
        return before.waiting
    return bool(card.times.requested) and not card.times.decided


def _safe(code: str, retryable: bool | None) -> str:
    row = error_codes.TABLE.get(code)
    if row is not None and row.effects == "none":
        return "yes"
    return "yes" if retryable else "unknown"


def _effects(code: str) -> str:
    return error_codes.TABLE[code].effects if code in error_codes.TABLE else "possible"
