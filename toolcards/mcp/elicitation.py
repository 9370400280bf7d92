"""Forms that the MCP server shows its user (`elicitation/create`), answered by a person in the inbox.

The gateway takes the forms of a client that does not declare the capability `elicitation`: it declares it to the
server in the client's place. Until protocol 2025-11-25 a form is a request of the server; from 2026-07-28 on, the
server answers a request with `input_required`, and the gateway repeats the request with the answers (multi round-trip
requests).
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from toolcards.client import Decision, Toolcards
from toolcards.mcp.gate_link import LINGER, PAUSE, Reports, wait_for_answer
from toolcards.mcp.messages import ELICIT, Message, format_id, get_object, get_text, is_request, is_response

AUTO, INBOX, CLIENT = "auto", "inbox", "client"
MODES = (AUTO, INBOX, CLIENT)  # who answers: the inbox if the client cannot, always the inbox, always the client
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"  # in `_meta` of requests, from protocol 2026-07-28 on
OFFER = {"name": ELICIT, "description": "A form of the MCP server, filled in by a person."}
MAX_ROUNDS = 10  # repetitions of one request; the official clients have the same limit
MAX_OPEN = 100  # forms of one session at a time
CANCEL: Message = {"action": "cancel"}
DECLINE: Message = {"action": "decline"}


class Elicitations:
    """The forms of one session: which ones the gateway takes, and the answers. From any thread."""

    def __init__(self, cards: Toolcards, run: str, server: str, reports: Reports, mode: str = AUTO) -> None:
        self._cards, self._run, self._server, self._reports, self._mode = cards, run, server, reports, mode
        self._lock = threading.Lock()
        self._is_session_ours = False  # by the `initialize` request
        self._requests: set[str] = set()  # keys of requests that declared the capability in the client's place
        self._open: dict[str, threading.Event] = {}  # waiting forms by the key of their request; the event stops one
        self._has_ended = False
        self.agent = ""

    # ------------------------------------------------------------ what is declared

    def declare(self, request: Message) -> Message:
        """Return the request with the capability for forms that the gateway answers."""
        params = get_object(request, "params")
        if request.get("method") == "initialize":
            capabilities = self._add_capability(get_object(params, "capabilities"))
            self._is_session_ours = capabilities is not None
            return request if capabilities is None else request | {"params": params | {"capabilities": capabilities}}
        meta = get_object(params, "_meta")
        if CAPABILITIES not in meta:
            return request
        capabilities = self._add_capability(get_object(meta, CAPABILITIES))
        if capabilities is None:
            return request
        with self._lock:
            self._requests.add(format_id(request["id"]))
        return request | {"params": params | {"_meta": meta | {CAPABILITIES: capabilities}}}

    def _add_capability(self, capabilities: Message) -> Message | None:
        """Return the capabilities with forms; None if the client answers forms itself."""
        own = capabilities.get("elicitation")
        has_forms = isinstance(own, dict) and ("form" in own or "url" not in own)
        if self._mode == CLIENT or (self._mode == AUTO and has_forms):
            return None
        return capabilities | {"elicitation": {**(own if isinstance(own, dict) else {}), "form": {}}}

    def adopts(self, request: Any) -> bool:
        """Return whether responses to this request may hold forms for the gateway."""
        if not is_request(request):
            return self._is_session_ours
        with self._lock:
            return self._is_session_ours or format_id(request["id"]) in self._requests

    # ------------------------------------------------------------ what the server sends

    def takes(self, message: Any) -> bool:
        """Return whether the message is a form that the gateway answers."""
        return (
            self._is_session_ours
            and is_request(message, ELICIT)
            and get_text(get_object(message, "params"), "mode") in {"", "form"}
        )

    def find_forms(self, response: Any) -> dict[str, Message] | None:
        """Return the forms of a response by their keys.

        None if the response has no forms, or the client answers them.
        """
        if not is_response(response) or get_text(get_object(response, "result"), "resultType") != "input_required":
            return None
        with self._lock:
            if format_id(response["id"]) not in self._requests:
                return None
        forms = get_object(get_object(response, "result"), "inputRequests")
        is_ours = all(
            isinstance(form, dict) and form.get("method") == ELICIT
            and get_text(get_object(form, "params"), "mode") in {"", "form"} for form in forms.values()
        )  # fmt: skip
        return {name: get_object(form, "params") for name, form in forms.items()} if forms and is_ours else None

    def forget(self, request_id: Any) -> None:
        """Remove a request that has its response."""
        with self._lock:
            self._requests.discard(format_id(request_id))

    def cancel(self, request_id: Any) -> bool:
        """Stop a form by request id; return whether it was waiting here."""
        with self._lock:
            stop = self._open.get(format_id(request_id))
        if stop is not None:
            stop.set()
        return stop is not None

    def cancel_all(self) -> None:
        """Stop all waiting forms."""
        with self._lock:
            open_forms = list(self._open.values())
        for stop in open_forms:
            stop.set()

    def end(self) -> None:
        """Stop all forms, and accept no more.

        Waits until they are withdrawn, up to LINGER seconds.
        """
        self._has_ended = True
        self.cancel_all()
        deadline = time.monotonic() + LINGER
        while self._open and time.monotonic() < deadline:
            time.sleep(PAUSE)

    # ------------------------------------------------------------ asking

    def ask(self, request: Message, is_stopped: Callable[[], bool] = lambda: False) -> Message:
        """Return the response to a form once a person has answered it."""
        result = self._ask(format_id(request["id"]), get_object(request, "params"), is_stopped)
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}

    def ask_all(self, forms: dict[str, Message], is_stopped: Callable[[], bool] = lambda: False) -> Message:
        """Return the answers to forms of one response, by their keys.

        People see all of them at once.
        """
        with ThreadPoolExecutor(max_workers=min(len(forms), MAX_OPEN)) as pool:
            waiting = {key: pool.submit(self._ask, uuid.uuid4().hex, form, is_stopped) for key, form in forms.items()}
            return {key: each.result() for key, each in waiting.items()}

    def _ask(self, key: str, params: Message, is_stopped: Callable[[], bool]) -> Message:
        stop = threading.Event()
        with self._lock:
            if self._has_ended or len(self._open) >= MAX_OPEN or key in self._open:
                return CANCEL
            self._open[key] = stop
        try:
            return self._ask_person(params, lambda: stop.is_set() or is_stopped())
        finally:
            with self._lock:
                self._open.pop(key, None)

    def _ask_person(self, params: Message, is_stopped: Callable[[], bool]) -> Message:
        """Return the result of the form; anything but a person's answer or denial is a cancel."""
        self._reports.begin()
        call_id = f"form-{uuid.uuid4().hex[:12]}"
        form: Message = {name: params[name] for name in ("message", "requestedSchema") if name in params}
        tool = {"name": ELICIT, "source": self._server, "title": "Form of the MCP server"}
        decision = self._cards.decide(self._run, call_id, tool, form, agent=[self.agent or "mcp"], tools=[OFFER])
        question = decision
        decision = wait_for_answer(self._cards, decision, is_stopped)
        if is_stopped() and not decision.allowed:
            self._cards.withdraw(question)
            return CANCEL
        if decision.allowed:
            decision = self._cards.claim(decision)
        result = _read_result(decision, form)
        if decision.allowed and is_stopped():
            self._reports.add(call_id, outcome="aborted")
        elif decision.allowed:
            self._reports.add(call_id, output=result)
        return CANCEL if is_stopped() else result


def _read_result(decision: Decision, form: Message) -> Message:
    if not decision.allowed:
        return DECLINE if decision.by == "human" else CANCEL
    args = decision.args if decision.args is not None else form
    answers = args.get("answers") if isinstance(args, dict) else None
    if isinstance(answers, dict):
        return {"action": "accept", "content": answers}
    has_fields = bool(get_object(get_object(form, "requestedSchema"), "properties"))
    return CANCEL if has_fields else {"action": "accept", "content": {}}


def build_repetition(request: Message, response: Message, answers: Message, number: Any) -> Message:
    """Return the request with the answers, under an id of the gateway."""
    params = get_object(request, "params")
    params = {name: value for name, value in params.items() if name not in {"inputResponses", "requestState"}}
    result = get_object(response, "result")
    state = {"requestState": result["requestState"]} if "requestState" in result else {}
    return request | {"id": number, "params": params | {"inputResponses": answers} | state}
