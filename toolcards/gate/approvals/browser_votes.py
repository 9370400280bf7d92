"""Votes from browsers: the session's person is looked up in the transaction of the vote, once for each commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from toolcards.core.calls.card import Card
from toolcards.gate import memo
from toolcards.gate.approvals.votes import Ballot, CastVote
from toolcards.gate.refusals import NotAllowed
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Run


class Voter(NamedTuple):
    """A person who is signed in, and since when (epoch seconds)."""

    person: Any
    signed_in_at: float


class VotedCall(NamedTuple):
    """A call after a vote: its run with the source, its primary key, and its card."""

    run: Run
    pk: int
    card: Card


class CastSessionVote(CastVote):
    """The vote of the person whose session it is. The answer is a VotedCall."""

    def __init__(self, session: str, find_voter: Callable[[], Voter | None], ballot: Ballot) -> None:
        super().__init__(None, ballot)
        self.session, self.find_voter = session, find_voter

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        voter = memo.recall((CastSessionVote, self.session), self.find_voter)
        # The check of every vote comes later, and not at all for a repeated vote, whose answer is the card.
        if voter is None or not voter.person.has_perm("toolcards.vote"):
            raise NotAllowed("Sign in as a person who can vote.")
        self.person, self.ballot = voter.person, replace(self.ballot, signed_in_at=voter.signed_in_at)
        super().apply(tx)
        run = tx.load_run(self.row.run_id).row
        assert run.source is not None  # read here if it is not cached, because the event loop reads nothing
        self.answer = VotedCall(run, self.row.call_id, self.answer)
