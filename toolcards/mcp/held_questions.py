"""Questions of one session that outlive their requests, so that a client with a short limit gets each answer.

Before the client's limit a waiting call is answered (see `waits`), and its question stays. The same call again
(same tool, definition, arguments and answers to the server) attaches to it: it is asked under the same call id, for
which the gate has one question and one permit. Changed arguments are a new question. A call that arrives while its twin
waits shares the twin's question, and one approval runs one of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolcards.client import Decision, Toolcards
from toolcards.client.common.canonical_json import NotCanonical, digest
from toolcards.client.decisions.answers import make_denial
from toolcards.mcp.gate_link import wait_for_answer

RAN_ONCE = "This call was approved once, and an identical call has used the approval. Call the tool again to ask again."
REQUEST_ENDED = "The request ended. Another one waits for the answer."
MAX_OPEN = 1_000  # the oldest ones without a request are withdrawn
Key = tuple[str, ...]


class Requester(Protocol):
    """A request that waits for a decision."""

    id: str
    decision: Decision | None
    is_cancelled: bool
    began: float


@dataclass
class _Question:
    """One question, and how many open requests wait for its answer."""

    call_id: str
    requests: int = 0
    decision: Decision | None = None  # that said that it waits
    is_over: bool = False  # it has its answer, or was never asked: the next same call is a new one
    is_used: bool = False  # a request has its permit
    lock: threading.Lock = field(default_factory=threading.Lock)  # of asking, so that twins ask once


class HeldQuestions:
    """The questions of a session by their calls. From any thread. `seconds`: after which a request ends, 0 for never.

    `decide` in `get_decision` asks the gate under the call id that it gets.
    """

    def __init__(self, cards: Toolcards, seconds: float) -> None:
        self._cards, self._seconds = cards, seconds
        self._lock = threading.Lock()
        self._open: dict[Key, _Question] = {}

    def get_decision(self, call: Requester, key: Key, decide: Callable[[str], Decision]) -> Decision:
        """Return the final decision, its permit claimed if it is an allow.

        It still waits if the request has to end before its answer; then the question stays.
        """
        while True:
            question, is_kept = self._join(call, key), False
            try:
                decision = self._ask(call, question, decide)
                if decision is None:
                    continue
                if decision.by == "client" and question.decision is not None:  # the gate was not reached, and still
                    is_kept = True  # has the question
                    return decision
                decision = wait_for_answer(self._cards, decision, lambda: call.is_cancelled or self._is_late(call))
                is_kept = decision.waiting and not call.is_cancelled
                return decision if is_kept else self._conclude(call, question, decision)
            finally:
                self._leave(key, question, is_kept=is_kept)

    def end(self) -> None:
        """Withdraw every question that waits."""
        with self._lock:
            questions = list(self._open.values())
            self._open.clear()
        self._withdraw(questions)

    def _withdraw(self, questions: list[_Question]) -> None:
        for question in questions:
            if question.decision is not None:
                self._cards.withdraw(question.decision)

    def _is_late(self, call: Requester) -> bool:
        return self._seconds > 0 and time.monotonic() >= call.began + self._seconds

    def _join(self, call: Requester, key: Key) -> _Question:
        with self._lock:
            question = self._open.setdefault(key, _Question(call.id))
            question.requests += 1
            idle_keys = [each for each in self._open if not self._open[each].requests]
            oldest = [self._open.pop(each) for each in idle_keys[: max(0, len(self._open) - MAX_OPEN)]]
        self._withdraw(oldest)
        return question

    def _ask(self, call: Requester, question: _Question, decide: Callable[[str], Decision]) -> Decision | None:
        """Ask the gate: a call that was asked before gets the present decision.

        None if a twin had an answer of its own meanwhile.
        """
        with question.lock:
            if question.is_over:
                return None
            decision = decide(question.call_id)
            if decision.waiting:
                question.decision = decision
            question.is_over = question.decision is None
        call.id, call.decision = question.call_id, decision
        return decision

    def _conclude(self, call: Requester, question: _Question, decision: Decision) -> Decision:
        """Return the final decision for this request; of twins, one gets the permit."""
        with self._lock:
            if call.is_cancelled and question.requests > 1:
                call.decision = None  # the question belongs to the others
                return make_denial(REQUEST_ENDED, call.id, "cancelled")
            if question.is_used:
                return make_denial(RAN_ONCE, call.id, "used")
            question.is_used, question.is_over = decision.allowed, not call.is_cancelled
        if call.is_cancelled:
            return decision
        if decision.allowed:
            call.decision = decision = self._cards.claim(decision)
        else:
            self._cards.give_up(decision)
        return decision

    def _leave(self, key: Key, question: _Question, *, is_kept: bool) -> None:
        """Forget the question once it has its answer, or is withdrawn."""
        with self._lock:
            question.requests -= 1
            if is_kept:
                self._open.setdefault(key, question)
            elif (question.is_over or not question.requests) and self._open.get(key) is question:
                del self._open[key]


def make_key(*parts: Any) -> Key:
    """Return the key of a call.

    It equals no other if the call has no canonical form.
    """
    try:
        return (digest(list(parts)),)
    except NotCanonical:
        return ("", f"{time.monotonic_ns()}.{threading.get_ident()}")
