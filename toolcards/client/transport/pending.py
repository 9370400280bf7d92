"""The calls of a run that wait for a decision over its socket, and their unique ids."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

from ..decisions.answers import Decision, check_answer, make_denial
from ..decisions.question import CallRequest

__all__ = ["Pending", "PendingQuestions", "WireIds"]


class WireIds:
    """Gives each call of a run a unique id: a repeated one becomes `id#2`, then `id#3`.

    Models and providers reuse ids, even in parallel calls, and sub-agents count from the start.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uses: dict[str, int] = {}

    def make_unique(self, call_id: str) -> str:
        """Return the id, or a variant that is unique in this run."""
        with self._lock:
            name, use = call_id, self._uses.get(call_id, 0)
            while name in self._uses:
                use += 1
                name = f"{call_id}#{use}"
            self._uses[call_id] = max(use, 1)
            self._uses.setdefault(name, 1)
            return name


class Pending:
    """One question that waits for its answer, in the loop of its run."""

    def __init__(self, question: CallRequest, frame: dict[str, Any]) -> None:
        self.question, self.frame = question, frame
        self.is_received = asyncio.Event()  # the server has the question: a person may be reading it
        self.answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

    def resolve(self, decision: Decision) -> None:
        """Record a decision; the first final one counts."""
        self.is_received.set()
        if not decision.waiting and not self.answer.done():
            self.answer.set_result(decision)


class PendingQuestions:
    """All pending questions of a run, by the call's id on the wire."""

    def __init__(self) -> None:
        self._by_id: dict[str, Pending] = {}

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._by_id

    def add(self, question: CallRequest, frame: dict[str, Any]) -> Pending:
        """Start waiting for an answer; `frame` asks for it."""
        pending = self._by_id[question.call_id] = Pending(question, frame)
        return pending

    def drop(self, pending: Pending) -> None:
        """Stop waiting."""
        self._by_id.pop(pending.question.call_id, None)

    def frames(self) -> Iterator[dict[str, Any]]:
        """Yield the frames that ask every open question again."""
        yield from [pending.frame for pending in self._by_id.values() if not pending.answer.done()]

    def receive(self, message: dict[str, Any]) -> bool:
        """Pass on a decision of the server.

        Return False if no call waits for it.
        """
        pending = self._by_id.get(str(message.get("call_id")))
        if pending is not None:
            pending.resolve(check_answer(message, pending.question, "message"))
        return pending is not None

    def deny(self, call_id: str, text: str, code: str) -> None:
        """Answer one question, if pending, with a deny of the client."""
        pending = self._by_id.get(call_id)
        if pending is not None:
            pending.resolve(make_denial(text, call_id, code))

    def deny_all(self, text: str) -> None:
        """Answer every question with a deny made by the client."""
        for call_id, pending in self._by_id.items():
            pending.resolve(make_denial(text, call_id))
