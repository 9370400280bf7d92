"""What the clients of a scenario know: each acknowledgement, each vote and each answer, without the server's data.

Clients write into the ledger while the server breaks; `judging` compares it with the API afterwards.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Book:
    """The marks that one run's sender has sent: acknowledged, or sent without an answer."""

    acked: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    calls: dict[str, dict[str, object]] = field(default_factory=dict)
    """Acknowledged calls, and what each one's card must say."""


@dataclass
class Question:
    """A question of one agent, and what it was answered."""

    run: str
    call_id: str
    answers: list[str] = field(default_factory=list)
    """Final answers, in the order in which they came; `allow` or `deny`."""
    codes: list[str] = field(default_factory=list)
    """The reason code of each answer."""
    decision_ids: set[str] = field(default_factory=set)
    """An answer can come again after its confirmation was lost; it counts once."""
    claims: list[int] = field(default_factory=list)
    """Statuses of the claims, 0 where no answer came."""
    refusal: str = ""
    """Why there is no answer, where the server said so."""
    polls: bool = False


@dataclass
class Vote:
    """A person's vote, and the status of its answer; 0 where none came."""

    run: str
    call_id: str
    answer: str
    status: int = 0


class Ledger:
    """Everything that the clients of one scenario know, shared by their threads."""

    def __init__(self) -> None:
        self.books: dict[str, Book] = {}
        self.questions: dict[tuple[str, str], Question] = {}
        self.votes: list[Vote] = []
        self.refusals: Counter[str] = Counter()
        self._work_times: dict[str, float] = {}
        self._first: dict[str, float] = {}
        self._fault_end = 0.0
        self._lock = threading.Lock()

    def book(self, run: str) -> Book:
        """Return the run's book, new if it has none."""
        with self._lock:
            return self.books.setdefault(run, Book())

    def ask(self, run: str, call_id: str, *, polls: bool) -> Question:
        """Open a question; returns what is known of it."""
        with self._lock:
            return self.questions.setdefault((run, call_id), Question(run, call_id, polls=polls))

    def vote(self, run: str, call_id: str, answer: str) -> Vote:
        """Note a vote before it is sent."""
        vote = Vote(run, call_id, answer)
        with self._lock:
            self.votes.append(vote)
        return vote

    def succeed(self, client: str) -> None:
        """Note that a client has just got what it wanted."""
        now = time.monotonic()
        with self._lock:
            self._work_times[client] = now
            if self._fault_end:
                self._first.setdefault(client, now)

    def refuse(self, why: str) -> None:
        """Count a request that was refused, or that no answer came to."""
        with self._lock:
            self.refusals[why] += 1

    def end_fault(self) -> None:
        """Note that the fault is over: from now on, each client must succeed again."""
        with self._lock:
            self._fault_end = time.monotonic()
            self._first.clear()

    def clients(self) -> set[str]:
        """Return the clients that have ever succeeded."""
        with self._lock:
            return set(self._work_times)

    def recovery(self) -> float | None:
        """Return the seconds from the fault's end until each client had succeeded again; None if one has not."""
        with self._lock:
            if set(self._work_times) - set(self._first):
                return None
            return max((at - self._fault_end for at in self._first.values()), default=0.0)

    def stuck(self) -> list[str]:
        """Return the clients that have not succeeded since the fault's end."""
        with self._lock:
            return sorted(set(self._work_times) - set(self._first))
