"""The copies that go to the server: one run for each session, one frame for each message that belongs to one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from toolcards.client import Run, Toolcards

Said = dict[str, Any]
LONGEST = 600_000  # characters of one message; longer ones are told without what makes them long
LINGER = 3.0  # seconds that the end of the proxy waits for the server
BULKY = ("rawOutput", "content", "rawInput")


class Sessions:
    """Every session that was heard of. Nothing here waits, and nothing raises into the relay."""

    def __init__(self, cards: Toolcards, *, agent: str, heard: Callable[[Said], None]) -> None:
        self._cards, self._agent, self._heard = cards, agent, heard
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()
        self._prompts: dict[str, str] = {}  # the editor's request that is open -> its session
        self._cancelled: set[str] = set()  # sessions whose turn is being cancelled
        self._asked: dict[str, tuple[str, list[Any]]] = {}  # the agent's question -> its session and options
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
                options = told.get("options")
                self._asked[name] = (session, options if isinstance(options, list) else [])
        self._copy(session, "<", msg)

    def answered(self, name: str, msg: Said | None = None) -> bool:
        """Take an open question of the agent for its first answer, the editor's where `msg` is given; False where
        it is not open."""
        taken = self._asked.pop(name, None)
        if taken is not None and msg is not None:
            self._copy(taken[0], ">", msg, **_kind(msg, taken[1]))
        return taken is not None

    def _remember(self, session: str, told: Said) -> None:
        """Keep a call's name and input: a permission request need not repeat them."""
        update = told.get("update")
        if not isinstance(update, dict) or "toolCallId" not in update:
            return
        known = self.calls.setdefault((session, str(update["toolCallId"])), {})
        if update.get("sessionUpdate") == "tool_call":
            known["tool"] = tool_of(update)
        if isinstance(update.get("rawInput"), dict) and update["rawInput"]:
            known["input"] = update["rawInput"]
        if update.get("kind"):
            known["kind"] = update["kind"]

    def _copy(self, session: str, direction: str, msg: Said, **more: Any) -> None:
        if session:
            more |= {"cancelled": True} if session in self._cancelled else {}
            self.run(session).send({"dir": direction, **more, "msg": _bounded(msg)})


def tool_of(told: Said) -> str:
    """Return the tool's name as our adapter finds it too: told, told aside, else the title."""
    meta = told.get("_meta")
    aside = meta.get("claudeCode") if isinstance(meta, dict) else None
    named = (told.get("name"), aside.get("toolName") if isinstance(aside, dict) else None, told.get("title"))
    return next((name for name in named if isinstance(name, str) and name), "tool")


def _kind(msg: Said, options: list[Any]) -> dict[str, str]:
    """What kind of option the editor chose: its id says nothing."""
    result = msg.get("result")
    outcome = result.get("outcome") if isinstance(result, dict) else None
    wanted = outcome.get("optionId") if isinstance(outcome, dict) else None
    kinds = [each.get("kind") for each in options if isinstance(each, dict) and each.get("optionId") == wanted]
    return {"kind": kinds[0]} if kinds and isinstance(kinds[0], str) else {}


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
