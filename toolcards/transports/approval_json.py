"""An approval as JSON, with its call and what a person needs to answer it: the risk, and the agent's questions."""

from __future__ import annotations

from typing import Any

from toolcards.core.calls.call_json import build_call_json, format_time
from toolcards.core.calls.card import Card
from toolcards.core.calls.questions import Question, read_questions
from toolcards.core.risk.assessment import assess_call_risk
from toolcards.core.summaries.summary import summarize
from toolcards.encryption import get_redactor
from toolcards.models import Approval, ToolCall


def serialize_approval(row: Approval, card: Card) -> dict[str, Any]:
    """Return an approval with its call, without the permit."""
    return {
        "id": row.id,
        "run": row.run.name,
        "call_id": card.call_id,
        "state": row.state,
        "opener": row.opener,
        "requested_at": format_time(row.requested_at),
        "expires_at": format_time(row.expires_at),
        "decided_at": format_time(row.decided_at),
        "by": {"kind": row.by_kind, "name": row.by_name} if row.by_kind else None,
        "reason": get_redactor().text(row.reason) or None,
        "args_sha256": row.args_sha256,
        "attempt": row.attempt,
        "source": row.run.source.name,
        "risk": _describe_risk(row.call) if row.state == "pending" else None,
        "questions": [_describe_question(question) for question in read_questions(card.tool.name, card.input)],
        "summary": summarize(card),
        "call": build_call_json(card, run=row.run.name, id=row.call.public_id),
    }


def _describe_risk(call: ToolCall) -> dict[str, Any]:
    risk = assess_call_risk(call)
    return {"level": risk.level, "reasons": list(risk.reasons)}


def _describe_question(question: Question) -> dict[str, Any]:
    """Return a question that the call asks; an answer names options by their places."""
    return {
        "text": question.text, "header": question.header, "options": [option.label for option in question.options],
        "multiple": question.is_multiple, "free_text": question.has_text, "required": question.is_required,
    }  # fmt: skip
