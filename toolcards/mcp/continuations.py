"""Calls that the server continues with more requests (multi round-trip requests, protocol 2026-07-28).

Each request is a call of its own for the gate, which may have changed its mind, and its card shows the answers.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from toolcards.client.common.canonical_json import NotCanonical, digest
from toolcards.mcp.messages import Message, get_object, get_text, make_tool_error

# What a call answers that still waits for a person at its time limit: the same call again gets the decision.
#
# A client of protocol 2026-07-28 sends it again by itself: the answer is `input_required` with a state and no question,
# which the official clients (TypeScript 2.4, Python 2.3) repeat up to ten times. Other clients, and the last answer,
# say it to the model in words. The state only counts, and lets nothing run: the call is found by its digest.
ASK_AGAIN = (
    "Waiting for approval: a person was asked and has not answered yet (approval {id}). The call has not run, and it"
    " is not denied. To get the answer, call the same tool again with exactly the same arguments. Other arguments are"
    " a new question."
)
VERSION = "io.modelcontextprotocol/protocolVersion"  # in `_meta` of requests, from protocol 2026-07-28 on
STATE_PROTOCOL = "2026-07-28"  # the first that has states; versions are dates
STATE = "toolcards-waits:"
MAX_WAITS = 9  # answers with a state; official clients give up after ten


def take_waits(request: Message) -> tuple[Message, int]:
    """Return the request without our state, and the count in it."""
    params = get_object(request, "params")
    head, mark, number = get_text(params, "requestState").partition(STATE)
    if not mark or head:
        return request, 0
    own_params = {name: value for name, value in params.items() if name != "requestState"}
    return request | {"params": own_params}, int(number) if number.isdecimal() and len(number) < 3 else MAX_WAITS


def answer_waiting(request: Message, waits: int, approval: str) -> Message:
    """Return the answer to a request whose call still waits.

    A request that continues a call of the server has a state of its own, so it is answered in words.
    """
    params = get_object(request, "params")
    has_states = get_text(get_object(params, "_meta"), VERSION) >= STATE_PROTOCOL
    if not has_states or waits >= MAX_WAITS or "requestState" in params or "inputResponses" in params:
        return make_tool_error(request["id"], ASK_AGAIN.format(id=approval), "waiting")
    result = {"resultType": "input_required", "requestState": f"{STATE}{waits + 1}"}
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


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
