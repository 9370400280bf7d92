"""What an agent announces by itself: its own questions to people."""

from __future__ import annotations

from toolcards.core.calls import facts as f
from toolcards.core.calls.card import Card
from toolcards.core.policy.decision import AskTerms
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.decisions.eligibility import count_eligible_voters
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.gate.writer.transaction import Transaction
from toolcards.ids import new_id

_ANSWERABLE_CHANNELS = frozenset({"socket", "watch", "hook", "poll"})  # ways in on which an answer finds its way back


def fill_in_approval(tx: Transaction, memory: RunMemory, fact: f.ApprovalRequested, channel: str) -> None:
    """Fill in an approval that the agent itself announced: it can be answered here if its connection takes answers."""
    card = memory.board.find(fact.call_id) if fact.call_id else memory.board.find_approval_card(fact)
    heard = channel in _ANSWERABLE_CHANNELS and not (
        fact.terms.get("local") and not count_eligible_voters(AskTerms(allow_requester=True), memory.row.source)
    )
    object.__setattr__(fact, "id", new_id("apr"))
    object.__setattr__(fact, "votable", heard and not fact.automatic)
    object.__setattr__(fact, "args_sha256", _digest_question(card, fact))
    tx.approval_columns[fact.id] = {"channel": channel if fact.votable else "none"}


def _digest_question(card: Card | None, fact: f.ApprovalRequested) -> str:
    """Return the digest of the input that the question is about; the question may bring it."""
    if card is None or (not card.has_input and fact.input is not None):
        card = (card or Card("")).but(input=fact.input, has_input=fact.input is not None)
    return digest_input(card)
