"""One MCP session: its calls at the gate, its tools, and the server's responses."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from toolcards.client import Decision, Toolcards
from toolcards.client.common.input_repair import parse_offers
from toolcards.client.values.jsonable import shorten
from toolcards.client.values.repair_loop import find_trouble, make_refusal
from toolcards.mcp.continuations import LONGEST_NOTE, MAX_ROUNDS, TOO_LONG, TOO_MANY, Continuations, describe_answers
from toolcards.mcp.elicitation import AUTO, Elicitations
from toolcards.mcp.gate_link import Reports
from toolcards.mcp.held_questions import HeldQuestions, make_key
from toolcards.mcp.messages import (
    CLIENT_INFO,
    ELICIT,
    LIST,
    LIST_CHANGED,
    Message,
    find_key,
    format_id,
    get_object,
    get_text,
    is_response,
    make_tool_error,
    read_error,
    read_failure,
    read_output,
)
from toolcards.mcp.tasks import Tasks
from toolcards.mcp.tool_list import ToolList, identify
from toolcards.mcp.waits import answer_waiting, take_waits

DUPLICATE = "Another call with the same id is open, so this call did not run."
RESERVED_NAME = "This name is reserved for forms of the server, so the call did not run."
NO_DECISION = "The gateway could not get a decision, so nothing ran"
NOT_AN_OBJECT = "The arguments are not a JSON object, so the call did not run."


@dataclass
class HeldCall:
    """One `tools/call` request, from its arrival to its response."""

    request_id: Any
    id: str
    decision: Decision | None = None
    is_cancelled: bool = False
    token: Any = None  # of its progress notifications
    forwarded: Message | None = None  # the name and arguments sent to the server
    original: Message = field(default_factory=dict)  # the name and arguments of the client
    rounds: int = 0  # requests of the same call before this one
    began: float = field(default_factory=time.monotonic)

    def cancel(self) -> None:
        """Stop waiting for the decision, or for the result."""
        self.is_cancelled = True


@dataclass(frozen=True)
class HeldCallResult:
    """The result of holding a call: the request to forward, or the answer for the client; neither if canceled."""

    request: Message | None = None
    answer: Message | None = None
    changed: bool = False  # a person or a repair changed the arguments or the tool


class Session:
    """The state of one session. Every failure to get a clear permission is a denial. From any thread."""

    def __init__(
        self, cards: Toolcards, *, server: str, agent: str = "", elicitation: str = AUTO, answer_within: float = 0,
        place: str = "",
    ) -> None:  # fmt: skip
        self._cards, self._server, self._agent = cards, server, agent
        self._extras: dict[str, Any] = {"place": place, "asks_again_after": answer_within}
        self.run, self.tools = f"mcp-{uuid.uuid4().hex[:12]}", ToolList()
        self._reports = Reports(cards, self.run)
        self.elicitations = Elicitations(cards, self.run, server, self._reports, elicitation)
        self._lock = threading.Lock()
        self._calls: dict[str, HeldCall] = {}  # by the key of their request id
        self._lists: dict[str, Message] = {}  # open `tools/list` requests: their params
        self._continuations, self._questions = Continuations(), HeldQuestions(cards, answer_within)
        self._tasks: Tasks[HeldCall] = Tasks(self._finish, self._report)

    # ------------------------------------------------------------ the client's side

    def note_request(self, request: Message) -> None:
        """Note the client's name, and the requested page of the tool list."""
        params = get_object(request, "params")
        info = get_object(params, "clientInfo") or get_object(get_object(params, "_meta"), CLIENT_INFO)
        self._agent = self.elicitations.agent = self._agent or get_text(info, "name")[:200]
        self._tasks.note_request(request)
        if request.get("method") == LIST:
            with self._lock:
                self._lists[format_id(request["id"])] = params

    def begin_call(self, request: Message) -> HeldCall | None:
        """Register a `tools/call` request; return None if its id is in use."""
        self.note_request(request)
        key, call = format_id(request["id"]), HeldCall(request["id"], f"call-{uuid.uuid4().hex[:12]}")
        call.token = get_object(get_object(request, "params"), "_meta").get("progressToken")
        with self._lock:
            return call if self._calls.setdefault(key, call) is call else None

    def decide(self, call: HeldCall, request: Message) -> HeldCallResult:
        """Wait for the decision on the call, or until it is canceled."""
        try:
            return self._decide(call, request)
        except Exception as error:  # without an answer, the client would wait for ever
            if call.decision is not None and call.decision.allowed:
                self._report(call, outcome="aborted", side_effects="none")
            return self._refuse(call, f"{NO_DECISION}: {error}", "gate_error")

    def _decide(self, call: HeldCall, request: Message) -> HeldCallResult:
        request, waits = take_waits(request)
        params = get_object(request, "params")
        name, args = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(args, dict):
            return self._refuse(call, NOT_AN_OBJECT, "invalid_input")
        if name == ELICIT:  # the gate would take it for a form, whose terms are milder
            return self._refuse(call, RESERVED_NAME, "invalid_input")
        call.rounds = max(call.rounds, self._continuations.count(params))
        if call.rounds > MAX_ROUNDS:
            return self._refuse(call, TOO_MANY, "invalid_input")
        note = describe_answers(params, call.rounds) if call.rounds else ""
        if len(note) > LONGEST_NOTE:
            return self._refuse(call, TOO_LONG, "invalid_input")
        definition, original_args = self.tools.find(name), args
        decision = self._get_decision(call, name, args, definition, note)
        if call.is_cancelled:
            self._withdraw(call, decision)
            return HeldCallResult()
        if decision.waiting:
            self._drop(call)
            return HeldCallResult(answer=answer_waiting(request, waits, decision.approval))
        if not decision.allowed:
            return self._refuse(call, decision.text or "This call was denied.", decision.code)
        if decision.edited:
            name, args = decision.tool or name, decision.args
            offers = parse_offers([definition]) if definition is not None else {}
            trouble = find_trouble(name, args, offers) if isinstance(args, dict) else None
            if trouble is not None or not isinstance(args, dict):
                text = make_refusal(trouble, offers, call.id).text if trouble is not None else NOT_AN_OBJECT
                self._report(call, error={"message": text, "code": "invalid_input", "phase": "validate"})
                return self._refuse(call, text, "invalid_input")
        call.original = {"name": params["name"], "arguments": original_args}
        call.forwarded = {"name": name, "arguments": args}
        return HeldCallResult(request | {"params": params | call.forwarded}, changed=decision.edited)

    def repeat(self, call: HeldCall, repetition: Message) -> tuple[HeldCall, HeldCallResult]:
        """Ask the gate about a request with a person's answers."""
        following = HeldCall(call.request_id, f"call-{uuid.uuid4().hex[:12]}", token=call.token, rounds=call.rounds + 1)
        with self._lock:
            was_open = self._calls.get(format_id(call.request_id)) is call
            if was_open:
                self._calls[format_id(call.request_id)] = following
        if not was_open or call.is_cancelled:  # the answers are cancellations, which end the call
            return call, HeldCallResult(repetition)
        self._report(call, output={"resultType": "input_required"})
        return following, self.decide(following, repetition)

    def abandon(self, call: HeldCall, reason: str = "") -> None:
        """End a call whose client or server has disconnected."""
        call.cancel()
        self._drop(call)
        outcome: Message = {"error": {"message": reason, "code": "transport"}} if reason else {"outcome": "aborted"}
        if call.forwarded is not None:
            self._report(call, **outcome)

    def is_open(self, call: HeldCall) -> bool:
        """Return whether the call has no result yet."""
        with self._lock:
            return self._calls.get(format_id(call.request_id)) is call

    def lose(self, call: HeldCall, *, for_good: bool) -> None:
        """Report a call whose result may still arrive, unless `for_good`."""
        if for_good:
            self._drop(call)
        self._report(call, outcome="unknown")

    def find_call(self, number: Any) -> HeldCall | None:
        """Return the open call of this request id."""
        with self._lock:
            return self._calls.get(format_id(number))

    def has_open_calls(self) -> bool:
        """Return whether the server runs a call."""
        return bool(self._list_running_calls())

    def list_progress_tokens(self) -> list[Any]:
        """Return the progress tokens of the calls that the server runs."""
        return [call.token for call in self._list_running_calls() if call.token is not None]

    def _list_running_calls(self) -> list[HeldCall]:
        with self._lock:
            calls = [*self._calls.values(), *self._tasks.list_calls()]
        return [call for call in calls if call.forwarded is not None]

    def cancel(self, number: Any) -> bool:
        """Cancel a call by request id; return whether the server has it."""
        with self._lock:
            call = self._calls.get(find_key(self._calls, number))
        if call is None:
            return True
        call.cancel()
        if call.forwarded is not None:
            self.abandon(call)
        return call.forwarded is not None

    # ------------------------------------------------------------ the server's side

    def note_message(self, message: Any) -> None:
        """Read results of calls, and tools, from a message of the server."""
        if isinstance(message, list):
            for each in message:
                if not isinstance(each, list):  # batches are not nested
                    self.note_message(each)
        elif is_response(message):
            self._note_response(message)
        elif isinstance(message, dict):
            self._tasks.note_notification(message)
            if message.get("method") == LIST_CHANGED:
                self.tools.is_stale = True

    def end(self) -> None:
        """Withdraw open approvals, and report the end of the run."""
        self.elicitations.end()
        self._tasks.end()
        with self._lock:
            calls = list(self._calls.values())
        for call in calls:
            self.abandon(call)
        self._questions.end()
        self._reports.close()

    def _note_response(self, message: Message) -> None:
        result = get_object(message, "result")
        with self._lock:
            listed_params = self._lists.pop(find_key(self._lists, message["id"]), None)
            call = self._calls.get(format_id(message["id"]))
        if listed_params is not None:
            self.tools.add_page(listed_params, result)
        if call is None or call.forwarded is None:
            self._tasks.note_response(message)
            return
        self._drop(call)
        if result.get("resultType") == "input_required":
            self._continuations.keep(call.original, result, call.rounds)
        if not self._tasks.begin(call, result):
            self._finish(call, message)

    def _finish(self, call: HeldCall, message: Message) -> None:
        """Report the result of a call."""
        result = get_object(message, "result")
        if "error" in message:
            self._report(call, error=read_error(get_object(message, "error")))
        elif result.get("isError") is True:
            self._report(call, **read_failure(result))
        else:
            self._report(call, output=shorten(read_output(result)))

    # ------------------------------------------------------------ the gate

    def _get_decision(self, call: HeldCall, name: str, args: Message, offer: Message | None, note: str) -> Decision:
        """Return the final decision, its permit claimed; one that waits at the limit."""
        self._reports.begin()
        extras = self._extras | ({"tools": [offer]} if offer is not None else {}) | {"agent_note": note}
        tool = identify(name, self._server, offer, self.tools.find_other(name))
        decide = partial(self._cards.decide, self.run, tool=tool, args=args, agent=[self._agent or "mcp"], **extras)
        return self._questions.get_decision(call, make_key(tool, args, offer, note), decide)

    def _withdraw(self, call: HeldCall, decision: Decision) -> None:
        """Withdraw the approval of a canceled call, or report the permit that was claimed for it as unused."""
        self._drop(call)
        if call.decision is not None:
            self._cards.withdraw(call.decision)
        if decision.allowed:
            self._report(call, outcome="aborted", side_effects="none")
        elif not decision.waiting:
            self._cards.give_up(decision)

    def _refuse(self, call: HeldCall, text: str, code: str) -> HeldCallResult:
        self._drop(call)
        return HeldCallResult(answer=make_tool_error(call.request_id, text, code))

    def _drop(self, call: HeldCall) -> None:
        with self._lock:
            if self._calls.get(format_id(call.request_id)) is call:
                del self._calls[format_id(call.request_id)]

    def _report(self, call: HeldCall, **outcome: Any) -> None:
        attempt = call.decision.attempt if call.decision is not None else 1
        self._reports.add(call.id, attempt=attempt, duration_ms=int((time.monotonic() - call.began) * 1000), **outcome)
