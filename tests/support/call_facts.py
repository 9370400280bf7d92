"""Facts of one call, and what tests read of its card."""

from __future__ import annotations

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card

START = f.InputStarted("c", "Bash", per_step=True)
READY = f.InputReady("c", "Bash", {"q": 1}, True, per_step=True)
OK = f.OutputReady("c", "done")
ASK = f.ApprovalRequested("c", source_id="q1")
OURS = f.ApprovalRequested("c", id="a1", opener="gate")


def delta(text: str) -> f.InputDelta:
    return f.InputDelta("c", text)


def codes(card: Card) -> list[str]:
    return [code for code, _ in card.anomalies]
