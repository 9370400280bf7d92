"""The Call object: a card as JSON for the API and the event stream (the contract's section 4)."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from toolcards.core.calls.card import Card, CardApproval, CardDecision, CardManualOutcome, ToolCallState
from toolcards.core.calls.facts import Actor

BODIES = ("input", "input_text", "original_input", "output", "agent_note")
_LIMIT = 4096


def build_call_json(card: Card, *, run: str, id: str) -> dict[str, Any]:  # noqa: A002 - the contract's word
    """Return the card as a Call object.

    `run` is the sender's name, `id` is ours.
    """
    return {
        "id": id,
        "run": run,
        "call_id": card.call_id,
        "agent_path": list(card.agent_path),
        "step": card.step,
        "tool": {
            "name": card.tool.name,
            "kind": card.tool.kind,
            "source": card.tool.source,
            "title": card.tool.title,
        },
        "state": str(card.state or ToolCallState.INPUT_STREAMING),
        "cause": card.cause,
        "soft": card.soft,
        "preliminary": card.preliminary,
        "awaiting_client": card.awaiting_client,
        "input": card.input if card.has_input else None,
        "input_text": str(card.text),
        "original_input": card.original_input,
        "output": card.output,
        "error": _build_error(card),
        "approval": _build_approval(card.approval, compute_view_sha256(card) if card.waiting else None),
        "decision": _build_decision(card.decision),
        "anomalies": [{"code": code, "at": format_time(timestamp)} for code, timestamp in card.anomalies],
        "timings": {name: format_time(getattr(card.times, name)) for name in _MILESTONES},
        "duration_ms": compute_durations(card),
        "rev": card.rev,
        "seq": card.seq,
        "occurrence": card.occurrence,
        "attempt": card.attempt,
        "scope": card.scope,
        "parent_call": card.parent_call or None,
        "repair": card.repair or None,
        "original_tool": card.original_tool or None,
        "detail": card.detail,
        "denied": _build_denial(card),
        "by_hand": _build_manual_outcome(card.by_hand),
        "retry": {"state": card.retry, "by": _build_actor(card.retry_by)} if card.retry else None,
        "agent_note": card.agent_note or None,
    }


def compute_view_sha256(card: Card) -> str:
    """Return the digest of what a voter sees.

    `card` is masked for that person.
    """
    ask = card.approval or CardApproval()
    visible = [
        card.tool.name, card.tool.source, list(card.agent_path), card.shown_input, card.original_input, ask.edited,
        ask.request_reason, card.decision.reason if card.decision else "",
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(visible, sort_keys=True).encode()).hexdigest()


def drop_large_bodies(call: dict[str, Any], limit: int = _LIMIT) -> dict[str, Any]:
    """Return the call without bodies above `limit` bytes of JSON.

    `truncated` names these bodies.
    """
    long = [name for name in BODIES if _measure_json(call[name], limit) > limit]
    return call | dict.fromkeys(long) | {"truncated": long} if long else call


def format_time(timestamp: float) -> str | None:
    """Return epoch seconds as ISO 8601 in UTC with milliseconds.

    0 becomes None.
    """
    if not timestamp:
        return None
    try:
        return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # an agent's clock
        return None


_NEVER_RAN = {"not-executed", "incomplete-input", "superseded"}
_MILESTONES = ("started", "available", "requested", "decided", "finished")


def _build_error(card: Card) -> dict[str, Any] | None:
    error = card.error
    if error is None:
        return None
    return {
        "message": error.message,
        "code": error.code or None,
        "retryable": error.retryable,
        "authority": error.authority or None,
        "phase": error.phase or None,
        "after_ms": error.after_ms,
    }


def _build_approval(ask: CardApproval | None, view: str | None = None) -> dict[str, Any] | None:
    """Return the approval; `reason` belongs to the answer, `request_reason` to the request."""
    if ask is None:
        return None
    return {
        "id": ask.id or None,
        "state": ask.state,
        "requested_at": format_time(ask.requested_at),
        "decided_at": format_time(ask.decided_at),
        "by": _build_actor(ask.by),
        "reason": ask.reason or None,
        "expires_at": format_time(ask.expires_at),
        "source_id": ask.source_id or None,
        "automatic": ask.automatic,
        "request_reason": ask.request_reason or None,
        "opener": ask.opener,
        "votable": ask.votable,
        "args_sha256": ask.args_sha256 or None,
        "view_sha256": view,
        "need": ask.terms.get("need", 1),
        "have": ask.have,
        "terms": ask.terms,
        "edited": ask.edited,
        "edited_by": ask.edited_by or None,
        "escalated": [{"to": to, "at": format_time(timestamp)} for to, timestamp in ask.escalated],
        "agent_away": ask.away,
        "twin": ask.twin or None,
        "lasting_rule": ask.lasting_rule or None,
        "policy_version": ask.policy_version or None,
        "review": ask.review,
    }


def _build_decision(verdict: CardDecision | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {
        "effect": verdict.effect,
        "reason": verdict.reason,
        "rule": verdict.rule or None,
        "policy_version": verdict.version,
        "would": list(verdict.would),
        "code": verdict.code or None,
        "by": _build_actor(verdict.by),
    }


def _build_denial(card: Card) -> dict[str, Any] | None:
    if card.state is not ToolCallState.OUTPUT_DENIED:
        return None
    return {"reason": card.denied or None, "by": _build_actor(card.denied_by)}


def _build_manual_outcome(outcome: CardManualOutcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {
        "outcome": outcome.outcome,
        "by": _build_actor(outcome.by),
        "note": outcome.note or None,
        "at": format_time(outcome.at),
    }


def _build_actor(actor: Actor | None) -> dict[str, str] | None:
    return None if actor is None else {"kind": actor.kind, "name": actor.name}


def compute_durations(card: Card) -> dict[str, int | None]:
    """Return the milliseconds of writing, waiting and running.

    None: unknown, or not applicable.
    """
    times = card.times
    return {
        "writing": _count_ms(times.started, times.available),
        "waiting": _count_ms(times.requested, times.decided or times.finished),
        "running": _count_ms(max(times.decided, times.available), times.finished) if _has_run(card) else None,
    }


def _has_run(card: Card) -> bool:
    was_waiting = card.soft and bool(card.times.requested) and not card.times.decided
    is_invalid = card.error is not None and card.error.phase in {"validate", "resolve"}
    was_denied = card.state is ToolCallState.OUTPUT_DENIED or card.cause in _NEVER_RAN
    return not (was_waiting or is_invalid or was_denied)


def _count_ms(start: float, end: float) -> int | None:
    return max(0, round((end - start) * 1000)) if start and end else None


def _measure_json(value: Any, limit: int) -> int:
    """Return the body's size as UTF-8 JSON; long strings are not encoded."""
    if value is None:
        return 0
    if isinstance(value, str) and len(value) > limit:
        return len(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass"))
