"""Sample facts and reachable cards, for the tests of the state table.

Every fact class needs a sample (`test_reducer` checks this), every situation a way to reach it.
"""

from __future__ import annotations

from typing import Any, get_args

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.runs.run_state import RunState

ALICE = f.Actor("human", "alice")

SAMPLES: list[f.AnyFact] = [
    f.InputStarted("c", "Bash"),
    f.InputDelta("c", "{}"),
    f.InputReady("c", "Bash", {"command": "ls"}, True),
    f.InputReady("c"),
    f.InputInvalid("c", "Bash", "ls", "not an object"),
    f.InputRepaired("c", "Bash", {"command": "ls"}, "ls", "wrapped"),
    f.PolicyDecided("c", "ask", reason="because"),
    f.PermitChanged("c", "issued", "alw_1"),
    f.ApprovalInputChanged("c", "0" * 64),
    f.ApprovalRequested("c", source_id="q2"),
    f.ApprovalRequested("c", id="a1", opener="gate"),
    f.ApprovalAnswered("c", True, by=ALICE),
    f.ApprovalAnswered("c", False, by=ALICE),
    f.ApprovalChanged("c", "claimed"),
    f.ApprovalFetched("c"),
    f.ApprovalEscalated("c", ["group:lead"]),
    f.CallReviewed("c", f.Actor("reviewer", "guard"), "allow", "It reads.", "This is high risk."),
    f.AgentPresenceChanged("c"),
    f.VoteCounted("c", 1, edited={"command": "ls -l"}, has_edited=True, by=ALICE),
    f.OutputPartial("c", 1),
    f.OutputReady("c", 0),
    f.OutputFailed("c", "no"),
    f.OutputFailed("c", "no", output=[{"type": "image", "data": "eA=="}]),
    f.OutputDenied("c", "no"),
    f.OutcomeReported("c", "failed"),
    f.SnapshotReceived("c", "no", "no"),
    f.SnapshotReceived("c", "no", "no", output=[{"type": "image", "data": "eA=="}]),
    f.SnapshotReceived("c", "yes"),
    *(f.CallClosed("c", how) for how in get_args(f.CloseReason)),
    f.ManualOutcomeRecorded("c", "failed", "the file is not there", ALICE),
    f.RetryChanged("c", "granted", ALICE),
    f.CallRemoved("c"),
    f.AnomalyRecorded("c", "ungoverned"),
    f.RunStarted(scope="r", tools=[{"name": "look", "annotations": {"readOnlyHint": True}}]),
    f.MessageStarted(message_id="m"),
    f.LaneStarted(lane="sub", name="helper"),
    f.StepStarted(),
    f.StepFinished(),
    f.StepReset(),
    f.TextDelta(text="hello"),
    f.ErrorReported(message="oh"),
    f.RunEnded(),
]

_READY = f.InputReady("c", "Bash", {"command": "ls"}, True, at=2.0)
WAYS: dict[str, list[Any]] = {
    "none": [],
    "IS": [f.InputStarted("c", "Bash", at=1.0), f.InputDelta("c", '{"comm', at=1.5)],
    "IA": [_READY],
    "AR": [_READY, f.ApprovalRequested("c", source_id="q1", at=3.0)],
    "AP": [_READY, f.ApprovalRequested("c", source_id="q1", at=3.0), f.ApprovalAnswered("c", True, by=ALICE, at=4.0)],
    "PRE": [_READY, f.OutputPartial("c", "half", at=5.0)],
    "SOFT": [_READY, f.RunEnded(outcome="aborted", at=6.0)],
    "OA": [_READY, f.OutputReady("c", "done", at=6.0)],
    "OE": [_READY, f.OutputFailed("c", "broke", at=6.0)],
    "OD": [_READY, f.OutputDenied("c", "no", at=6.0)],
}


def play(*facts: Any, board: RunState | None = None) -> RunState:
    """Return the board after these facts, through its public methods."""
    board = board or RunState()
    for fact in facts:
        for ordinal, routed in board.route(fact):
            board.record(ordinal, routed)
    return board


def card_after(*facts: Any) -> Card:
    """Return the newest card of call "c" after these facts."""
    card = play(*facts).find("c")
    assert card is not None
    return card


def seen_states(*facts: Any) -> list[str]:
    """Return the states that call "c" went through, each once in a row."""
    board, states = RunState(), [""]
    for fact in facts:
        for ordinal, routed in board.route(fact):
            card, _ = board.record(ordinal, routed)
            if card and card.call_id == "c" and card.state and card.state != states[-1]:
                states.append(str(card.state))
    return states[1:]
