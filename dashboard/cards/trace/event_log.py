"""A call's log in sentences, one per event."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from dashboard.cards import labels
from dashboard.cards.payloads import excerpts
from toolcards.core.calls import facts as f
from toolcards.core.text.terminal_sequences import strip_sequences
from toolcards.encryption import get_redactor
from toolcards.models import Event, ToolCall

MAX_EVENTS = 500  # latest ones that are decrypted; the pieces of the input are only counted
MAX_QUOTE = 400  # characters


@dataclass
class EventLine:
    """One event, or a series of deltas, in words. `applied` False: it changed nothing."""

    at: float
    seq: int
    text: str
    quote: str = ""
    st: str = ""
    applied: bool = True
    count: int = 1


def list_event_lines(call: ToolCall) -> list[EventLine]:
    """Return the call's latest events, oldest first.

    Consecutive deltas are one line, unless only some of them changed anything.
    """
    events = Event.objects.filter(run=call.run_id, ordinal=call.ordinal)
    whole_events = events.but_type(f.InputDelta.type).order_by("-seq")
    latest = list(whole_events[: MAX_EVENTS + 1])[::-1]
    deltas = events.of_type(f.InputDelta.type).order_by("seq")
    lines: list[EventLine] = []
    if len(latest) > MAX_EVENTS:
        del latest[0]
        first = latest[0]
        skipped_count = whole_events.filter(seq__lt=first.seq).count()
        lines.append(EventLine(first.at, 0, f"{_count(skipped_count, 'earlier event')} not shown", st="off"))
        deltas = deltas.filter(seq__gt=first.seq)
    pieces = (
        (seq, when, is_applied, None) for seq, when, is_applied in deltas.values_list("seq", "at", "applied").iterator()
    )
    events_but_deltas = ((event.seq, event.at, event.applied, event) for event in latest)
    return lines + _build_lines(heapq.merge(pieces, events_but_deltas, key=itemgetter(0)))


def _build_lines(entries: Iterable[tuple[int, float, bool, Event | None]]) -> list[EventLine]:
    """Return the lines of events in their order; deltas have no event."""
    lines: list[EventLine] = []
    for (is_delta, is_applied), series in groupby(entries, lambda entry: (entry[3] is None, entry[2])):
        if not is_delta:
            lines += [_build_line(event) for *_, event in series if event is not None]
            continue
        pieces = list(series)
        seq, when, *_ = pieces[0]
        text = f"Wrote input in {_count(len(pieces), 'piece')}"
        lines.append(EventLine(when, seq, text, st="stream", applied=is_applied, count=len(pieces)))
    return lines


def _build_line(event: Event) -> EventLine:
    fact = event.readable_fact
    text, quote, st = _DESCRIBE.get(type(fact), _describe_by_type)(fact)
    return EventLine(event.at, event.seq, text, get_redactor().text(quote)[:MAX_QUOTE], st, event.applied)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


Description = tuple[str, str, str]


def _describe_by_type(fact: Any) -> Description:
    return str(fact.type).replace("-", " ").capitalize(), "", ""


def _describe_decision(fact: f.PolicyDecided) -> Description:
    rule = f" by rule {fact.rule}" if fact.rule else ""
    version = f" (policy v{fact.version})" if fact.version else ""
    return f"Policy: {labels.EFFECTS.get(fact.effect, fact.effect).lower()}{rule}{version}", fact.reason, "run"


def _describe_approval_request(fact: f.ApprovalRequested) -> Description:
    asker = "Toolcards asked" if fact.opener == "gate" else "The agent asked"
    return f"{asker} for approval", fact.reason, "ask"


def _describe_approval_answer(fact: f.ApprovalAnswered) -> Description:
    verb = "Approved" if fact.approved else "Denied"
    edit_note = ", with an edited input" if fact.has_input else ""
    return f"{verb} by {labels.describe_actor(fact.by)}{edit_note}", fact.reason, "ok" if fact.approved else "deny"


CLOSE_WORDS: dict[str, str] = {
    "ok": "Its run ended", "not-executed": "Its run ended without running it",
    "unreported": "Its turn ended without its result",
    "deferred": "The app brings the result later", "interrupt": "Its run was interrupted",
    "aborted": "It was stopped", "error": "Its run failed", "truncated": "No result was received",
    "expired": "No one answered in time", "superseded": "A newer approval replaced this one",
    "changed": "The agent sent another tool or input", "cancelled": "The question was withdrawn",
}  # fmt: skip
OUTCOME_WORDS: dict[str, str] = {
    "success": "it succeeded", "failed": "it failed", "retried": "it was retried", "denied": "it was denied",
    "interrupted": "it was interrupted",
}  # fmt: skip
APPROVAL_WORDS: dict[str, str] = {
    "approved": "The approval waits for the agent again", "claimed": "The agent received the approval",
    "succeeded": "The approved call succeeded", "failed": "The approved call failed",
    "unknown": "The outcome of the approved call is unknown", "expired": "The approval expired unused",
    "revoked": "The approval was revoked", "superseded": "The approval was replaced",
}  # fmt: skip
PERMIT_WORDS: dict[str, str] = {
    "issued": "Permit to run issued", "claimed": "The agent claimed its permit", "void": "The permit is void",
    "expired": "The permit expired", "revoked": "The permit was revoked", "superseded": "The permit was replaced",
    "succeeded": "The permit was used: it succeeded", "failed": "The permit was used: it failed",
    "unknown": "The permit was used: the outcome is unknown",
}  # fmt: skip

RETRY_WORDS = {
    "granted": "let it try again, once", "dismissed": "dismissed the refusal", "used": "let it try again: now used",
    "announced": "let it try again: the agent knows",
}  # fmt: skip


def _format_output(output: Any) -> str:
    return strip_sequences(excerpts.format_value(get_redactor().value(output)))


def _describe_failure(fact: f.OutputFailed) -> Description:
    return "Failed" + (f" ({fact.code})" if fact.code else ""), strip_sequences(fact.message), "err"


_REVIEW_WORDS = {"allow": "answered allow", "ask": "left it to people", "deny": "answered deny", "": "did not answer"}


def _describe_review(fact: f.CallReviewed) -> Description:
    texts = (fact.reason, fact.note)
    words = f"The reviewer {fact.by.name} {_REVIEW_WORDS.get(fact.answer, fact.answer)}"
    return words, " ".join(filter(None, texts)), {"allow": "ok", "deny": "deny", "": "err"}.get(fact.answer, "ask")


_DESCRIBE: dict[type, Callable[[Any], Description]] = {
    f.InputStarted: lambda fact: ("The agent started to write the input", "", "stream"),
    f.InputReady: lambda fact: ("Input received", "", "run"),
    f.InputInvalid: lambda fact: ("The input could not be used; the tool did not run", fact.message, "err"),
    f.InputRepaired: lambda fact: (f"The input was repaired ({fact.method or 'method not stated'})", "", "run"),
    f.PolicyDecided: _describe_decision,
    f.ApprovalRequested: _describe_approval_request,
    f.ApprovalAnswered: _describe_approval_answer,
    f.VoteCounted: lambda fact: (
        f"{labels.describe_actor(fact.by)} voted; {_count(fact.have, 'approval')} so far",
        "",
        "ask",
    ),
    f.ApprovalEscalated: lambda fact: (f"No answer, escalated to {', '.join(fact.to)}", "", "ask"),
    f.CallReviewed: _describe_review,
    f.ApprovalFetched: lambda fact: ("The agent fetched the approval", "", "ok"),
    f.AgentPresenceChanged: lambda fact: (f"The agent {'disconnected' if fact.away else 'is back'}", "", "off"),
    f.ApprovalChanged: lambda fact: (APPROVAL_WORDS.get(fact.state, f"The approval is now {fact.state}"), "", "ok"),
    f.ApprovalInputChanged: lambda fact: ("The approval now covers the changed input", "", "ask"),
    f.PermitChanged: lambda fact: (PERMIT_WORDS.get(fact.state, f"The permit is now {fact.state}"), "", "run"),
    f.OutputPartial: lambda fact: ("Partial output received", _format_output(fact.output), "run"),
    f.OutputReady: lambda fact: ("Result received", _format_output(fact.output), "ok"),
    f.OutputFailed: _describe_failure,
    f.OutputDenied: lambda fact: (f"Denied by {labels.describe_actor(fact.by)}", fact.reason, "deny"),
    f.OutcomeReported: lambda fact: (
        f"A later message reported that {OUTCOME_WORDS.get(fact.outcome, f'it is {fact.outcome}')}",
        "",
        "",
    ),
    f.SnapshotReceived: lambda fact: ("A snapshot showed its result", fact.error or "", ""),
    f.CallClosed: lambda fact: (CLOSE_WORDS.get(fact.how, f"It was closed: {fact.how}"), fact.reason, "off"),
    f.ManualOutcomeRecorded: lambda fact: (
        f"{labels.describe_actor(fact.by)} recorded that it {fact.outcome}",
        fact.note,
        "err" if fact.outcome == "failed" else "ok",
    ),
    f.RetryChanged: lambda fact: (
        f"{labels.describe_actor(fact.by)} {RETRY_WORDS.get(fact.state, fact.state)}",
        "",
        "deny" if fact.state == "dismissed" else "ok",
    ),
    f.CallRemoved: lambda fact: ("Its step was reset; the card was removed", "", "off"),
    f.AnomalyRecorded: lambda fact: (labels.ANOMALIES.get(fact.code, fact.code.replace("-", " ")), "", "err"),
}
