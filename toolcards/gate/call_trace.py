"""The step log: one structured line per phase of a call, with ids, hashes and timings, and without arguments.

The run's page shows the same lines: they are computed from the event log, so old runs have them as well.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import structlog

from toolcards.client.common import error_codes
from toolcards.client.common.json_diff import diff
from toolcards.client.common.json_text import format_text
from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.calls.tool_events import get_attempt, get_outcome
from toolcards.core.runs.run_state import RunState
from toolcards.encryption import get_redactor

log = structlog.get_logger("toolcards.steps")
_logger = logging.getLogger("toolcards.steps")
QUIET = (f.InputDelta, f.TextDelta, f.OutputPartial, f.MessageStarted)


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One phase with its time, duration and outcome; `more` has the other fields of the line."""

    phase: str
    at: float
    outcome: str
    call_id: str = ""
    ordinal: int = 0
    tool: str = ""
    attempt: int = 0
    ms: int | None = None
    code: str = ""
    more: dict[str, Any] | None = None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the log line.

        Empty ones are left out.
        """
        fields = {
            "call": self.call_id, "attempt": self.attempt, "phase": self.phase, "started": self.at or None,
            "ms": self.ms, "outcome": self.outcome, "code": self.code, "tool": self.tool,
        }  # fmt: skip
        return {name: value for name, value in (fields | (self.more or {})).items() if value not in (None, "", 0, [])}


def build_step(before: Card | None, after: Card | None, fact: f.AnyFact) -> TraceStep | None:
    """Return the phase that the fact ended.

    None for facts that end none, or that were not applied.
    """
    make = _STEPS.get(type(fact))
    if make is None or (after is not None and after is before):
        return None
    return make(before, after, fact)


def is_enabled() -> bool:
    """Return whether the log's level includes the lines."""
    return _logger.isEnabledFor(logging.INFO)


def build_timed_step(phase: str, card: Card, timestamp: float, seconds: float) -> TraceStep:
    """Return a phase of the server with its duration in seconds."""
    return TraceStep(
        phase, timestamp, "done", card.call_id, card.ordinal, card.tool.name, get_attempt(card), round(seconds * 1000)
    )


def log_step(run: str, step: TraceStep) -> None:
    """Write the line."""
    log.info("step", run=run, **step.fields)


def iterate_steps(events: Iterable[Any]) -> Iterator[TraceStep]:
    """Yield the phases of a run from its log.

    `events`: Event rows in order. Each step of the agent is summed up at its end.
    """
    board = RunState()
    for event in events:
        fact = event.readable_fact
        before = board.cards.get(event.ordinal)
        board.record(event.ordinal, fact, event.seq)
        if isinstance(fact, f.StepFinished):
            yield build_agent_step(board, fact)
        elif not isinstance(fact, QUIET):
            step = build_step(before, board.cards.get(event.ordinal), fact)
            if step is not None:
                yield step


# ---------------------------------------------------------------- one function per kind of fact


def _build_call_step(
    card: Card, phase: str, timestamp: float, outcome: str, *, start: float = 0.0, code: str = "", **more: Any
) -> TraceStep:
    ms = max(0, round((timestamp - start) * 1000)) if start and timestamp else None
    return TraceStep(
        phase, timestamp, outcome, card.call_id, card.ordinal, card.tool.name, get_attempt(card), ms, code, more or None
    )


def _trace_input(before: Card | None, card: Card, fact: Any) -> TraceStep:
    text = format_text(card.shown_input)
    hidden = len(diff(card.shown_input, get_redactor().value(card.shown_input)))
    repair = {"method": card.repair} if card.repair else None
    phase = "repair" if isinstance(fact, f.InputRepaired) else "resolve"
    return _build_call_step(
        card, phase, fact.at, "repaired" if phase == "repair" else "ok", since=card.times.started,
        in_sha=hash_text(text), bytes=len(text), repair=repair, redactions=hidden,
    )  # fmt: skip


def _trace_failure(before: Card | None, card: Card, fact: Any) -> TraceStep:
    code, phase = (card.error.code, card.error.phase) if card.error else ("", "")
    start = card.times.decided or card.times.available or card.times.started
    return _build_call_step(
        card,
        phase or "execute",
        fact.at,
        "error",
        start=start,
        code=code,
        authority=card.error.authority if card.error else "",
    )


def _trace_decision(before: Card | None, card: Card, fact: f.PolicyDecided) -> TraceStep:
    return _build_call_step(
        card, "gate", fact.at, fact.effect, start=card.times.available, code=fact.code, policy_version=fact.version,
        rule_ids=[fact.rule] if fact.rule else [], by={"kind": fact.by.kind}, in_sha=fact.args_sha256,
    )  # fmt: skip


def _trace_request(before: Card | None, card: Card, fact: f.ApprovalRequested) -> TraceStep:
    return _build_call_step(card, "ask", fact.at, "waiting", start=card.times.available, approval=fact.id)


def _trace_answer(before: Card | None, card: Card, fact: f.ApprovalAnswered) -> TraceStep:
    outcome = "approved" if fact.approved else "denied"
    waited_ms = max(0, round((fact.at - card.times.requested) * 1000)) if card.times.requested else None
    actor = {"kind": fact.by.kind}
    return _build_call_step(
        card,
        "answer",
        fact.at,
        outcome,
        start=card.times.requested,
        by=actor,
        approver=fact.by.name,
        latency_to_decide=waited_ms,
    )


def _trace_claim(before: Card | None, card: Card, fact: f.ApprovalChanged) -> TraceStep | None:
    """Return the step of an approval that was used, or that expired unused."""
    if fact.state not in ("claimed", "expired", "revoked"):
        return None  # the tool's result ends the phase
    return _build_call_step(card, "claim", fact.at, fact.state, start=card.times.decided, approval=fact.id)


def _trace_output(before: Card | None, card: Card, fact: f.OutputReady) -> TraceStep:
    text = format_text(fact.output)
    start = card.times.decided or card.times.available
    return _build_call_step(card, "execute", fact.at, "ok", start=start, out_sha=hash_text(text), bytes=len(text))


def _trace_denial(before: Card | None, card: Card, fact: f.OutputDenied) -> TraceStep:
    code = card.decision.code if card.decision else error_codes.get_denial_code(fact.by.kind)
    return _build_call_step(
        card, "settled", fact.at, "denied", since=card.times.started, code=code, by={"kind": fact.by.kind}
    )


def _trace_close(before: Card | None, card: Card, fact: f.CallClosed) -> TraceStep | None:
    if not card.finished:
        return None
    return _build_call_step(
        card, "settled", fact.at, get_outcome(card, before), since=card.times.started, code=card.cause or fact.how
    )


def _trace_manual_outcome(before: Card | None, card: Card, fact: f.ManualOutcomeRecorded) -> TraceStep | None:
    if before is card:
        return None
    return _build_call_step(card, "settled", fact.at, get_outcome(card), code="by_hand", by={"kind": fact.by.kind})


def _trace_run_start(before: Card | None, card: Card | None, fact: f.RunStarted) -> TraceStep:
    return TraceStep("run", fact.at, "started", more={"tools": len(fact.tools)} if fact.tools else None)


def _trace_run_end(before: Card | None, card: Card | None, fact: f.RunEnded) -> TraceStep:
    return TraceStep("run", fact.at, fact.outcome)


def build_agent_step(board: RunState, fact: f.StepFinished) -> TraceStep:
    """Return a step's end, with its calls, results and invalid calls."""
    step_cards = [card for card in board.cards.values() if card.step == board.context.step and not card.removed]
    invalid = [
        card.call_id for card in step_cards if card.error and card.error.code in {"no_such_tool", "invalid_input"}
    ]
    more = {
        "step": board.context.step, "calls": [card.call_id for card in step_cards],
        "results": sum(card.finished and card.call_id not in invalid for card in step_cards), "invalid": invalid,
    }  # fmt: skip
    return TraceStep("step", fact.at, "finished", more=more)


def hash_text(text: str) -> str:
    """Return a hash that distinguishes values without revealing them."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_STEPS: dict[type, Callable[[Any, Any, Any], TraceStep | None]] = {
    f.InputReady: _trace_input,
    f.InputRepaired: _trace_input,
    f.InputInvalid: _trace_failure,
    f.OutputFailed: _trace_failure,
    f.PolicyDecided: _trace_decision,
    f.ApprovalRequested: _trace_request,
    f.ApprovalAnswered: _trace_answer,
    f.ApprovalChanged: _trace_claim,
    f.OutputReady: _trace_output,
    f.OutputDenied: _trace_denial,
    f.CallClosed: _trace_close,
    f.ManualOutcomeRecorded: _trace_manual_outcome,
    f.RunStarted: _trace_run_start,
    f.RunEnded: _trace_run_end,
}
