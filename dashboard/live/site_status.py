"""The status on every page: the number of waiting calls, switches that are on, and parts that do not work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import connection

from dashboard.cards import safe_text
from toolcards import outages
from toolcards.core.risk.assessment import assess_call_risk
from toolcards.core.summaries.summary import summarize
from toolcards.gate import emergency
from toolcards.models import ToolCall
from toolcards.models.prepared_selects import PreparedSelect
from toolcards.transports.background import disk_space

# Composed once, because each look at a changed question reads them. The conditions are those of an index.
_COUNT = "SELECT COUNT(*) FROM toolcards_toolcall WHERE waiting AND NOT removed"
_NEWEST = PreparedSelect(ToolCall, "WHERE waiting AND NOT removed ORDER BY requested_at DESC, id DESC LIMIT 1")
# Parts that can fail, and the consequence.
_WORDS = {
    outages.READING: ("Data cannot be read", "Pages and agents get errors or wait."),
    outages.WRITING: (
        "Nothing can be saved",
        "Agents are asked to try again later, gated calls are denied, and votes are not accepted.",
    ),
    outages.SENDING: ("Notifications are not sent", "They are sent as soon as this works again."),
    outages.BELL: ("Server processes cannot reach each other", "Updates reach pages and agents late."),
    outages.CONNECTING: ("New connections are refused", "Existing connections stay open."),
    outages.ANCHORING: (
        "The anchor of the audit trail cannot be written",
        "The trail itself is complete, but nothing outside the database can prove that now.",
    ),
}


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
    about = ", ".join(part for part in (summarize(card)[:120], call.agent, risky) if part)
    return f"Approval needed: {safe_text.mark_text(about)}. Press n to go there."


@dataclass(frozen=True, slots=True)
class BannerOutage:
    """One part that does not work: its name, its text for people, and its start (epoch seconds)."""

    part: str
    title: str
    consequence: str
    started: float


def read_banner() -> dict[str, Any]:
    """Return the active switches, outages, and the share of a filling disk."""
    return emergency.get_emergency_state() | {
        "troubles": [_describe_outage(outage) for outage in outages.list_outages()],
        "disk_percentage": disk_space.find_warning(),
    }


def _describe_outage(outage: outages.Outage) -> BannerOutage:
    title, consequence = _WORDS[outage.part]
    return BannerOutage(outage.part, f"{title}: {outage.cause.words}.", consequence, outage.began)
