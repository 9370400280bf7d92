"""Calls that the server continues with more requests (multi round-trip requests, protocol 2026-07-28).

Each request is a call of its own for the gate, which may have changed its mind, and its card shows the answers.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from toolcards.client.common.canonical_json import NotCanonical, digest
from toolcards.mcp.messages import Message, get_object, get_text

MAX_OPEN = 1_000
MAX_EQUAL = 100  # open calls of one tool, arguments and state
MAX_ROUNDS = 10  # requests after the first; the official clients have the same limit
LONGEST_NOTE = 20_000  # characters, which the card shows whole while the call waits
TOO_MANY = f"The server continued this call more than {MAX_ROUNDS} times, so it was not continued."
TOO_LONG = f"The answers to the server have more than {LONGEST_NOTE} characters, so no one could read them all."


class Continuations:
    """The rounds of open calls, by tool, digest of the arguments, and state to return. From any thread.

    Equal calls with one state look the same: the one with most rounds is continued first, so none begins again.
    """

    def __init__(self) -> None:
        self._rounds: dict[tuple[str, str, str], list[int]] = {}
        self._lock = threading.Lock()

    def keep(self, call: Message, result: Message, rounds: int) -> None:
        """Remember that the server asks for another request."""
        key = _make_key(call, get_text(result, "requestState"))
        with self._lock:
            if key is not None:
                self._rounds[key] = sorted([*self._rounds.get(key, ()), rounds])[-MAX_EQUAL:]
            while len(self._rounds) > MAX_OPEN:
                del self._rounds[next(iter(self._rounds))]

    def count(self, params: Message) -> int:
        """Return how many requests of the call came before this one."""
        if not is_continuation(params):
            return 0
        key = _make_key(params, get_text(params, "requestState"))
        with self._lock:
            rounds = self._rounds.get(key, [0]) if key is not None else [0]
            most = rounds.pop()
            if not rounds and key is not None:
                self._rounds.pop(key, None)
            return 1 + most


def is_continuation(params: Message) -> bool:
    """Return whether a request continues a call."""
    return "requestState" in params or "inputResponses" in params


def describe_answers(params: Message, number: int) -> str:
    """Return the note for the card: what the request answers."""
    answers = json.dumps(get_object(params, "inputResponses"), ensure_ascii=False)
    return f"Continues the call, request {number + 1}. Answers: {answers}"


def _make_key(call: Message, state: str) -> tuple[str, str, str] | None:
    try:
        arguments: Any = call.get("arguments", {})
        return get_text(call, "name"), digest(arguments), state
    except NotCanonical:
        return None
