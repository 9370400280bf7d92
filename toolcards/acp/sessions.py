"""The copies that go to the server: one run for each session, one frame for each message that belongs to one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolcards.client import Run, Toolcards
from toolcards.client.common.canonical_json import digest

Said = dict[str, Any]
LONGEST = 600_000  # characters of one message; longer ones are told without what makes them long
LINGER = 3.0  # seconds that the end of the proxy waits for the server
BULKY = ("rawOutput", "content", "rawInput")
ENDED = frozenset({"completed", "failed", "cancelled"})  # how a call's last update says so


@dataclass(frozen=True, slots=True)
class AskedCall:
    """The call that a permission request is about: its id, its tool as the gate takes it, its arguments."""

    id: str
    tool: dict[str, str]
    args: Said


@dataclass(frozen=True, slots=True)
class _Asked:
    """A permission request that the editor was asked."""

    session: str
    options: list[Any]
    call: Said

    @classmethod
    def of(cls, session: str, told: Said) -> _Asked:
        options, call = told.get("options"), told.get("toolCall")
        return cls(session, options if isinstance(options, list) else [], call if isinstance(call, dict) else {})

    def kind_of(self, outcome: Said) -> str:
        """Return what kind of option was selected; "" for one that was not offered, or offered twice."""
        wanted = outcome.get("optionId") if outcome.get("outcome") == "selected" else None
        kinds = [each.get("kind") for each in self.options if isinstance(each, dict) and each.get("optionId") == wanted]
        return kinds[0] if len(kinds) == 1 and wanted is not None and isinstance(kinds[0], str) else ""


class Sessions:
    """Every session that was heard of. Nothing here waits, and nothing raises into the relay."""

    def __init__(self, cards: Toolcards, *, agent: str, heard: Callable[[Said], None]) -> None:
        self._cards, self._agent, self._heard = cards, agent, heard
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()
        self._prompts: dict[str, str] = {}  # the editor's request that is open -> its session
        self._cancelled: set[str] = set()  # sessions whose turn is being cancelled
        self._asked: dict[str, _Asked] = {}  # the agent's open questions, by the request's id
        self.calls: dict[tuple[str, str], Said] = {}  # a call as its messages have told it so far

    def run(self, session: str) -> Run:
        """Return the session's run, opening it at the first need."""
        with self._lock:
            run = self._runs.get(session)
            if run is None:
                run = self._cards.run(
                    session, agent=self._agent, gate=False, protocol="acp", heard=self._heard, linger=LINGER
                )
                run.__enter__()
                self._runs[session] = run
            return run

    def close(self) -> None:
        """Say the last words of every run."""
        for run in list(self._runs.values()):
            run.__exit__(None, None, None)

    def editor_said(self, msg: Said) -> None:
        """Copy a message of the editor."""
        told, name = msg.get("params"), json.dumps(msg.get("id"))
        if "method" in msg:
            session = str(told.get("sessionId") or "") if isinstance(told, dict) else ""
            if msg["method"] == "session/prompt":
                self._prompts[name] = session
            if msg["method"] == "session/cancel":
                self._cancelled.add(session)
            self._copy(session, ">", msg)

    def agent_said(self, msg: Said) -> None:
        """Copy a message of the agent."""
        told, name = msg.get("params"), json.dumps(msg.get("id"))
        if "method" not in msg:
            session = self._prompts.pop(name, "")
            self._cancelled.discard(session)
            self._copy(session, "<", msg, **({"method": "session/prompt"} if session else {}))
            return
        session = str(told.get("sessionId") or "") if isinstance(told, dict) else ""
        if isinstance(told, dict):
            self._remember(session, told)
            if msg["method"] == "session/request_permission":
                self._asked[name] = _Asked.of(session, told)
        self._copy(session, "<", msg)

    def answered(self, name: str, msg: Said | None = None) -> bool:
        """Take an open question of the agent for its first answer, the editor's where `msg` is given; False where
        it is not open."""
        taken = self._asked.pop(name, None)
        if taken is not None and msg is not None:
            kind = taken.kind_of(_outcome({"reply": msg}))  # its id says nothing
            self._copy(taken.session, ">", msg, **({"kind": kind} if kind else {}))
        return taken is not None

    def voted(self, name: str, said: Said) -> Said | None:
        """Return the result that a person at the dashboard gave to this open question; None where it is no plain one.

        An allow must be for this run, call and input, and an option that the agent offered for this once.
        """
        asked = self._asked.get(name)
        if asked is None or said.get("run") != asked.session:
            return None
        try:
            call = self.call(asked.session, asked.call)
            same_input = said.get("args_sha256") == digest(call.args)
        except ValueError:
            return None
        outcome = _outcome(said)
        kind = asked.kind_of(outcome)
        allows = kind == "allow_once" and same_input and _approved(said)
        rejects = kind == "reject_once" or outcome == {"outcome": "cancelled"}
        return {"outcome": outcome} if said.get("call_id") == call.id and (allows or rejects) else None

    def _remember(self, session: str, told: Said) -> None:
        """Keep a call's name and input: a permission request need not repeat them. An id may come again."""
        update = told.get("update")
        if not isinstance(update, dict) or "toolCallId" not in update:
            return
        key = (session, str(update["toolCallId"]))
        begins = update.get("sessionUpdate") == "tool_call"
        before = self.calls.get(key, {})
        if begins or before.get("ended"):
            self.calls[key] = {"twice": begins and bool(before) and not before.get("ended")}
        known = self.calls.setdefault(key, {})
        if begins:
            known["tool"] = tool_of(update)
        if isinstance(update.get("rawInput"), dict) and update["rawInput"]:
            known["input"] = update["rawInput"]
        if update.get("kind"):
            known["kind"] = update["kind"]
        known["ended"] = update.get("status") in ENDED

    def call(self, session: str, asked: Said) -> AskedCall:
        """Return the call that a permission request is about, as its messages and the request itself tell it.

        Raises ValueError where that is not plain: no id, or two open calls of one id.
        """
        call_id = str(asked.get("toolCallId") or "")
        if not call_id:
            raise ValueError("the request names no tool call")
        known = self.calls.get((session, call_id), {})
        if known.get("twice"):
            raise ValueError(f"two calls with the id {call_id} are open")
        if known.get("ended"):  # the request speaks of another call
            known = {}
        given = asked.get("rawInput")
        args = given if isinstance(given, dict) and given else known.get("input", {})
        tool = named(asked) or known.get("tool") or tool_of(asked)
        kinds = [each["kind"] for each in (known, asked) if isinstance(each.get("kind"), str)]
        return AskedCall(call_id, {"name": tool, **({"kind": kinds[-1]} if kinds else {})}, args)

    def _copy(self, session: str, direction: str, msg: Said, **more: Any) -> None:
        if session:
            more |= {"cancelled": True} if session in self._cancelled else {}
            self.run(session).send({"dir": direction, **more, "msg": _bounded(msg)})


def tool_of(told: Said) -> str:
    """Return the tool's name as our adapter finds it too: told, told aside, else the title."""
    title = told.get("title")
    return named(told) or (title if isinstance(title, str) and title else "tool")


def named(told: Said) -> str:
    """Return the tool's name where the message itself tells it, "" where only a title does."""
    meta = told.get("_meta")
    aside = meta.get("claudeCode") if isinstance(meta, dict) else None
    names = (told.get("name"), aside.get("toolName") if isinstance(aside, dict) else None)
    return next((name for name in names if isinstance(name, str) and name), "")


def _approved(said: Said) -> bool:
    """Whether a person said yes: `decision` speaks of the gate's own questions only."""
    approval = said.get("approval")
    return isinstance(approval, dict) and approval.get("state") in {"approved", "claimed"}


def _outcome(said: Said) -> Said:
    reply = said.get("reply")
    result = reply.get("result") if isinstance(reply, dict) else None
    outcome = result.get("outcome") if isinstance(result, dict) else None
    return outcome if isinstance(outcome, dict) else {}


def _bounded(msg: Said) -> Said:
    """The message, or what can be told of it in one frame."""
    if len(json.dumps(msg)) <= LONGEST:
        return msg
    told = msg.get("params")
    update = told.get("update") if isinstance(told, dict) else None
    if not isinstance(told, dict) or not isinstance(update, dict):
        return {name: msg[name] for name in ("jsonrpc", "id", "method") if name in msg}
    less = {name: value for name, value in update.items() if name not in BULKY}
    less["rawOutput"] = f"(not shown: {len(json.dumps(update))} characters)"
    return {**msg, "params": {**told, "update": less}}
