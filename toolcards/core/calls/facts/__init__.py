"""Facts: one frozen class for each thing that happens to a run or a tool call; what adapters produce.

A fact is an observation. Its meaning is defined by the transition table (`transitions`) and the reducer.
Every fact can be written to the log and read back unchanged (`dump`, `load`).
Facts of a call carry the `call_id` of the wire; the run state finds the card that they are about.
`at` is the server's clock in seconds since 1970, set by the gate when the fact arrives.
"""

from toolcards.core.calls.facts.actor import Actor
from toolcards.core.calls.facts.approval_facts import (
    AgentPresenceChanged,
    ApprovalAnswered,
    ApprovalChanged,
    ApprovalEscalated,
    ApprovalInputChanged,
    ApprovalRequested,
    PermitChanged,
    PolicyDecided,
    VoteCounted,
)
from toolcards.core.calls.facts.codec import BY_TYPE, CALL_FACTS, RUN_FACTS, AnyFact, CallFact, dump, load
from toolcards.core.calls.facts.input_facts import (
    InputChunk,
    InputDelta,
    InputInvalid,
    InputPiece,
    InputReady,
    InputRepaired,
    InputStarted,
)
from toolcards.core.calls.facts.outcome_facts import (
    AnomalyRecorded,
    CallClosed,
    CallRemoved,
    CloseReason,
    ManualOutcomeRecorded,
    OutcomeReported,
    OutputDenied,
    OutputFailed,
    OutputPartial,
    OutputReady,
    SnapshotReceived,
)
from toolcards.core.calls.facts.run_facts import (
    ErrorReported,
    LaneStarted,
    MessageStarted,
    Outcome,
    RunEnded,
    RunFact,
    RunStarted,
    StepFinished,
    StepReset,
    StepStarted,
    TextDelta,
)

__all__ = [
    "BY_TYPE",
    "CALL_FACTS",
    "RUN_FACTS",
    "Actor",
    "AgentPresenceChanged",
    "AnomalyRecorded",
    "AnyFact",
    "ApprovalAnswered",
    "ApprovalChanged",
    "ApprovalEscalated",
    "ApprovalInputChanged",
    "ApprovalRequested",
    "CallClosed",
    "CallFact",
    "CallRemoved",
    "CloseReason",
    "ErrorReported",
    "InputChunk",
    "InputDelta",
    "InputInvalid",
    "InputPiece",
    "InputReady",
    "InputRepaired",
    "InputStarted",
    "LaneStarted",
    "ManualOutcomeRecorded",
    "MessageStarted",
    "Outcome",
    "OutcomeReported",
    "OutputDenied",
    "OutputFailed",
    "OutputPartial",
    "OutputReady",
    "PermitChanged",
    "PolicyDecided",
    "RunEnded",
    "RunFact",
    "RunStarted",
    "SnapshotReceived",
    "StepFinished",
    "StepReset",
    "StepStarted",
    "TextDelta",
    "VoteCounted",
    "dump",
    "load",
]
