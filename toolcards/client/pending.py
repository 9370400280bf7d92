"""The calls of a run that wait for a decision over its socket, and the ids that keep them apart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

from .answers import Decision, check_answer, make_denial
from .question import Question

__all__ = ["Pending", "PendingQuestions", "WireIds"]


class WireIds:
    """Gives each call of a run an id of its own: one that comes again becomes `id#2`, then `id#3`.

    Models and providers use ids again, in parallel calls too, and sub-agents count from the start.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uses: dict[str, int] = {}

    def unique(self, call_id: str) -> str:
        """Return the id, or the first of its variants that no call of this run has yet."""
        with self._lock:
            name, use = call_id, self._uses.get(call_id, 0)
            while name in self._uses:
                use += 1
                name = f"{call_id}#{use}"
            self._uses[call_id] = max(use, 1)
            self._uses.setdefault(name, 1)
            return name


class Pending:
    """One question whose answer is awaited, in the loop of its run."""

    def __init__(self, question: Question, frame: dict[str, Any]) -> None:
        self.question, self.frame = question, frame
        self.heard = asyncio.Event()  # the server has this question: a person may be reading it
        self.answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

    def hear(self, decision: Decision) -> None:
        """Take what the server says; the first final word counts."""
        self.heard.set()
        if not decision.waiting and not self.answer.done():
            self.answer.set_result(decision)


class PendingQuestions:
    """All of a run, by the id of their call on the wire."""

    def __init__(self) -> None:
        self._by_id: dict[str, Pending] = {}

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._by_id

    def add(self, question: Question, frame: dict[str, Any]) -> Pending:
        """Begin to wait for an answer; `frame` is what asks for it."""
        pending = self._by_id[question.call_id] = Pending(question, frame)
        return pending

    def drop(self, pending: Pending) -> None:
        """Wait no longer."""
        self._by_id.pop(pending.question.call_id, None)

    def frames(self) -> Iterator[dict[str, Any]]:
        """Yield the frames that ask all of it once more."""
        yield from [pending.frame for pending in self._by_id.values()]

    def hear(self, message: dict[str, Any]) -> bool:
        """Take a decision of the server; return False if nobody waits for it."""
        pending = self._by_id.get(str(message.get("call_id")))
        if pending is not None:
            pending.hear(check_answer(message, pending.question, "message"))
        return pending is not None

    def deny_all(self, text: str) -> None:
        """Answer every question with a deny of the client's own."""
        for call_id, pending in self._by_id.items():
            pending.hear(make_denial(text, call_id))
