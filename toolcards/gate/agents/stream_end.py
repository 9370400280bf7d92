"""The end of a stream: what it ends of its run, where the protocol itself has not said so."""

from __future__ import annotations

from toolcards.core.calls import facts as f
from toolcards.core.runs.run_end import ends_card
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction

END_OF_STREAM = "\x00end-of-stream"


def build_end_of_stream() -> f.RunEnded:
    """Return the fact that a transport pushes when a whole body has been read."""
    return f.RunEnded(reason=END_OF_STREAM)


def find_run_end(memory: RunMemory) -> f.RunEnded | None:
    """Return how the run ended whose body is over: what the protocol itself did not end is ended now."""
    context = memory.board.context
    if context.ended or not memory.seq:
        return None
    if context.error:
        return f.RunEnded(outcome="error", reason=context.error)
    return f.RunEnded(outcome="truncated", reason="The stream stopped without an end.")


def close_own_calls(
    tx: Transaction, memory: RunMemory, ended: f.RunEnded, at: float, *, touched: set[int], gates: bool, shared: bool
) -> bool:
    """End only what the stream began, if anything else of its run goes on; return whether anything does.

    What goes on is what was judged elsewhere, since an agent that polls is alive, and what another stream began, which
    may still be open: if it is not, the run's lease says so. `touched`: ordinals of the calls that the stream spoke of;
    `gates`: it asks for decisions; `shared`: another connection of this process sends the run too.
    """
    open_cards = [card for card in memory.board.list_open_cards() if not card.soft]
    judged = {card.ordinal for card in open_cards if card.decision}
    others = {ordinal for ordinal in judged if not gates or ordinal not in touched}
    unasked = [card for card in open_cards if not (card.waiting or card.awaiting_client)]
    begun = {card.ordinal for card in unasked if ends_card(card, ended, memory.board.context)}
    if not (shared or others or begun - touched):
        return False
    for card in open_cards:
        if card.ordinal in touched and card.ordinal not in others:
            tx.record(memory, f.CallClosed(card.call_id, ended.outcome, reason=ended.reason, at=at), card)
    return True
