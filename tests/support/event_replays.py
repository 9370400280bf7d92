"""The events of a run, replayed from its log."""

from __future__ import annotations

from toolcards.models import Event, Run
from toolcards.transports.api.event_replay import EventReplay, StreamEvent


def replay_events(run: str = "r") -> list[StreamEvent]:
    stored_run = Run.objects.get(name=run)
    teller = EventReplay(stored_run)
    return besides([one for event in Event.objects.after(stored_run, 0) for one in teller.convert(event)])


def besides(events: list[StreamEvent]) -> list[StreamEvent]:
    """Return the events without those for hooks, which have their own tests (test_hooks)."""
    return [one for one in events if one.name != "hook"]


SECRET = "Zx9vK3qLm7pR"
CLONE = f"git clone https://ann:{SECRET}@h/x and sk-{SECRET}{SECRET} done"
