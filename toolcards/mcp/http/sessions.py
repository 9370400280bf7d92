"""The sessions of the HTTP gateway, by the id that the MCP server gave them."""

from __future__ import annotations

import threading
import time
from typing import Any

from toolcards.client import Toolcards
from toolcards.mcp.elicitation import AUTO
from toolcards.mcp.messages import CANCELLED, get_object
from toolcards.mcp.session import Session

MAX_SESSIONS = 1_000
END_SECONDS = 8.0  # that the end of the gateway waits for its sessions


class GatewaySessions:
    """The open sessions by their id; calls without one belong to the session of the process."""

    def __init__(
        self, cards: Toolcards, server: str, agent: str, elicitation: str = AUTO, answer_within: float = 0,
        place: str = "",
    ) -> None:  # fmt: skip
        self._cards, self._server, self._agent, self._elicitation = cards, server, agent, elicitation
        self._answer_within, self._place = answer_within, place
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()

    def get(self, number: str) -> Session:
        """Return the session, beginning it on first use."""
        with self._lock:
            session = self._sessions.pop(number, None) or self.begin()
            self._sessions[number] = session  # the last one is the one used last
            oldest = next(iter(self._sessions)) if len(self._sessions) > MAX_SESSIONS else None
        if oldest is not None:
            self.end(oldest)
        return session

    def adopt(self, number: str, session: Session) -> None:
        """Take the session of an `initialize` request under its new id."""
        with self._lock:
            self._sessions.setdefault(number, session)

    def begin(self) -> Session:
        """Return a session that has no id yet."""
        return Session(
            self._cards, server=self._server, agent=self._agent, elicitation=self._elicitation,
            answer_within=self._answer_within, place=self._place,
        )  # fmt: skip

    def end(self, number: str) -> None:
        """End a session."""
        with self._lock:
            session = self._sessions.pop(number, None)
        if session is not None:
            session.end()

    def end_all(self) -> None:
        """End every session, all at once, within END_SECONDS."""
        end = time.monotonic() + END_SECONDS
        threads = [threading.Thread(target=self.end, args=(number,), daemon=True) for number in list(self._sessions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))


def pass_cancellations(session: Session, message: Any) -> Any:
    """Cancel the calls that the message cancels, in a batch too.

    Return what the server must get, None for nothing.
    """
    if isinstance(message, list):
        return [each for each in message if pass_cancellations(session, each) is not None] or None
    if message.get("method") != CANCELLED:
        return message
    if not session.cancel(get_object(message, "params").get("requestId")):
        return None
    if not session.has_open_calls():
        session.elicitations.cancel_all()
    return message
