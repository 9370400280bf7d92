"""Asking over HTTP: may this call run, wait for a person, use the permit, tell what came of it."""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import os
import ssl
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from . import mending
from .answers import Decision, denial, read
from .common import repair
from .live import ASKED_PATIENCE, Run
from .mending import Reask

__all__ = ["Toolcards", "Unreachable", "aside"]

POLL = 25.0  # seconds that one question for an answer is held open by the server
PAUSE = 1.0  # seconds before the next look at a server that is away
LONGEST = 16 << 20
T = TypeVar("T")
# Waiting calls of async code; threads of our own, so that those of the agent's loop stay free.
_threads = ThreadPoolExecutor(64, "toolcards")


class Unreachable(Exception):
    """The server did not give a clear answer; for a gate that means no."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Toolcards:
    """A Toolcards server, seen by an agent. Every failure of `decide` and `wait` is a deny, never an exception.

    Without arguments the address and key come from TOOLCARDS_URL and TOOLCARDS_AGENT_KEY.
    """

    def __init__(self, url: str = "", key: str = "", *, timeout: float = 10) -> None:
        self.url = (url or os.environ.get("TOOLCARDS_URL") or "http://127.0.0.1:8000").rstrip("/")
        self.key = key or os.environ.get("TOOLCARDS_AGENT_KEY", "")
        self.timeout = timeout
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{self.url!r} is no address like http://127.0.0.1:8000")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = parts.path

    # ------------------------------------------------------------ one call

    def decide(
        self,
        run: str,
        call_id: str,
        tool: str | Mapping[str, str],
        args: Any,
        *,
        agent: Sequence[str] = (),
        attempt: int = 1,
        **more: Any,
    ) -> Decision:
        """Ask whether the call may run; `more` are further fields of the question, for example `can_wait=False`.

        `tool` is its name, or an object with `name` and what else is known of it: source, title, kind.
        """
        about = {"name": tool} if isinstance(tool, str) else dict(tool)
        body = {
            "v": 1, "run": run, "call_id": call_id, "attempt": attempt, "agent_path": list(agent), "tool": about,
            "args": args, **more,
        }  # fmt: skip
        try:
            return read(self._ask("POST", "/api/v1/calls/decide", body), call_id)
        except (Unreachable, TypeError, ValueError) as error:  # arguments that are no JSON cannot be judged
            return denial(f"The gate could not be asked: {error}", call_id)

    def wait(self, decision: Decision, *, seconds: float | None = None) -> Decision:
        """Return the decision once a person, a rule or the clock has answered; a deny after `seconds`.

        Without a word from the server for ASKED_PATIENCE seconds it is a deny, too.
        """
        waiting = _Waiting(decision, seconds)
        while waiting.decision.waiting:
            waiting.saw(waiting.step(self)())
        return waiting.decision

    def look(self, decision: Decision, seconds: float = 0) -> Decision:
        """Return the decision as it stands, or once it is answered within `seconds`."""
        path = f"/api/v1/approvals/{quote(decision.approval, safe='')}?wait={seconds:.0f}"
        try:
            return read(self._ask("GET", path, held=seconds), decision.call_id)
        except Unreachable as error:
            if 400 <= error.status < 500 and error.status != 429:
                return denial(f"The gate no longer knows this question: {error}", decision.call_id)
            time.sleep(min(PAUSE, seconds))  # a restart: the question is still there afterwards
            return decision

    def withdraw(self, decision: Decision) -> bool:
        """Take a question back that a person was asked; whether the server has it."""
        if not decision.waiting:
            return False
        try:
            self._ask("POST", f"/api/v1/approvals/{quote(decision.approval, safe='')}/withdraw", {})
        except Unreachable:
            return False
        return True

    def _too_late(self, decision: Decision) -> Decision:
        self.withdraw(decision)
        return denial("Nobody answered in time.", decision.call_id, "approval_expired")

    def _gone(self, decision: Decision) -> Decision:
        text = f"Toolcards has not answered for {ASKED_PATIENCE:.0f} seconds, so the call may not run."
        return denial(text, decision.call_id, "gate_unavailable")

    def claim(self, decision: Decision) -> Decision:
        """Use up the permit, right before executing; the answer is an allow with the arguments to run, or a deny."""
        if not decision.allowed or not decision.permit:
            return denial(decision.text or "There is no permit.", decision.call_id, decision.code or "gate_error")
        body = {"call_id": decision.call_id, "args_sha256": decision.args_sha256}
        try:
            told = self._ask("POST", f"/api/v1/permits/{quote(decision.permit, safe='')}/claim", body)
        except Unreachable as error:
            return denial(f"The permit could not be used: {error}", decision.call_id)
        if told.get("state") != "claimed" or told.get("call_id") != decision.call_id or "args" not in told:
            return denial("The gate's answer was not understood.", decision.call_id)
        return Decision("allow", **{**_plain(decision), "permit": "", "args": told["args"], "raw": told})

    def result(
        self, run: str, call_id: str, *, output: Any = None, error: str | Mapping[str, Any] | None = None, **more: Any
    ) -> bool:
        """Tell what came of the call: an output, or an error (a message, or a `faults.fault`); whether it was heard."""
        body: dict[str, Any] = {"run": run, "attempt": 1, "outcome": "ok" if error is None else "error", **more}
        told = error if isinstance(error, Mapping) else {"message": error}
        body |= {"output": output} if error is None else {"error": dict(told)}
        try:
            self._ask("POST", f"/api/v1/calls/{quote(call_id, safe='')}/result", body)
        except (Unreachable, TypeError, ValueError):
            return False
        return True

    def ask(
        self,
        run: str,
        call_id: str,
        tool: str,
        args: Any,
        *,
        seconds: float | None = None,
        reask: Reask | None = None,
        **more: Any,
    ) -> Decision:
        """Decide, wait and claim in one: an allow (run `decision.args`) or a deny (tell the model `decision.text`).

        `more` may hold `tools`, those offered to the model: the call is checked against them, and mended where there is
        one way only. `reask` gets the deny of an input that the tool cannot use (`decision.raw["places"]` says where)
        and may return other arguments (a model asked once more), or None. For a tool that does not exist it may return
        the name of one of `decision.raw["tools"]`: those of `tools` that only read; it runs only if a rule lets it, and
        the decision says which (`tool`). It has 10 seconds; only what failed may differ; it is judged afresh, once,
        under the same id. What goes wrong in it changes nothing.
        """
        decision = self._decided(run, call_id, tool, args, reask, more)
        try:
            decision = self.wait(decision, seconds=seconds)
        except BaseException:  # the agent stops waiting
            self.withdraw(decision)
            raise
        return self.claim(decision) if decision.allowed else decision

    async def aask(
        self,
        run: str,
        call_id: str,
        tool: str,
        args: Any,
        *,
        seconds: float | None = None,
        reask: Reask | None = None,
        **more: Any,
    ) -> Decision:
        """The same in async code; a cancelled task takes its question back. `reask` is called in a thread of ours."""
        decision = await aside(self._decided, run, call_id, tool, args, reask, more)
        waiting = _Waiting(decision, seconds)
        try:
            while waiting.decision.waiting:
                waiting.saw(await aside(waiting.step(self)))
        except BaseException:
            _threads.submit(self.withdraw, decision)
            raise
        decision = waiting.decision
        return await aside(self.claim, decision) if decision.allowed else decision

    def _decided(
        self, run: str, call_id: str, tool: str, args: Any, reask: Reask | None, more: dict[str, Any]
    ) -> Decision:
        """The decision; where the call was unusable, that on what was written in its place."""
        decision = self.decide(run, call_id, tool, args, **more)
        if reask is None or decision.effect != "deny":
            return decision
        once_more = {**more, "attempt": int(more.get("attempt", 1)) + 1}
        if decision.code == "invalid_input":
            again = mending.asked_again(reask, decision, args, mending.places(decision))
            return decision if again is None else self.decide(run, call_id, tool, again, **once_more)
        chosen = ""
        if decision.code == "no_such_tool":
            chosen = mending.chosen_again(reask, decision, args, repair.offers(more.get("tools") or ()))
        if not chosen:
            return decision
        said = self.decide(run, call_id, chosen, args, **{**once_more, "can_wait": False})  # a person is not asked
        return replace(said, tool=said.tool or chosen) if said.allowed else decision

    # ------------------------------------------------------------ a run

    def end(self, run: str, outcome: str = "success", reason: str = "") -> bool:
        """Say that the run is over; whether the server has it."""
        try:
            self._ask("POST", f"/api/v1/runs/{quote(run, safe='')}/end", {"outcome": outcome, "reason": reason})
        except Unreachable:
            return False
        return True

    def run(self, run: str = "", **options: Any) -> Run:
        """Return a run to report over one WebSocket: `async with cards.run(agent="…") as run`. See live.Run."""
        return Run(self.url, self.key, run or f"run-{uuid.uuid4().hex[:12]}", **options)

    # ------------------------------------------------------------ HTTP

    def _ask(self, method: str, path: str, body: Any = None, *, held: float = 0) -> dict[str, Any]:
        """Return the JSON object of a 200; anything else, a redirect too, is Unreachable."""
        data = json.dumps(body, allow_nan=False).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {self.key}", "Accept": "application/json", "Connection": "close"}
        headers |= {"Content-Type": "application/json"} if data is not None else {}
        link = self._link(self.timeout + held)
        try:
            link.request(method, self._path + path, body=data, headers=headers)
            answer = link.getresponse()
            text = answer.read(LONGEST + 1)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        finally:
            link.close()
        return _object(answer.status, text)

    def _link(self, timeout: float) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=context)


def _object(status: int, text: bytes) -> dict[str, Any]:
    try:
        said = json.loads(text) if len(text) <= LONGEST else None
    except ValueError:
        said = None
    if status == 200 and isinstance(said, dict):
        return said
    error = said.get("error") if isinstance(said, dict) else None
    told = error.get("message") if isinstance(error, dict) else None
    raise Unreachable(str(told or f"the server answered {status}"), status)


class _Waiting:
    """A question that a person was asked: how it stands, and how long to go on looking."""

    def __init__(self, decision: Decision, seconds: float | None) -> None:
        self.decision = decision
        self._until = math.inf if seconds is None else time.monotonic() + seconds
        self._heard = time.monotonic()  # the server's last word

    def step(self, cards: Toolcards) -> Callable[[], Decision]:
        """Return what to do next; it may be done in another thread."""
        now = time.monotonic()
        if now >= self._until:
            return partial(cards._too_late, self.decision)
        if now - self._heard > ASKED_PATIENCE:
            return partial(cards._gone, self.decision)
        return partial(cards.look, self.decision, min(POLL, self._until - now))

    def saw(self, decision: Decision) -> None:
        """Take what came of it; `look` gives back the very decision it was given where the server said nothing."""
        if decision is not self.decision:
            self.decision, self._heard = decision, time.monotonic()


def aside(do: Callable[..., T], *args: Any, **more: Any) -> asyncio.Future[T]:
    """Do it in a thread of ours; it begins at once."""
    return asyncio.get_running_loop().run_in_executor(_threads, partial(do, *args, **more))


def _plain(decision: Decision) -> dict[str, Any]:
    return {name: value for name, value in vars(decision).items() if name != "effect"}
