"""A call's log in sentences, one per event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dashboard.cards import labels
from dashboard.cards.payloads import excerpts
from toolcards.core.calls import facts as f
from toolcards.core.text.terminal_sequences import strip_sequences
from toolcards.encryption import get_redactor
from toolcards.models import Event, ToolCall

MAX_EVENTS = 500


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
    """Return the call's events, oldest first.

    Consecutive deltas are one line.
    """
    lines: list[EventLine] = []
    deltas: EventLine | None = None
    for event in Event.objects.filter(run=call.run_id, ordinal=call.ordinal).order_by("seq")[: MAX_EVENTS * 20]:
        fact = event.readable_fact
        if isinstance(fact, f.InputDelta):
            if deltas is None:
                deltas = EventLine(event.at, event.seq, "", st="stream", count=0)
                lines.append(deltas)
            deltas.count += 1
            deltas.text = f"Wrote input in {deltas.count} piece{'s' * (deltas.count != 1)}"
            continue
        deltas = None
        lines.append(_build_line(event, fact))
        if len(lines) >= MAX_EVENTS:
            break
    return lines


def _build_line(event: Event, fact: Any) -> EventLine:
    tell = _DESCRIBE.get(type(fact), _describe_by_type)
    text, quote, st = tell(fact)
    return EventLine(event.at, event.seq, text, get_redactor().text(quote)[:400], st, event.applied)


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


def _describe_closed_approval(fact: f.CallClosed) -> Description:
    return (
        f"Its run ended around it: {fact.how}" if fact.how != "expired" else "No one answered in time",
        fact.reason,
        "off",
    )


def _format_output(output: Any) -> str:
    return strip_sequences(excerpts.format_value(get_redactor().value(output)))


def _describe_failure(fact: f.OutputFailed) -> Description:
    return "Failed" + (f" ({fact.code})" if fact.code else ""), strip_sequences(fact.message), "err"


_DESCRIBE: dict[type, Callable[[Any], Description]] = {
    f.InputStarted: lambda fact: ("The agent started to write the input", "", "stream"),
    f.InputReady: lambda fact: ("Input received", "", "run"),
    f.InputInvalid: lambda fact: ("The input could not be used; the tool did not run", fact.message, "err"),
    f.InputRepaired: lambda fact: (f"The input was repaired ({fact.method or 'method not stated'})", "", "run"),
    f.PolicyDecided: _describe_decision,
    f.ApprovalRequested: _describe_approval_request,
    f.ApprovalAnswered: _describe_approval_answer,
    f.VoteCounted: lambda fact: (f"{labels.describe_actor(fact.by)} voted; {fact.have} approvals so far", "", "ask"),
    f.ApprovalEscalated: lambda fact: (f"No answer, escalated to {', '.join(fact.to)}", "", "ask"),
    f.AgentPresenceChanged: lambda fact: (f"The agent {'disconnected' if fact.away else 'is back'}", "", "off"),
    f.ApprovalChanged: lambda fact: (f"The approval was {fact.state}", "", "ok"),
    f.OutputPartial: lambda fact: ("Partial output received", _format_output(fact.output), "run"),
    f.OutputReady: lambda fact: ("Result received", _format_output(fact.output), "ok"),
    f.OutputFailed: _describe_failure,
    f.OutputDenied: lambda fact: (f"Denied by {labels.describe_actor(fact.by)}", fact.reason, "deny"),
    f.OutcomeReported: lambda fact: (f"A later message reported that it {fact.outcome}", "", ""),
    f.SnapshotReceived: lambda fact: ("A snapshot showed its result", fact.error or "", ""),
    f.CallClosed: _describe_closed_approval,
    f.ManualOutcomeRecorded: lambda fact: (
        f"{labels.describe_actor(fact.by)} looked: it {fact.outcome}",
        fact.note,
        "err" if fact.outcome == "failed" else "ok",
    ),
    f.CallRemoved: lambda fact: ("Its step was reset; the card was removed", "", "off"),
    f.AnomalyRecorded: lambda fact: (labels.ANOMALIES.get(fact.code, fact.code.replace("-", " ")), "", "err"),
}
