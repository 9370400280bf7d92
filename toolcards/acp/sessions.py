"""Copies messages to the server: one run per session, one frame per message of a session."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolcards.client import Run, Toolcards
from toolcards.client.common.canonical_json import digest
from toolcards.client.common.tool_results import add_request, describe_request, find_differences

Message = dict[str, Any]
LONGEST = 600_000  # characters of one message; longer ones are copied without their bulky parts
LINGER = 3.0  # seconds that the end of the proxy waits for the server
BULKY = ("rawOutput", "content", "rawInput")
FINAL_STATUSES = frozenset({"completed", "failed", "cancelled"})  # the statuses of a call's last update


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """The call that a permission request is about: its id, its tool as the gate takes it, its arguments."""

    id: str
    tool: dict[str, str]
    args: Message


@dataclass(frozen=True, slots=True)
class _EditorRequest:
    """A permission request that was forwarded to the editor."""

    session: str
    options: list[Any]
    call: Message

    @classmethod
    def parse(cls, session: str, params: Message) -> _EditorRequest:
        options, call = params.get("options"), params.get("toolCall")
        return cls(session, options if isinstance(options, list) else [], call if isinstance(call, dict) else {})

    def get_option_kind(self, outcome: Message) -> str:
        """Return the kind of the selected option.

        "" unless it was offered exactly once.
        """
        selected_id = outcome.get("optionId") if outcome.get("outcome") == "selected" else None
        kinds = [
            each.get("kind") for each in self.options if isinstance(each, dict) and each.get("optionId") == selected_id
        ]
        return kinds[0] if len(kinds) == 1 and selected_id is not None and isinstance(kinds[0], str) else ""


class Sessions:
    """All sessions. Its methods do not block, and raise nothing into the relay."""

    def __init__(self, cards: Toolcards, *, agent: str, on_vote: Callable[[Message], None]) -> None:
        self._cards, self._agent, self._on_vote = cards, agent, on_vote
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()
        self._prompts: dict[str, str] = {}  # the editor's open request -> its session
        self._new_folders: dict[str, Any] = {}  # the editor's open `session/new` -> its folder
        self._folders: dict[str, Any] = {}  # session -> the first folder that it was given
        self._cancelled: set[str] = set()  # sessions whose turn is being canceled
        self._open_requests: dict[str, _EditorRequest] = {}  # by the request's id
        self.calls: dict[tuple[str, str], Message] = {}  # calls as reported so far

    def run(self, session: str) -> Run:
        """Return the session's run, opening it on first use."""
        with self._lock:
            run = self._runs.get(session)
            if run is None:
                run = self._cards.run(
                    session, agent=self._agent, gate=False, protocol="acp", heard=self._on_vote, linger=LINGER
                )
                run.__enter__()
                self._runs[session] = run
            return run

    def close(self) -> None:
        """End every run."""
        for run in list(self._runs.values()):
            run.__exit__(None, None, None)

    def copy_editor_message(self, msg: Message) -> None:
        """Send it to the run of its session; note prompts and cancels."""
        params, name = msg.get("params"), json.dumps(msg.get("id"))
        if "method" in msg:
            session = str(params.get("sessionId") or "") if isinstance(params, dict) else ""
            if isinstance(params, dict) and "cwd" in params:
                if session:
                    self._folders.setdefault(session, params["cwd"])
                else:
                    self._new_folders[name] = params["cwd"]
            if msg["method"] == "session/prompt":
                self._prompts[name] = session
            if msg["method"] == "session/cancel":
                self._cancelled.add(session)
            self._copy(session, ">", msg)

    def copy_agent_message(self, msg: Message) -> None:
        """Send it to the run of its session; responses end their prompts."""
        params, name = msg.get("params"), json.dumps(msg.get("id"))
        if "method" not in msg:
            self._note_session(self._new_folders.pop(name, None), msg)
            session = self._prompts.pop(name, "")
            self._cancelled.discard(session)
            self._copy(session, "<", msg, **({"method": "session/prompt"} if session else {}))
            return
        session = str(params.get("sessionId") or "") if isinstance(params, dict) else ""
        if isinstance(params, dict):
            self._remember(session, params)
            if msg["method"] == "session/request_permission":
                self._open_requests[name] = _EditorRequest.parse(session, params)
        self._copy(session, "<", msg)

    def _note_session(self, folder: Any, msg: Message) -> None:
        """Note the folder of a new session."""
        result = msg.get("result")
        session = result.get("sessionId") if isinstance(result, dict) else None
        if folder is not None and isinstance(session, str):
            self._folders.setdefault(session, folder)

    def take_request(self, name: str, msg: Message | None = None) -> bool:
        """Take an open request for its first answer (the editor's `msg`).

        Return False if it is not open.
        """
        request = self._open_requests.pop(name, None)
        if request is not None and msg is not None:
            kind = request.get_option_kind(_get_outcome({"reply": msg}))  # a bare option id has no meaning
            self._copy(request.session, ">", msg, **({"kind": kind} if kind else {}))
        return request is not None

    def check_vote(self, name: str, vote: Message) -> Message | None:
        """Return the result of a dashboard vote on an open request.

        None if it does not match it.
        An allow must name this run, call and input, and an option that the agent offered for one time.
        """
        request = self._open_requests.get(name)
        if request is None or vote.get("run") != request.session:
            return None
        try:
            call = self.call(request.session, request.call)
            same_input = vote.get("args_sha256") == digest(call.args)
        except ValueError:
            return None
        outcome = _get_outcome(vote)
        kind = request.get_option_kind(outcome)
        allows = kind == "allow_once" and same_input and _is_approved(vote)
        rejects = kind == "reject_once" or outcome == {"outcome": "cancelled"}
        return {"outcome": outcome} if vote.get("call_id") == call.id and (allows or rejects) else None

    def _remember(self, session: str, params: Message) -> None:
        """Remember a call's name and input, which a permission request may omit. Ids may be reused."""
        update = params.get("update")
        if not isinstance(update, dict) or "toolCallId" not in update:
            return
        key = (session, str(update["toolCallId"]))
        begins = update.get("sessionUpdate") == "tool_call"
        before = self.calls.get(key, {})
        if begins or before.get("ended"):
            self.calls[key] = {"is_ambiguous": begins and bool(before) and not before.get("ended")}
        call_fields = self.calls.setdefault(key, {})
        if begins:
            call_fields["tool"] = find_tool_name(update)
        description = describe_request(update)
        if isinstance(update.get("rawInput"), dict) and update["rawInput"]:
            call_fields["input"] = update["rawInput"]
        elif description is not None and find_differences(description.get("content")):
            call_fields["shown"] = add_request(call_fields.get("shown", description), description)
        if update.get("kind"):
            call_fields["kind"] = update["kind"]
        if update.get("status") in FINAL_STATUSES:  # what is left says only that the id may come again
            self.calls[key] = {"is_ambiguous": call_fields.get("is_ambiguous", False), "ended": True}

    def call(self, session: str, requested_call: Message) -> RequestedCall:
        """Return the call that a permission request is about.

        Raises ValueError if it is ambiguous: no id, or two open calls with one id.
        """
        call_id = str(requested_call.get("toolCallId") or "")
        if not call_id:
            raise ValueError("the request names no tool call")
        call_fields = self.calls.get((session, call_id), {})
        if call_fields.get("is_ambiguous"):
            raise ValueError(f"two calls with the id {call_id} are open")
        if call_fields.get("ended"):  # the request is about another call
            call_fields = {}
        raw_input = requested_call.get("rawInput")
        if isinstance(raw_input, dict) and raw_input:
            args: Message = raw_input
        else:
            description = describe_request(requested_call) or {}
            args = call_fields.get("input") or add_request(call_fields.get("shown", {}), description) or description
        tool = find_declared_name(requested_call) or call_fields.get("tool") or find_tool_name(requested_call)
        kinds = [each["kind"] for each in (call_fields, requested_call) if isinstance(each.get("kind"), str)]
        return RequestedCall(call_id, {"name": tool, **({"kind": kinds[-1]} if kinds else {})}, args)

    def _copy(self, session: str, direction: str, msg: Message, **more: Any) -> None:
        if session:
            more |= {"cancelled": True} if session in self._cancelled else {}
            if msg.get("method") == "session/prompt" and direction == ">" and session in self._folders:
                more |= {"cwd": self._folders[session]}
            self.run(session).send({"dir": direction, **more, "msg": _shorten(msg)})


def find_tool_name(message: Message) -> str:
    """Return the tool's declared name, else its title, as the adapter does."""
    title = message.get("title")
    return find_declared_name(message) or (title if isinstance(title, str) and title else "tool")


def find_declared_name(message: Message) -> str:
    """Return the tool's declared name, "" if it has only a title."""
    meta = message.get("_meta")
    details = meta.get("claudeCode") if isinstance(meta, dict) else None
    names = (message.get("name"), details.get("toolName") if isinstance(details, dict) else None)
    return next((name for name in names if isinstance(name, str) and name), "")


def _is_approved(vote: Message) -> bool:
    """Return whether a person approved (`decision` covers only the gate's own approvals)."""
    approval = vote.get("approval")
    return isinstance(approval, dict) and approval.get("state") in {"approved", "claimed"}


def _get_outcome(message: Message) -> Message:
    reply = message.get("reply")
    result = reply.get("result") if isinstance(reply, dict) else None
    outcome = result.get("outcome") if isinstance(result, dict) else None
    return outcome if isinstance(outcome, dict) else {}


def _shorten(msg: Message) -> Message:
    """Return the message, shortened if it is too long for one frame."""
    if len(json.dumps(msg)) <= LONGEST:
        return msg
    params = msg.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(update, dict):
        return {name: msg[name] for name in ("jsonrpc", "id", "method") if name in msg}
    small = {name: value for name, value in update.items() if name not in BULKY}
    small["rawOutput"] = f"(not shown: {len(json.dumps(update))} characters)"
    return {**msg, "params": {**params, "update": small}}
