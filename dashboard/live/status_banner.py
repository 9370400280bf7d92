"""The banner on every page: active switches, and parts that do not work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolcards import outages
from toolcards.gate import emergency

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


@dataclass(frozen=True, slots=True)
class BannerOutage:
    """One part that does not work: its name, its text for people, and its start (epoch seconds)."""

    part: str
    title: str
    consequence: str
    started: float


def read_banner() -> dict[str, Any]:
    """Return the active switches and the outages of this server process."""
    return emergency.get_emergency_state() | {
        "troubles": [_describe_outage(outage) for outage in outages.list_outages()]
    }


def _describe_outage(outage: outages.Outage) -> BannerOutage:
    title, consequence = _WORDS[outage.part]
    return BannerOutage(outage.part, f"{title}: {outage.cause.words}.", consequence, outage.began)
