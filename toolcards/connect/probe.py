"""Proves a connection with a harmless call that is held until a person answers it.

The probe uses the transport of the program's own calls (hooks, HTTP or a socket), with the same key and the same gate.
If policy allows the call, the probe opens an approval of its own, as agents do. Its result is logged like every other
call, in a run whose name begins with `RUN_PREFIX`.
"""

from __future__ import annotations

import http.client
import json
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from toolcards.client import Decision, Toolcards
from toolcards.client.decisions.question import CallRequest

RUN_PREFIX = "toolcards-probe-"
TOOL = "Toolcards probe"
OFFLINE_TOOL = "Toolcards probe, no server"  # the call that reports what the program did without a server
PROBE_INPUT = {"question": "Does an answer given here reach the agent? Approve or deny: nothing runs either way."}
HOOKS = "/api/v1/hooks/claude-code"
NO_ANSWER = "No one answered the probe. The connection works, but make sure that someone can vote."
PEOPLE = frozenset({"human", "grant", "break_glass"})

Say = Callable[[str], None]


class ProbeFailed(Exception):
    """The connection does not work; the message gives a remedy."""


class ProbeUnanswered(ProbeFailed):
    """The connection works, but no one answered the probe."""


def probe(url: str, key: str, say: Say, *, agent: str = "", wait: float = 300.0, transport: str = "hooks") -> str:
    """Hold a call until a person answers.

    Return `approved`, `denied`, or `refused` by a rule.
    With `wait` 0 only the connection is tried, and the result is `sent`. Raises ProbeFailed.
    """
    run = RUN_PREFIX + secrets.token_hex(4)
    server = _Server(url, key, agent or "probe")
    if not wait:
        server.hook(_hook("UserPromptSubmit", run, prompt="A probe by toolcards connect"))
        server.end_run(run)
        return "sent"
    if not accepts_key(url, key):
        raise _KeyRefused(NO_KEY)
    say(f"A probe call waits for your answer: {url.rstrip('/')}/approvals/  (run {quote(run)})")
    try:
        return _TRANSPORTS[transport](server, run, wait)
    finally:
        server.end_run(run)


def accepts_key(url: str, key: str) -> bool:
    """Return whether the server accepts this key.

    Raises ProbeFailed if there is no server.
    """
    try:
        _Server(url, key, "probe").hook({})
    except _KeyRefused:
        return False
    return True


def report_offline(url: str, key: str, *, agent: str, denial: str, method: str) -> None:
    """Log that the program denied its call without a server."""
    call = {"call_id": "away", "tool": OFFLINE_TOOL, "input": {"checked": method}}
    frames: list[dict[str, Any]] = [
        {"type": "run.started", "agent": agent, "title": "What happens while no server is running"},
        {"type": "tool.input.available", **call},
        {"type": "tool.output.denied", "call_id": "away", "reason": denial},
        {"type": "run.finished", "outcome": "success"},
    ]
    _Server(url, key, agent).ingest(f"{RUN_PREFIX}{secrets.token_hex(4)}", frames)


# ---------------------------------------------------------------- the three transports


def _by_hooks(server: _Server, run: str, wait: float) -> str:
    server.hook(_hook("UserPromptSubmit", run, prompt="A probe by toolcards connect"))
    call = {"tool_name": TOOL, "tool_input": PROBE_INPUT}
    output = server.hook(_hook("PreToolUse", run, **call, tool_use_id="probe"), wait).get("hookSpecificOutput", {})
    if output.get("permissionDecision") == "deny":
        reason = str(output.get("permissionDecisionReason", ""))
        if reason.startswith("No one answered"):
            raise ProbeUnanswered(NO_ANSWER)
        return "denied" if reason.startswith("A person declined") else "refused"
    if output.get("permissionDecision") == "allow":
        return _report_result_by_hooks(server, run, call)
    answer = server.hook(_hook("PermissionRequest", run, **call), wait)
    behavior = answer.get("hookSpecificOutput", {}).get("decision", {}).get("behavior")
    if behavior is None:
        raise ProbeUnanswered("No one answered the probe, or no one can vote. The connection itself works.")
    return _report_result_by_hooks(server, run, call) if behavior == "allow" else "denied"


def _report_result_by_hooks(server: _Server, run: str, call: dict[str, Any]) -> str:
    server.hook(_hook("PostToolUse", run, **call, tool_use_id="probe", tool_response="The probe was released."))
    return "approved"


def _by_http(server: _Server, run: str, wait: float) -> str:
    client = server.client
    decision = client.decide(run, "probe", TOOL, PROBE_INPUT, agent=[server.agent])
    was_held = decision.waiting
    if was_held:
        decision = client.wait(decision, seconds=wait)
    if decision.allowed:
        decision = client.claim(decision)
    if decision.allowed:
        client.result(run, "probe", output="The probe was released.")
    return _format_outcome(decision) if was_held or not decision.allowed else _request_approval(server, run, wait)


def _by_socket(server: _Server, run: str, wait: float) -> str:
    with server.client.run(run, agent=server.agent, title="A probe by toolcards connect") as stream:
        call = stream.call(TOOL, "probe")
        text = json.dumps(PROBE_INPUT)
        for start in range(0, len(text), 16):
            call.delta(text[start : start + 16])
        decision = call.decision_now(PROBE_INPUT, seconds=wait)
        if decision.allowed:
            call.output("The probe was released.")
        if not decision.allowed or decision.by in PEOPLE:
            return _format_outcome(decision)
    return _request_approval(server, f"{run}-asks", wait)


def _request_approval(server: _Server, run: str, wait: float) -> str:
    """Open an approval as an agent does, since policy allowed the call."""
    frames: list[dict[str, Any]] = [
        {"type": "run.started", "agent": server.agent, "title": "A probe by toolcards connect"},
        {"type": "tool.input.available", "call_id": "question", "tool": TOOL, "input": PROBE_INPUT},
        {"type": "approval.requested", "call_id": "question", "approval_id": "question", "reason": "The probe asks."},
    ]
    approvals = server.ingest(run, frames, answers="poll").get("asked") or []
    if not approvals:
        raise ProbeFailed("The server opened no approval. Does anyone have permission to vote?")
    question = CallRequest.about(run, "question", TOOL, PROBE_INPUT)
    decision = Decision("ask", call_id="question", approval=approvals[0]["id"], question=question)
    decision = server.client.wait(decision, seconds=wait)
    # An approval opened by the agent has no permit, so the decision is never an allow: the approval's state counts.
    is_approved = (decision.raw.get("approval") or {}).get("state") in {"approved", "claimed"}
    if is_approved:
        output = {"type": "tool.output.available", "call_id": "question", "output": "The probe was released."}
        server.ingest(run, [output, {"type": "run.finished", "outcome": "success"}])
    server.end_run(run)
    return "approved" if is_approved else _format_outcome(decision)


def _format_outcome(decision: Decision) -> str:
    if decision.allowed:
        return "approved"
    if decision.code == "approval_expired":
        raise ProbeUnanswered(NO_ANSWER)
    if decision.by == "client" or decision.code in {"gate_error", "gate_unavailable"}:
        raise ProbeFailed(decision.text)
    return "denied" if decision.by == "human" else "refused"


_TRANSPORTS: dict[str, Callable[[_Server, str, float], str]] = {
    "hooks": _by_hooks, "http": _by_http, "socket": _by_socket,
}  # fmt: skip


# ---------------------------------------------------------------- the server


def _hook(event: str, run: str, **fields: Any) -> dict[str, Any]:
    return {"session_id": run, "hook_event_name": event} | fields


class _KeyRefused(ProbeFailed):
    """The server does not accept the key."""


NO_KEY = "The server does not accept this key. Pass a valid one with --key, or omit --key on the server's own computer."


class _Server:
    """The server's HTTP API, as hooks and agents use it."""

    def __init__(self, url: str, key: str, agent: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise ProbeFailed(f"{url} is not a server address; use http://… or https://….")
        self._open = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._path = parts.netloc, parts.path.rstrip("/")
        self._key, self._url, self.agent = key.strip(), url, agent
        self.client = Toolcards(url, key)

    def hook(self, payload: dict[str, Any], wait: float = 10.0) -> dict[str, Any]:
        """Send one hook; return its output."""
        query = {"limit": max(1, int(wait)), "agent": self.agent}
        return self._post(HOOKS, query, json.dumps(payload), wait=wait, may_refuse=not payload)

    def ingest(self, run: str, frames: list[dict[str, Any]], **query: str) -> dict[str, Any]:
        """Send native frames; return the server's answer."""
        lines = "".join(f"{json.dumps(frame)}\n" for frame in frames)
        query |= {"protocol": "native", "run": run, "agent": self.agent}
        return self._post("/api/v1/ingest", query, lines, kind="application/x-ndjson")

    def end_run(self, run: str) -> None:
        """End the run, ignoring errors."""
        self.client.end(run, reason="probe finished")

    def _post(
        self,
        path: str,
        query: dict[str, Any],
        text: str,
        *,
        wait: float = 10.0,
        kind: str = "",
        may_refuse: bool = False,
    ) -> dict[str, Any]:
        if not self._key.isascii() or not self._key.isprintable():  # no key has such characters
            raise _KeyRefused(NO_KEY)
        connection = self._open(self._host, timeout=wait + 15)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": kind or "application/json"}
        try:
            connection.request("POST", f"{self._path}{path}?{urlencode(query)}", text, headers)
            response = connection.getresponse()
            text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise ProbeFailed(
                f"Cannot reach Toolcards at {self._url} ({error}). Start it with `toolcards serve`."
            ) from error
        finally:
            connection.close()
        code, output = _read_answer(text)
        if (response.status, code) in _KEY_REFUSALS:
            raise _KeyRefused(NO_KEY)
        if (response.status, code) == _EMPTY_HOOK_REFUSAL and may_refuse:
            return {}
        if response.status != 200 or output is None or may_refuse:
            raise ProbeFailed(f"{self._url} answered {response.status}. Is it Toolcards?")
        return output


# An answer of another server, such as a proxy's 403, says nothing about the key.
_KEY_REFUSALS = {(401, "unauthorized"), (403, "scope")}
_EMPTY_HOOK_REFUSAL = (400, "not_object")


def _read_answer(text: str) -> tuple[str, dict[str, Any] | None]:
    """Return the code of a refusal, and the JSON object, None for other text."""
    try:
        output = json.loads(text)
    except (ValueError, RecursionError):
        return "", None
    if not isinstance(output, dict):
        return "", None
    error = output.get("error")
    return str(error.get("code", "")) if isinstance(error, dict) else "", output
