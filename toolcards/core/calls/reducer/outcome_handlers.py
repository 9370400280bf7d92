"""How a call ends: by its result, by a denial, by what a later frame tells, or because its run ended around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toolcards.client.common import error_codes
from toolcards.client.common.json_text import as_text
from toolcards.client.common.tool_kinds import kind_of
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card, CardApproval, CardError, ManualOutcome, ToolCallState
from toolcards.core.calls.identity import is_frozen
from toolcards.core.calls.reducer.input_handlers import update_identity

S = ToolCallState
_JSON_BEGINS = ("{", "[")


def set_partial_output(card: Card, fact: f.OutputPartial) -> Card:
    """A preliminary output: the tool still runs."""
    shown = _end(_flag_ungoverned(card, fact.at), fact.at, S.OUTPUT_AVAILABLE, output=fact.output, has_output=True)
    return shown.replace(preliminary=True, times=shown.times.replace(finished=0.0))


def set_output(card: Card, fact: f.OutputReady) -> Card:
    """The result."""
    card = _record_permit_result(_flag_ungoverned(card, fact.at), "succeeded")
    return _end(card, fact.at, S.OUTPUT_AVAILABLE, output=fact.output, has_output=True, output_message=fact.message_id)


def set_error(card: Card, fact: Any) -> Card:
    """The call failed, or never ran because its input could not be used."""
    if not isinstance(fact, f.InputInvalid):
        return _fail(card, fact.at, build_error(card, fact.message, fact.code, fact))
    unknown = fact.dynamic and not card.dynamic and card.state in (S.INPUT_STREAMING, S.INPUT_AVAILABLE)
    if not is_frozen(card):
        card = update_identity(card, fact)
    if fact.input is not None and not card.has_input:
        card = card.replace(input=fact.input, has_input=True)
    return _fail(card, fact.at, build_error(card, fact.message, "no_such_tool" if unknown else fact.code))


def build_error(card: Card, message: str, code: str = "", said: f.OutputFailed | None = None) -> CardError:
    """Return the failure with what its code, or the wire, tells beyond the words."""
    if not code and not card.has_input and str(card.text).lstrip()[:1] in _JSON_BEGINS:
        code = "invalid_input"  # what was written is no JSON: nothing can have run
    authority, retryable, phase = (said.authority, said.retryable, said.phase) if said else ("", None, "")
    told = error_codes.stated(
        code, authority=authority, retryable=retryable, phase=phase, kind=kind_of(card.tool.name, card.tool.source)
    )
    after_ms = error_codes.waiting_time(said.after_ms) if said else None
    return CardError(message, told.code, told.retryable, told.authority, told.phase, after_ms)


def deny(card: Card, fact: f.OutputDenied) -> Card:
    """The call was refused; an approval that somebody gave before stays given (policy changed since)."""
    ask = card.approval
    if ask and ask.state == "pending":
        if ask.opener == "gate" and fact.by.kind == "host":
            ask = replace(ask, state="cancelled")  # the agent's no is no answer to our question
        else:
            ask = replace(ask, state="denied", decided_at=fact.at, by=fact.by, reason=fact.reason)
    return _end(card, fact.at, S.OUTPUT_DENIED, denied=fact.reason, denied_by=fact.by, approval=ask)


def apply_reported_outcome(card: Card, fact: f.OutcomeReported) -> Card:
    """Pydantic AI tells the outcome of a result one frame later; only the result it names is meant."""
    if fact.outcome == "success" or (fact.message_id and fact.message_id != card.output_message):
        return card
    text = as_text(card.output)
    card = card.replace(output=None, has_output=False)
    if fact.outcome == "denied":
        return _end(_deny_host_approval(card), fact.at, S.OUTPUT_DENIED, denied=text, denied_by=f.Actor("host"))
    if fact.outcome == "interrupted":
        return end_softly(card, fact.at, "aborted", "")
    return _fail(card, fact.at, build_error(card, text, fact.code))


def _deny_host_approval(card: Card) -> Card:
    """What looked like a result without our answer was a denial given elsewhere."""
    ask = card.approval
    if ask is None or ask.opener == "gate" or ask.state != "approved" or ask.by != f.Actor("host"):
        return card
    kept = tuple(noted for noted in card.anomalies if noted[0] != "ran-without-approval")
    return card.replace(approval=replace(ask, state="denied"), anomalies=kept)


def apply_snapshot(card: Card, fact: f.SnapshotReceived) -> Card:
    """A snapshot proves what no frame said; a finished card it corrects only from done to failed."""
    if fact.denied:
        return card if card.hard else deny(card, f.OutputDenied(card.call_id, as_text(fact.text), at=fact.at))
    if fact.error is None:
        return card if card.hard else set_output(card, f.OutputReady(card.call_id, output=fact.text, at=fact.at))
    text = as_text(fact.text) or fact.error
    if card.hard:
        corrected = _fail(card.replace(output=None, has_output=False), fact.at, build_error(card, text))
        return corrected.with_anomaly("corrected-by-snapshot", fact.at)
    if card.state is S.APPROVAL_REQUESTED and not card.resumed:  # the producer never went on with it: refused
        return deny(card, f.OutputDenied(card.call_id, reason=text, at=fact.at))
    return _fail(card, fact.at, build_error(card, text))


def build_soft_end(cause: str) -> Callable[[Card, Any], Card]:
    """Return the move that ends a card, until a real result comes, for this cause."""
    return lambda card, fact: end_softly(card, fact.at, cause, fact.reason)


def end_softly(card: Card, at: float, cause: str, reason: str) -> Card:
    """The card ended because what was around it ended; a partial output is kept."""
    told = error_codes.of_cause(cause)
    return card.replace(
        state=S.OUTPUT_ERROR, soft=True, cause=cause, preliminary=False, awaiting_client=False, segment=None,
        approval=_close_approval(card.approval, "superseded" if cause == "superseded" else "cancelled"),
        error=CardError(reason, told.code, told.retryable, told.authority, told.phase),
        times=card.times.replace(finished=at),
    )  # fmt: skip


def record_manual_outcome(card: Card, fact: f.ManualOutcomeRecorded) -> Card:
    """A person says how it ended. It stays soft: they have looked, but the tool has not spoken."""
    if not card.has_unknown_outcome:
        return card
    ask, failed = card.approval, fact.outcome == "failed"
    if ask and ask.state == "unknown":
        ask = replace(ask, state=fact.outcome)
    return card.replace(
        state=S.OUTPUT_ERROR if failed else S.OUTPUT_AVAILABLE, cause=None, approval=ask,
        error=CardError(fact.note) if failed else None,
        by_hand=ManualOutcome(fact.outcome, fact.by, fact.note, fact.at),
    )  # fmt: skip


def await_client(card: Card, fact: f.CallClosed) -> Card:
    """The run ended well without this result: the client will bring it."""
    return card if card.awaiting_client else card.replace(awaiting_client=True)


def _close_approval(ask: CardApproval | None, state: str) -> CardApproval | None:
    """What becomes of an approval when its call ends early; our gate's outlives its answer until it is used."""
    if ask is None:
        return None
    if ask.opener == "gate":
        state = {"pending": state, "approved": state, "claimed": "unknown"}.get(ask.state, ask.state)
        return ask if state == ask.state else replace(ask, state=state)
    return replace(ask, state=state) if ask.state == "pending" else ask


def _end(card: Card, at: float, state: ToolCallState, **changes: Any) -> Card:
    """The card at a terminal state that the source itself reported."""
    times = card.times.replace(started=card.times.started or at, finished=at)
    changes = {"error": None if card.soft else card.error, "segment": card.segment} | changes
    return card.replace(
        state=state, soft=False, cause=None, preliminary=False, awaiting_client=False, times=times, **changes
    )


def _fail(card: Card, at: float, failure: CardError) -> Card:
    """A failure; a question that was still open is none any more."""
    ask = card.approval
    if ask and ask.state == "pending":
        card = card.replace(approval=replace(ask, state="cancelled"))
    return _end(_record_permit_result(card, "failed"), at, S.OUTPUT_ERROR, error=failure)


def _record_permit_result(card: Card, state: str) -> Card:
    """What came of the right to run the call, if it was used.

    An agent that polls for the answer to its own question claims nothing: what it then tells proves that it has it.
    """
    ask = card.approval
    polled = ask and ask.opener == "agent" and ask.state == "approved" and ask.by and ask.by.kind == "human"
    by_hand = card.soft and card.by_hand and ask and ask.state in {"succeeded", "failed"}
    used = ask and (polled or by_hand or ask.state in {"claimed", "unknown"})
    return card.replace(approval=replace(ask, state=state)) if ask and used else card


def _flag_ungoverned(card: Card, at: float) -> Card:
    """Rule 14: a result while we still wait means that it ran without our answer, or was approved elsewhere."""
    ask = card.approval
    if card.soft and ask and ask.opener == "gate" and ask.state == "cancelled":  # it did not wait for our answer
        return card.with_anomaly("ran-without-approval", at)
    if card.state is not S.APPROVAL_REQUESTED or ask is None:
        return card
    if ask.opener == "gate":
        ask = replace(ask, state="cancelled")
    else:
        ask = replace(ask, state="approved", decided_at=at, by=f.Actor("host"))
        if ask.terms.get("local"):  # the agent's own user is asked too, and nothing else tells of that answer
            return card.replace(approval=ask)
    return card.replace(approval=ask).with_anomaly("ran-without-approval", at)
