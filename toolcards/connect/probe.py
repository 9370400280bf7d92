"""The proof that a connection holds: a harmless call that waits until somebody has answered it.

It goes the way that the program's own calls go, with the same key and to the same gate: hooks, HTTP, or a socket.
Where policy asks, that question is held; where policy lets the call pass, the probe asks a question of its own, as
agents do. What came of it stands in the log like every other call, under a run whose name begins with `RUN`.
"""

from __future__ import annotations

import http.client
import json
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from toolcards.client import Decision, Toolcards
from toolcards.client.question import Question

RUN = "toolcards-probe-"  # how the name of a probe's run begins
TOOL = "Toolcards probe"
AWAY = "Toolcards probe, no server"  # the call that tells what the program did when no server was there
GIVEN = {"question": "Does an answer given here reach the agent? Approve or deny: nothing runs either way."}
HOOKS = "/api/v1/hooks/claude-code"
NOBODY = "Nobody answered the probe. The connection holds, but see that somebody may vote."
PEOPLE = frozenset({"human", "grant", "break_glass"})

Say = Callable[[str], None]


class Failed(Exception):
    """The connection does not hold; the message says what to do."""


def probe(url: str, key: str, say: Say, *, agent: str = "", wait: float = 300.0, road: str = "hooks") -> str:
    """Hold a call until somebody answers; return `approved`, `denied`, or `refused` where a rule said no at once.

    Without `wait` only the way there is tried: `sent`. Raises Failed.
    """
    run = RUN + secrets.token_hex(4)
    server = _Server(url, key, agent or "probe")
    if not wait:
        server.hook(_hook("UserPromptSubmit", run, prompt="A probe by toolcards connect"))
        server.quietly(run)
        return "sent"
    if not takes(url, key):
        raise _NoKey(NO_KEY)
    say(f"A probe call waits for your answer: {url.rstrip('/')}/approvals/  (run {quote(run)})")
    try:
        return _ROADS[road](server, run, wait)
    finally:
        server.quietly(run)


def takes(url: str, key: str) -> bool:
    """Return whether the server takes this key; raises Failed where there is no server."""
    try:
        _Server(url, key, "probe").hook({})
    except _NoKey:
        return False
    return True


def tell_away(url: str, key: str, *, agent: str, seen: str, checked: str) -> None:
    """Write down what the program did with no server there: that its call was denied, and with which words."""
    call = {"call_id": "away", "tool": AWAY, "input": {"checked": checked}}
    frames = [
        {"type": "run.started", "agent": agent, "title": "What happens when no server is there"},
        {"type": "tool.input.available", **call},
        {"type": "tool.output.denied", "call_id": "away", "reason": seen},
        {"type": "run.finished", "outcome": "success"},
    ]
    _Server(url, key, agent).ingest(f"{RUN}{secrets.token_hex(4)}", frames)


# ---------------------------------------------------------------- the three roads


def _by_hooks(server: _Server, run: str, wait: float) -> str:
    server.hook(_hook("UserPromptSubmit", run, prompt="A probe by toolcards connect"))
    call = {"tool_name": TOOL, "tool_input": GIVEN}
    said = server.hook(_hook("PreToolUse", run, **call, tool_use_id="probe"), wait)
    told = said.get("hookSpecificOutput", {})
    if told.get("permissionDecision") == "deny":
        why = str(told.get("permissionDecisionReason", ""))
        if why.startswith("No one answered"):
            raise Failed(NOBODY)
        return "denied" if why.startswith("A person declined") else "refused"
    if told.get("permissionDecision") == "allow":
        return _ran_by_hooks(server, run, call)
    said = server.hook(_hook("PermissionRequest", run, **call), wait)
    behavior = said.get("hookSpecificOutput", {}).get("decision", {}).get("behavior")
    if behavior is None:
        raise Failed("Nobody answered the probe, or there is nobody who may. The connection itself holds.")
    return _ran_by_hooks(server, run, call) if behavior == "allow" else "denied"


def _ran_by_hooks(server: _Server, run: str, call: dict[str, Any]) -> str:
    server.hook(_hook("PostToolUse", run, **call, tool_use_id="probe", tool_response="The probe was released."))
    return "approved"


def _by_http(server: _Server, run: str, wait: float) -> str:
    cards = server.client
    said = cards.decide(run, "probe", TOOL, GIVEN, agent=[server.agent])
    asked = said.waiting
    if asked:
        said = cards.wait(said, seconds=wait)
    if said.allowed:
        said = cards.claim(said)
    if said.allowed:
        cards.result(run, "probe", output="The probe was released.")
    return _ended(said) if asked or not said.allowed else _own_question(server, run, wait)


def _by_socket(server: _Server, run: str, wait: float) -> str:
    with server.client.run(run, agent=server.agent, title="A probe by toolcards connect") as live:
        call = live.call(TOOL, "probe")
        written = json.dumps(GIVEN)
        for at in range(0, len(written), 16):
            call.delta(written[at : at + 16])
        said = call.decision_now(GIVEN, seconds=wait)
        if said.allowed:
            call.output("The probe was released.")
        if not said.allowed or said.by in PEOPLE:
            return _ended(said)
    return _own_question(server, f"{run}-asks", wait)


def _own_question(server: _Server, run: str, wait: float) -> str:
    """Policy lets the call pass; so the probe asks, as an agent that wants a person's word does."""
    frames = [
        {"type": "run.started", "agent": server.agent, "title": "A probe by toolcards connect"},
        {"type": "tool.input.available", "call_id": "question", "tool": TOOL, "input": GIVEN},
        {"type": "approval.requested", "call_id": "question", "approval_id": "question", "reason": "The probe asks."},
    ]
    asked = server.ingest(run, frames, answers="poll").get("asked") or []
    if not asked:
        raise Failed("The server asked nobody: is there somebody who may vote?")
    question = Question.about(run, "question", TOOL, GIVEN)
    said = Decision("ask", call_id="question", approval=asked[0]["id"], question=question)
    said = server.client.wait(said, seconds=wait)
    # A question of the agent's own has no permit, so the decision is never an allow: the approval's state counts.
    approved = (said.raw.get("approval") or {}).get("state") in {"approved", "claimed"}
    if approved:
        done = {"type": "tool.output.available", "call_id": "question", "output": "The probe was released."}
        server.ingest(run, [done, {"type": "run.finished", "outcome": "success"}])
    server.quietly(run)
    return "approved" if approved else _ended(said)


def _ended(said: Decision) -> str:
    if said.allowed:
        return "approved"
    if said.code == "approval_expired":
        raise Failed(NOBODY)
    if said.by == "client" or said.code in {"gate_error", "gate_unavailable"}:
        raise Failed(said.text)
    return "denied" if said.by == "human" else "refused"


_ROADS: dict[str, Callable[[_Server, str, float], str]] = {
    "hooks": _by_hooks, "http": _by_http, "socket": _by_socket,
}  # fmt: skip


# ---------------------------------------------------------------- the server


def _hook(event: str, run: str, **said: Any) -> dict[str, Any]:
    return {"session_id": run, "hook_event_name": event} | said


class _NoKey(Failed):
    """There is a server, and it does not take the key."""


NO_KEY = "The server does not take this key. Give a live one with --key, or leave it out on its machine."


class _Server:
    """The server, as a hook or an agent sees it."""

    def __init__(self, url: str, key: str, agent: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise Failed(f"{url} is no address of a server; it begins with http:// or https://.")
        self._open = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._path = parts.netloc, parts.path.rstrip("/")
        self._key, self._url, self.agent = key, url, agent
        self.client = Toolcards(url, key)

    def hook(self, said: dict[str, Any], wait: float = 10.0) -> dict[str, Any]:
        """Send one hook; return its output."""
        query = {"limit": max(1, int(wait)), "agent": self.agent}
        return self._post(HOOKS, query, json.dumps(said), wait=wait, empty=not said)

    def ingest(self, run: str, frames: list[dict[str, Any]], **query: str) -> dict[str, Any]:
        """Send native frames; return what the server says of them."""
        lines = "".join(f"{json.dumps(frame)}\n" for frame in frames)
        query |= {"protocol": "native", "run": run, "agent": self.agent}
        return self._post("/api/v1/ingest", query, lines, kind="application/x-ndjson")

    def quietly(self, run: str) -> None:
        """End the run; whether the server has it does not matter any more."""
        self.client.end(run, reason="the probe is over")

    def _post(
        self, path: str, query: dict[str, Any], text: str, *, wait: float = 10.0, kind: str = "", empty: bool = False
    ) -> dict[str, Any]:
        connection = self._open(self._host, timeout=wait + 15)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": kind or "application/json"}
        try:
            connection.request("POST", f"{self._path}{path}?{urlencode(query)}", text, headers)
            answer = connection.getresponse()
            said = answer.read().decode("utf-8", "replace")
        except OSError as error:
            raise Failed(f"There is no Toolcards at {self._url} ({error}). Start it with `toolcards serve`.") from error
        finally:
            connection.close()
        if answer.status in {401, 403}:
            raise _NoKey(NO_KEY)
        if answer.status == 400 and empty:
            return {}
        try:
            output = json.loads(said)
        except ValueError:
            output = None
        if answer.status != 200 or not isinstance(output, dict):
            raise Failed(f"{self._url} answered {answer.status}: is that Toolcards?")
        return output
