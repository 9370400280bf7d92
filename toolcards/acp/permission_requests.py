"""Permission requests for the gate: one thread each, one answer each, canceled with their turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolcards.acp.sessions import Sessions
from toolcards.client import Decision, Toolcards

Message = dict[str, Any]
T = TypeVar("T")
FLUSH = 10.0  # seconds that a request waits until earlier messages are committed
DUPLICATE_ID = "Another request with the same id is open, so this call did not run."
CHANGED = "A person changed the arguments, but this protocol cannot carry them, so the call did not run."


@dataclass
class PermissionRequest:
    """One open permission request of the agent."""

    id: Any
    session: str
    options: list[Any]
    call: Message
    is_answered: bool = False
    decision: Decision | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class PermissionRequests:
    """The open permission requests. Every failure is a denial."""

    def __init__(
        self, cards: Toolcards, sessions: Sessions, reply: Callable[[PermissionRequest, Message], None]
    ) -> None:
        self._cards, self._sessions, self._reply = cards, sessions, reply
        self._open: list[PermissionRequest] = []
        self._attempts: dict[tuple[str, str], int] = {}  # an agent may ask several times about one call

    def ask(self, msg: Message) -> None:
        """Submit a permission request in a thread."""
        params: Message = _get(msg, "params", dict)
        call: Message = _get(params, "toolCall", dict)
        request = PermissionRequest(msg["id"], str(params.get("sessionId") or ""), _get(params, "options", list), call)
        if any(each.id == request.id and type(each.id) is type(request.id) for each in self._open):
            self._reply(request, select_option(request.options, False, DUPLICATE_ID))  # the answers would be ambiguous
            return
        self._open.append(request)
        threading.Thread(target=self._decide, args=(request,), daemon=True).start()

    def cancel(self, session: str) -> None:
        """Answer every request of a canceled turn as canceled, and withdraw it."""
        for request in [each for each in self._open if each.session == session]:
            self._answer(request, format_cancelled())
            self._withdraw(request)

    def withdraw_all(self) -> None:
        """Withdraw every request, because the agent has gone."""
        for request in list(self._open):
            request.is_answered = True
            self._withdraw(request)

    def _withdraw(self, request: PermissionRequest) -> None:
        if request.decision is not None:
            threading.Thread(target=self._cards.withdraw, args=(request.decision,), daemon=True).start()

    def _decide(self, request: PermissionRequest) -> None:
        try:
            decision = self._get_decision(request)
        except Exception as error:
            self._answer(
                request,
                select_option(request.options, False, f"The gate gave no decision, so the call did not run: {error}"),
            )
            return
        submitted_question = decision.question
        is_changed = decision.allowed and (
            submitted_question is None or decision.args_sha256 != submitted_question.args_sha256
        )
        is_allowed = decision.allowed and not is_changed
        is_first = self._answer(
            request, select_option(request.options, is_allowed, CHANGED if is_changed else decision.text)
        )
        if decision.allowed and submitted_question is not None and not (is_allowed and is_first):  # claimed but not run
            result: Message = {"outcome": "aborted", "side_effects": "none", "attempt": submitted_question.attempt}
            self._cards.result(submitted_question.run, submitted_question.call_id, **result)
        elif not decision.waiting:
            self._cards.give_up(decision)

    def _get_decision(self, request: PermissionRequest) -> Decision:
        """Return the gate's final decision; stop waiting once the request is answered otherwise."""
        run = self._sessions.run(request.session)
        run.flush(FLUSH)
        call = self._sessions.call(request.session, request.call)
        attempt = self._attempts[run.name, call.id] = self._attempts.get((run.name, call.id), 0) + 1
        decision = request.decision = self._cards.decide(
            run.name, call.id, call.tool, call.args, agent=[run.agent], attempt=attempt
        )
        if request.is_answered:
            self._cards.withdraw(decision)
            return decision
        decision = self._cards.wait(decision, stopped=lambda: request.is_answered)
        return self._cards.claim(decision) if decision.allowed and not request.is_answered else decision

    def _answer(self, request: PermissionRequest, result: Message) -> bool:
        """Answer the agent if no one has yet; return whether this was the answer."""
        with request.lock:
            if request.is_answered:
                return False
            request.is_answered = True
        self._open.remove(request)
        self._reply(request, result)
        return True


def select_option(options: list[Any], is_allowed: bool, reason: str = "") -> Message:
    """Return the result that allows or rejects once, never always.

    Without such an option, cancel.
    """
    kind = "allow_once" if is_allowed else "reject_once"
    option = next(
        (each.get("optionId") for each in options if isinstance(each, dict) and each.get("kind") == kind), None
    )
    reason_field = {} if is_allowed or not reason else {"_meta": {"toolcards": {"reason": reason}}}
    if not isinstance(option, str):
        return format_cancelled() | reason_field
    return {"outcome": {"outcome": "selected", "optionId": option}} | reason_field


def format_cancelled() -> Message:
    """Return the result of a canceled request."""
    return {"outcome": {"outcome": "cancelled"}}


def _get(message: Message, name: str, kind: Callable[[], T]) -> T:
    value: Any = message.get(name)
    return value if isinstance(value, type(kind())) else kind()
