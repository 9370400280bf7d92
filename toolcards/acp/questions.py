"""Permission requests that the gate answers: asked in a thread each, answered once, cancelled with their turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolcards.acp.sessions import Sessions
from toolcards.client import Decision, Toolcards

Said = dict[str, Any]
T = TypeVar("T")
FLUSH = 10.0  # seconds that a question waits for what was said before it
TWICE = "Another request with the same id is open: nothing ran."
CHANGED = "A person changed the arguments, and this protocol cannot carry them: nothing ran."


@dataclass
class Question:
    """One request of the agent that is not answered yet."""

    id: Any
    session: str
    options: list[Any]
    call: Said
    answered: bool = False
    decision: Decision | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Questions:
    """The open ones. Whatever goes wrong, the answer is a no."""

    def __init__(self, cards: Toolcards, sessions: Sessions, reply: Callable[[Question, Said], None]) -> None:
        self._cards, self._sessions, self._reply = cards, sessions, reply
        self._open: list[Question] = []
        self._attempts: dict[tuple[str, str], int] = {}  # an agent may ask more than once about one call

    def ask(self, msg: Said) -> None:
        """Ask the gate about a permission request, aside."""
        told: Said = _of(msg, "params", dict)
        call: Said = _of(told, "toolCall", dict)
        question = Question(msg["id"], str(told.get("sessionId") or ""), _of(told, "options", list), call)
        if any(each.id == question.id and type(each.id) is type(question.id) for each in self._open):
            self._reply(question, chosen(question.options, False, TWICE))  # nobody could tell the answers apart
            return
        self._open.append(question)
        threading.Thread(target=self._decide, args=(question,), daemon=True).start()

    def cancel(self, session: str) -> None:
        """The turn is cancelled: every question of it is answered so, and taken back."""
        for question in [each for each in self._open if each.session == session]:
            self._answer(question, cancelled())
            self._withdraw(question)

    def withdraw_all(self) -> None:
        """The agent is gone."""
        for question in list(self._open):
            question.answered = True
            self._withdraw(question)

    def _withdraw(self, question: Question) -> None:
        if question.decision is not None:
            threading.Thread(target=self._cards.withdraw, args=(question.decision,), daemon=True).start()

    def _decide(self, question: Question) -> None:
        try:
            decision = self._asked(question)
        except Exception as error:
            self._answer(question, chosen(question.options, False, f"The gate could not be asked: {error}"))
            return
        asked = decision.question
        changed = decision.allowed and (asked is None or decision.args_sha256 != asked.args_sha256)
        allowed = decision.allowed and not changed
        taken = self._answer(question, chosen(question.options, allowed, CHANGED if changed else decision.text))
        if decision.allowed and asked is not None and not (allowed and taken):  # claimed, and not run
            self._cards.result(asked.run, asked.call_id, outcome="aborted", attempt=asked.attempt)

    def _asked(self, question: Question) -> Decision:
        """The gate's final word; the question waits for nothing once it is answered otherwise."""
        run = self._sessions.run(question.session)
        run.flush(FLUSH)
        call = self._sessions.call(question.session, question.call)
        attempt = self._attempts[run.name, call.id] = self._attempts.get((run.name, call.id), 0) + 1
        decision = question.decision = self._cards.decide(
            run.name, call.id, call.tool, call.args, agent=[run.agent], attempt=attempt
        )
        if question.answered:
            self._cards.withdraw(decision)
            return decision
        decision = self._cards.wait(decision, stopped=lambda: question.answered)
        return self._cards.claim(decision) if decision.allowed and not question.answered else decision

    def _answer(self, question: Question, result: Said) -> bool:
        """Answer the agent, unless somebody has; return whether this was the answer."""
        with question.lock:
            if question.answered:
                return False
            question.answered = True
        self._open.remove(question)
        self._reply(question, result)
        return True


def chosen(options: list[Any], allowed: bool, reason: str = "") -> Said:
    """Return the result that allows or rejects this once; never for always. Without such an option it is no yes."""
    wanted = "allow_once" if allowed else "reject_once"
    option = next(
        (each.get("optionId") for each in options if isinstance(each, dict) and each.get("kind") == wanted), None
    )
    told = {} if allowed or not reason else {"_meta": {"toolcards": {"reason": reason}}}
    if not isinstance(option, str):
        return cancelled() | told
    return {"outcome": {"outcome": "selected", "optionId": option}} | told


def cancelled() -> Said:
    """Return the result of a request whose turn is over."""
    return {"outcome": {"outcome": "cancelled"}}


def _of(told: Said, name: str, kind: Callable[[], T]) -> T:
    value: Any = told.get(name)
    return value if isinstance(value, type(kind())) else kind()
