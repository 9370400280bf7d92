"""The proof that a connection holds: a harmless call that waits until somebody has answered it.

It goes the way of Claude Code's hooks, whatever program was connected: the same key, the same gate. Where policy
asks, PreToolUse is held; where policy allows, the program's own question (PermissionRequest) is.
"""

from __future__ import annotations

import http.client
import json
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

RUN = "toolcards-probe-"  # how the name of a probe's run begins
TOOL = "Toolcards probe"
GIVEN = {"question": "Does an answer given here reach the agent? Approve or deny: nothing runs either way."}
HOOKS = "/api/v1/hooks/claude-code"


class Failed(Exception):
    """The connection does not hold; the message says what to do."""


def probe(url: str, key: str, say: Callable[[str], None], *, agent: str = "", wait: float = 300.0) -> str:
    """Hold a call until somebody answers; return `approved`, `denied`, or `refused` where a rule said no at once.

    Without `wait` only the way there is tried: `sent`. Raises Failed.
    """
    run = RUN + secrets.token_hex(4)
    server = _Server(url, key, agent or "probe")
    try:
        _tried(server, run)
        if not wait:
            return "sent"
        say(f"A probe call waits for your answer: {url.rstrip('/')}/approvals/  (run {quote(run)})")
        return _answered(server, run, wait)
    finally:
        server.quietly(_hook("SessionEnd", run, reason="the probe is over"))


def takes(url: str, key: str) -> bool:
    """Return whether the server takes this key; raises Failed where there is no server."""
    try:
        _Server(url, key, "probe").post({})
    except _NoKey:
        return False
    return True


def _tried(server: _Server, run: str) -> None:
    """The run begins: wrong addresses and keys are found here, before anybody is asked to click."""
    server.post(_hook("UserPromptSubmit", run, prompt="A probe by toolcards connect"))


def _answered(server: _Server, run: str, wait: float) -> str:
    call = {"tool_name": TOOL, "tool_input": GIVEN}
    said = server.post(_hook("PreToolUse", run, **call, tool_use_id="probe"), wait)
    told = said.get("hookSpecificOutput", {})
    if told.get("permissionDecision") == "deny":
        why = str(told.get("permissionDecisionReason", ""))
        if why.startswith("No one answered"):
            raise Failed("Nobody answered the probe. The connection holds, but see that somebody may vote.")
        return "denied" if why.startswith("A person declined") else "refused"
    if told.get("permissionDecision") == "allow":
        return "approved"
    said = server.post(_hook("PermissionRequest", run, **call), wait)
    behavior = said.get("hookSpecificOutput", {}).get("decision", {}).get("behavior")
    if behavior is None:
        raise Failed("Nobody answered the probe, or there is nobody who may. The connection itself holds.")
    return "approved" if behavior == "allow" else "denied"


def _hook(event: str, run: str, **said: Any) -> dict[str, Any]:
    return {"session_id": run, "hook_event_name": event} | said


class _NoKey(Failed):
    """There is a server, and it does not take the key."""


class _Server:
    """The server, as a hook sees it."""

    def __init__(self, url: str, key: str, agent: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise Failed(f"{url} is no address of a server; it begins with http:// or https://.")
        self._open = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._path = parts.netloc, parts.path.rstrip("/") + HOOKS
        self._key, self._agent, self._url = key, agent, url

    def post(self, said: dict[str, Any], wait: float = 10.0) -> dict[str, Any]:
        """Send one hook; return its output."""
        query = urlencode({"limit": max(1, int(wait)), "agent": self._agent})
        connection = self._open(self._host, timeout=wait + 15)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            connection.request("POST", f"{self._path}?{query}", json.dumps(said), headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except OSError as error:
            raise Failed(f"There is no Toolcards at {self._url} ({error}). Start it with `toolcards serve`.") from error
        finally:
            connection.close()
        if answer.status in {401, 403}:
            raise _NoKey(
                "The server does not take this key. Give a live one with --key, or leave it out on its machine."
            )
        if answer.status == 400 and not said:
            return {}
        try:
            output = json.loads(text)
        except ValueError:
            output = None
        if answer.status != 200 or not isinstance(output, dict):
            raise Failed(f"{self._url} answered {answer.status}: is that Toolcards?")
        return output

    def quietly(self, said: dict[str, Any]) -> None:
        """Send one hook; whether it arrives does not matter any more."""
        try:
            self.post(said)
        except Failed:
            return
