"""Apply the end of a call: a result, an error, a denial, a later report, or the end of its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toolcards.client.common import error_codes
from toolcards.client.common.json_text import format_text
from toolcards.client.common.tool_kinds import find_kind
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, CardApproval, CardError, CardManualOutcome, ToolCallState
from toolcards.core.calls.identity import is_frozen, is_retryable
from toolcards.core.calls.reducer.input_handlers import update_identity

S = ToolCallState
NO_RESULT = "no-result"
MAX_JOINED_TEXT = 256 * 1024  # characters; of a longer output, the end is kept until the result arrives
_JSON_BEGINS = ("{", "[")


def set_partial_output(card: Card, fact: f.OutputPartial) -> Card:
    """Set a preliminary output; the tool is still running."""
    output = fact.output
    if fact.more and card.preliminary and isinstance(card.output, str):
        output = (card.output + output)[-MAX_JOINED_TEXT:]
    partial = _end(_flag_ungoverned(card, fact.at), fact.at, S.OUTPUT_AVAILABLE, output=output, has_output=True)
    return partial.replace(preliminary=True, times=partial.times.replace(finished=0.0))


def set_output(card: Card, fact: f.OutputReady) -> Card:
    """Set the result."""
    card = _record_permit_result(_flag_ungoverned(_reopen_question(card, fact), fact.at), "succeeded")
    output = fact.output
    if fact.unchanged:
        output = card.output if card.preliminary else card.shown_blocks or output
    return _end(card, fact.at, S.OUTPUT_AVAILABLE, output=output, has_output=True, output_message=fact.message_id)


def set_error(card: Card, fact: Any) -> Card:
    """Set the error of a failed call or an invalid input."""
    if not isinstance(fact, f.InputInvalid):
        card = _add_output(_reopen_question(card, fact), fact)
        return _fail(card, fact.at, build_error(card, fact.message, fact.code, fact))
    is_unknown_tool = fact.dynamic and not card.dynamic and card.state in (S.INPUT_STREAMING, S.INPUT_AVAILABLE)
    if not is_frozen(card):
        card = update_identity(card, fact)
    if fact.input is not None and not card.has_input:
        card = card.replace(input=fact.input, has_input=True)
    return _fail(card, fact.at, build_error(card, fact.message, "no_such_tool" if is_unknown_tool else fact.code))


def build_error(card: Card, message: str, code: str = "", report: f.OutputFailed | None = None) -> CardError:
    """Return the error with the details of its code or wire."""
    authority, retryable, phase = (report.authority, report.retryable, report.phase) if report else ("", None, "")
    if not code and not card.has_input:
        if card.state is S.INPUT_STREAMING or (card.soft and not card.times.available):
            authority = authority or "unknown"  # the end of the input was not received, but the tool may have had it
        elif str(card.text).lstrip()[:1] in _JSON_BEGINS:
            code = "invalid_input"  # the whole input is not JSON: the tool cannot have run
    fault = error_codes.complete_failure(
        code, authority=authority, retryable=retryable, phase=phase, kind=find_kind(card.tool.name, card.tool.source)
    )
    after_ms = error_codes.limit_wait(report.after_ms) if report else None
    return CardError(message, fault.code, fault.retryable, fault.authority, fault.phase, after_ms)


def deny(card: Card, fact: f.OutputDenied) -> Card:
    """Deny the call; an earlier approval by a person stays on record."""
    approval = _reopen_question(card, fact).approval
    if approval and approval.state == "pending":
        if approval.opener == "gate" and fact.by.kind == "host":
            approval = replace(approval, state="cancelled")  # a denial by the agent does not answer our approval
        else:
            approval = replace(
                approval, state="denied", decided_at=fact.at, by=fact.by, reason=fact.reason, inferred=True
            )
    return _end(card, fact.at, S.OUTPUT_DENIED, denied=fact.reason, denied_by=fact.by, approval=approval)


def apply_reported_outcome(card: Card, fact: f.OutcomeReported) -> Card:
    """Apply the outcome that a later frame reports for a result.

    Pydantic AI sends such frames.
    """
    if fact.outcome == "success" or (fact.message_id and fact.message_id != card.output_message):
        return card
    text = format_text(card.output)
    card = card.replace(output=None, has_output=False)
    if fact.outcome == "denied":
        return _end(_deny_host_approval(card), fact.at, S.OUTPUT_DENIED, denied=text, denied_by=f.Actor("host"))
    if fact.outcome == "interrupted":
        return end_softly(card, fact.at, "aborted", "")
    return _fail(card, fact.at, build_error(card, text, fact.code))


def _deny_host_approval(card: Card) -> Card:
    """Deny an approval whose result turned out to be a denial by the host."""
    approval = card.approval
    if approval is None or approval.opener == "gate" or approval.state != "approved" or approval.by != f.Actor("host"):
        return card
    return card.replace(approval=replace(approval, state="denied")).without_anomaly("ran-without-approval")


def apply_snapshot(card: Card, fact: f.SnapshotReceived) -> Card:
    """Apply a snapshot.

    It corrects a finished card only from done to failed.
    """
    if fact.denied:
        return card if card.hard else deny(card, f.OutputDenied(card.call_id, format_text(fact.text), at=fact.at))
    if fact.error is None:
        return card if card.hard else set_output(card, f.OutputReady(card.call_id, output=fact.text, at=fact.at))
    text = format_text(fact.text) or fact.error
    if card.hard:
        card = _add_output(card.replace(output=None, has_output=False), fact)
        corrected_card = _fail(card, fact.at, build_error(card, text))
        return corrected_card.with_anomaly("corrected-by-snapshot", fact.at)
    if card.state is S.APPROVAL_REQUESTED and not card.resumed:  # the producer never continued: denied
        return deny(card, f.OutputDenied(card.call_id, reason=text, at=fact.at))
    return _fail(_add_output(card, fact), fact.at, build_error(card, text))


def _add_output(card: Card, fact: f.OutputFailed | f.SnapshotReceived) -> Card:
    """Return the card with what the tool returned next to its error, if anything."""
    return card if fact.output is None else card.replace(output=fact.output, has_output=True)


def build_soft_end(cause: str) -> Callable[[Card, Any], Card]:
    """Return the handler that ends a card softly with this cause."""
    return lambda card, fact: end_softly(card, fact.at, cause, fact.reason)


def end_softly(card: Card, timestamp: float, cause: str, reason: str) -> Card:
    """End the card with its run or step and keep its output."""
    fault = error_codes.get_cause_failure(cause)
    return card.replace(
        state=S.OUTPUT_ERROR, soft=True, cause=cause, preliminary=False, awaiting_client=False, segment=None,
        approval=_close_approval(card.approval, "superseded" if cause == "superseded" else "cancelled"),
        error=CardError(reason, fault.code, fault.retryable, fault.authority, fault.phase),
        times=card.times.replace(finished=timestamp),
    )  # fmt: skip


def record_manual_outcome(card: Card, fact: f.ManualOutcomeRecorded) -> Card:
    """Set the outcome that a person recorded.

    The card stays soft, so that a late result still applies.
    """
    if not card.has_unknown_outcome:
        return card
    approval, has_failed = card.approval, fact.outcome == "failed"
    if approval and approval.state == "unknown":
        approval = replace(approval, state=fact.outcome)
    return card.replace(
        state=S.OUTPUT_ERROR if has_failed else S.OUTPUT_AVAILABLE, cause=None, approval=approval,
        error=CardError(fact.note) if has_failed else None,
        by_hand=CardManualOutcome(fact.outcome, fact.by, fact.note, fact.at),
    )  # fmt: skip


def change_retry(card: Card, fact: f.RetryChanged) -> Card:
    """Set the answer to a refusal by the host.

    It is given once, announced to the agent once, and used once.
    """
    if fact.state in _OPEN_RETRIES:
        return card.replace(retry=fact.state) if card.retry in _OPEN_RETRIES[fact.state] else card
    return card.replace(retry=fact.state, retry_by=fact.by) if is_retryable(card) else card


_OPEN_RETRIES = {"announced": ("granted",), "used": ("granted", "announced")}  # state -> the states before it


def await_client(card: Card, fact: f.CallClosed) -> Card:
    """Wait for the app's result.

    The run succeeded without it, or the tool left it to the app.
    A provider's own tool has ended: no one owes a result.
    """
    if card.provider_executed:
        return end_softly(card, fact.at, NO_RESULT, fact.reason)
    return card if card.awaiting_client else card.replace(awaiting_client=True)


def pass_over(card: Card, fact: f.CallClosed) -> Card:
    """End a call that still waits for the app, which moved on."""
    return end_softly(card, fact.at, NO_RESULT, fact.reason) if card.awaiting_client else card


def _close_approval(approval: CardApproval | None, state: str) -> CardApproval | None:
    """Return the approval after an early end; an approval of the gate may be unused."""
    if approval is None:
        return None
    if approval.opener == "gate":
        state = {"pending": state, "approved": state, "claimed": "unknown"}.get(approval.state, approval.state)
        return approval if state == approval.state else replace(approval, state=state)
    return replace(approval, state=state) if approval.state == "pending" else approval


def note_answer(card: Card | None, fact: Any) -> Any:
    """Note that the outcome answers a question that ended before."""
    approval = card.approval if card is not None and card.soft else None
    is_closed = approval is not None and approval.opener == "agent" and approval.state in {"superseded", "cancelled"}
    return fact if not is_closed or isinstance(fact, f.OutputPartial) else replace(fact, reopens=True)


def _reopen_question(card: Card, fact: f.OutputReady | f.OutputFailed | f.OutputDenied) -> Card:
    """Reopen a question that ended too early: the outcome tells its answer."""
    if not fact.reopens or card.approval is None:
        return card
    return card.replace(state=S.APPROVAL_REQUESTED, approval=replace(card.approval, state="pending"))


def _end(card: Card, timestamp: float, state: ToolCallState, **changes: Any) -> Card:
    """Return the card in a terminal state that the source reported."""
    times = card.times.replace(started=card.times.started or timestamp, finished=timestamp)
    changes = {"error": None if card.soft else card.error, "segment": card.segment} | changes
    return card.replace(
        state=state, soft=False, cause=None, preliminary=False, awaiting_client=False, times=times, **changes
    )


def _fail(card: Card, timestamp: float, error: CardError) -> Card:
    """End the call with an error; an open approval is cancelled."""
    approval = card.approval
    if approval and approval.state == "pending":
        card = card.replace(approval=replace(approval, state="cancelled"))
    return _end(_record_permit_result(card, "failed"), timestamp, S.OUTPUT_ERROR, error=error)


def _record_permit_result(card: Card, state: str) -> Card:
    """Record the result of a used approval.

    An agent that polls for the answer to its own request sends no claim: its result proves that it has the answer.
    """
    approval = card.approval
    if approval is None:
        return card
    is_answered = approval.state == "approved" and approval.by is not None and approval.by.kind == "human"
    is_polled = approval.opener == "agent" and is_answered
    has_manual_outcome = card.soft and card.by_hand is not None and approval.state in {"succeeded", "failed"}
    is_used = is_polled or has_manual_outcome or approval.state in {"claimed", "unknown"}
    return card.replace(approval=replace(approval, state=state)) if is_used else card


def _flag_ungoverned(card: Card, timestamp: float) -> Card:
    """Flag a result that came before the answer: not approved here, or approved elsewhere (rule 14)."""
    approval = card.approval
    is_cancelled = approval is not None and approval.opener == "gate" and approval.state == "cancelled"
    if card.soft and is_cancelled:  # it did not wait for our answer
        return card.with_anomaly("ran-without-approval", timestamp)
    if card.state is not S.APPROVAL_REQUESTED or approval is None:
        return card
    if approval.opener == "gate":
        approval = replace(approval, state="cancelled")
    else:
        approval = replace(approval, state="approved", decided_at=timestamp, by=f.Actor("host"), inferred=True)
        if approval.terms.get("local") or approval.outlasts_run:  # answered where the agent runs; only this reports it
            return card.replace(approval=approval)
    return card.replace(approval=approval).with_anomaly("ran-without-approval", timestamp)
