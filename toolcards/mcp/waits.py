"""What a call answers that still waits for a person at its time limit: the same call again gets the decision.

A client of protocol 2026-07-28 sends it again by itself: the answer is `input_required` with a state and no question,
which the official clients (TypeScript 2.4, Python 2.3) repeat up to ten times. Other clients, and the last answer,
say it to the model in words. The state only counts, and lets nothing run: the call is found by its digest.
"""

from __future__ import annotations

from toolcards.mcp.messages import Message, get_object, get_text, make_tool_error

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
