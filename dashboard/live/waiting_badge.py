"""The number of waiting calls, and an announcement for screen readers."""

from __future__ import annotations

from typing import Any

from django.db import connection

from dashboard.cards import safe_text
from dashboard.cards.risk.assessment import assess_call_risk
from toolcards.core.calls.call_json import summarize
from toolcards.models import ToolCall
from toolcards.models.prepared import PreparedSelect

# Composed once, because each look at a changed question reads them. The conditions are those of an index.
_COUNT = "SELECT COUNT(*) FROM toolcards_toolcall WHERE waiting AND NOT removed"
_NEWEST = PreparedSelect(ToolCall, "WHERE waiting AND NOT removed ORDER BY requested_at DESC, id DESC LIMIT 1")


def read_badge() -> dict[str, Any]:
    """Return the count, and the newest call's id, risk and announcement.

    Only a first call or one with a high risk is announced.
    """
    with connection.cursor() as cursor:
        cursor.execute(_COUNT)
        count = cursor.fetchone()[0]
    newest = _NEWEST.fetch_first() if count else None
    level = assess_call_risk(newest).level if newest else ""
    return {
        "count": count,
        "risk": level,
        "newest": newest.public_id if newest else "",
        "says": _build_sentence(newest, level) if newest else "",
    }


def _build_sentence(call: ToolCall, level: str) -> str:
    card = call.as_shown_card()
    risky = "high risk" if level == "high" else ""
    about = ", ".join(part for part in (card.tool.name, summarize(card)[:80], call.agent, risky) if part)
    return f"Approval needed: {safe_text.mark_text(about)}. Press n to go there."
