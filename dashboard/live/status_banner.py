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
        "Agents are asked to try again later, no gated call is allowed, and votes are not taken.",
    ),
    outages.SENDING: ("Notifications are not sent", "They are sent as soon as this is over."),
    outages.BELL: ("Server processes do not hear from each other", "Pages and agents get their news late."),
    outages.CONNECTING: ("New connections are refused", "Agents and browsers that are connected stay so."),
    outages.ANCHORING: (
        "The end of the audit trail cannot be written to its file",
        "The trail itself is complete, but nothing outside the database proves it now.",
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
