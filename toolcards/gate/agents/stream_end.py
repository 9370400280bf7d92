"""The end of a stream: which calls it closes if the protocol does not end the run itself."""

from __future__ import annotations

from typing import Any

from toolcards.core.calls import facts as f
from toolcards.core.runs.run_end import ends_card
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.gate.writer.transaction import Transaction

END_OF_STREAM = "\x00end-of-stream"


def build_end_of_stream() -> f.RunEnded:
    """Return the fact to push after the last frame of a body."""
    return f.RunEnded(reason=END_OF_STREAM)


def is_end_of_stream(content: Any) -> bool:
    """Return whether the frame is the end of a body."""
    return isinstance(content, list) and any(getattr(fact, "reason", "") == END_OF_STREAM for fact in content)


def find_run_end(memory: RunMemory) -> f.RunEnded | None:
    """Return the end of a run whose body is complete.

    None if the protocol has ended it.
    """
    context = memory.board.context
    if context.ended or not memory.seq:
        return None
    if context.error:
        return f.RunEnded(outcome="error", reason=context.error)
    return f.RunEnded(outcome="truncated", reason="The stream ended without a final status.")


def close_own_calls(
    tx: Transaction,
    memory: RunMemory,
    run_end: f.RunEnded,
    moment: float,
    *,
    touched_calls: set[int],
    gates: bool,
    is_shared: bool,
) -> bool:
    """Close only the stream's own calls if another part continues; return whether.

    Other parts are calls decided elsewhere, because an agent that polls is alive, and calls of another stream, which
    may still be open; if it is not, the run's lease expires. `touched_calls`: ordinals of the calls in the stream's
    frames; `gates`: the stream asks for decisions; `is_shared`: another connection of this process sends the same run.
    """
    open_cards = [card for card in memory.board.list_open_cards() if not card.soft]
    decided_ordinals = {card.ordinal for card in open_cards if card.decision}
    other_calls = {ordinal for ordinal in decided_ordinals if not gates or ordinal not in touched_calls}
    unanswered_cards = [card for card in open_cards if not (card.unanswered or card.awaiting_client)]
    streaming = {card.ordinal for card in unanswered_cards if ends_card(card, run_end, memory.board.context)}
    if not (is_shared or other_calls or streaming - touched_calls):
        return False
    for card in open_cards:
        if card.ordinal in touched_calls and card.ordinal not in other_calls:
            tx.record(memory, f.CallClosed(card.call_id, run_end.outcome, reason=run_end.reason, at=moment), card)
    return True
