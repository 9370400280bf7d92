"""Asking over HTTP: may this call run, wait for a person, use the permit, tell what came of it."""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from . import repair_loop
from .answers import Decision, check_answer, check_claim, get_allowed_tool, make_denial
from .common import input_repair
from .connection import ASKED_PATIENCE
from .http_client import HttpClient, Unreachable
from .question import AskedCalls, Question
from .question_wait import ApprovalWait
from .repair_loop import Reask
from .stream import Run
from .threads import get_pool, run_in_thread

__all__ = ["Toolcards", "Unreachable"]

CLAIMS = 3  # times that one claim is sent while its answer is lost
PAUSE = 1.0  # seconds before the next look at a server that is away, or that answers at once that nobody has answered
REUSED = "Another call was asked about under this call id. Give every call an id of its own, or a higher attempt."


class Toolcards:
    """A Toolcards server, seen by an agent. Every failure of `decide` and `wait` is a deny, never an exception.

    Without arguments the address and key come from TOOLCARDS_URL and TOOLCARDS_AGENT_KEY.
    """

    def __init__(self, url: str = "", key: str = "", *, timeout: float = 10, keep_alive: bool = True) -> None:
        self.url = (url or os.environ.get("TOOLCARDS_URL") or "http://127.0.0.1:8000").rstrip("/")
        self.key = key or os.environ.get("TOOLCARDS_AGENT_KEY", "")
        self.timeout = timeout
        self._http = HttpClient(self.url, {"Authorization": f"Bearer {self.key}"}, keep_alive=keep_alive)
        self._asked = AskedCalls()

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
        try:
            offered = input_repair.offers(more.get("tools") or ())
            question = Question.about(run, call_id, tool, args, attempt=attempt, offered=offered)
        except (TypeError, ValueError, RecursionError) as error:  # what is no JSON cannot be judged
            return make_denial(f"The gate could not be asked: {error}", call_id)
        if not self._asked.admit(question):
            return make_denial(REUSED, call_id, "call_id_reused")
        body = {
            "v": 1, "run": run, "call_id": call_id, "attempt": attempt, "agent_path": list(agent),
            "tool": {"name": tool} if isinstance(tool, str) else dict(tool), "args": question.args,
            "args_sha256": question.args_sha256, **more,
        }  # fmt: skip
        try:
            return check_answer(self._ask("POST", "/api/v1/calls/decide", body), question)
        except (Unreachable, TypeError, ValueError) as error:
            return make_denial(f"The gate could not be asked: {error}", call_id)

    def wait(
        self, decision: Decision, *, seconds: float | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> Decision:
        """Return the decision once a person, a rule or the clock has answered; a deny after `seconds`.

        Without a word from the server for ASKED_PATIENCE seconds it is a deny, too. Once `stopped()` is true nobody
        waits for it any more: it is returned as it stands.
        """
        waiting = ApprovalWait(decision, seconds)
        while waiting.decision.waiting and not stopped():
            waiting.saw(waiting.step(self)())
        return waiting.decision

    def look(self, decision: Decision, seconds: float = 0) -> Decision:
        """Return the decision as it stands, or once it is answered within `seconds`."""
        question, began = decision.question, time.monotonic()
        if not decision.waiting or question is None:
            return make_denial("There is no question to wait for.", decision.call_id)
        path = f"/api/v1/approvals/{quote(decision.approval, safe='')}?wait={seconds:.0f}"
        try:
            said = check_answer(self._ask("GET", path, held=seconds), question, "poll")
        except Unreachable as error:
            if _is_final(error):
                return make_denial(f"The gate no longer knows this question: {error}", decision.call_id)
            time.sleep(min(PAUSE, seconds))  # a restart: the question is still there afterwards
            return decision
        if said.effect != "deny" and said.approval != decision.approval:
            return make_denial("The gate answered another question.", decision.call_id)
        if said.waiting and time.monotonic() - began < PAUSE:  # it was to wait
            time.sleep(min(PAUSE, seconds))
        return said

    def withdraw(self, decision: Decision) -> bool:
        """Take a question back that a person was asked; whether the server has it."""
        if not decision.waiting:
            return False
        try:
            self._ask("POST", f"/api/v1/approvals/{quote(decision.approval, safe='')}/withdraw", {})
        except Unreachable:
            return False
        return True

    def too_late(self, decision: Decision) -> Decision:
        """Take the question back and return the deny of one that nobody answered."""
        self.withdraw(decision)
        return make_denial("Nobody answered in time.", decision.call_id, "approval_expired")

    def gone(self, decision: Decision) -> Decision:
        """Return the deny of a question whose server has fallen silent."""
        text = f"Toolcards has not answered for {ASKED_PATIENCE:.0f} seconds, so the call may not run."
        return make_denial(text, decision.call_id, "gate_unavailable")

    def claim(self, decision: Decision) -> Decision:
        """Use up the permit, right before executing; the answer is an allow with the arguments to run, or a deny.

        If the answer is lost, the same claim is sent again under its `claim_id`; another claim of the permit is denied.
        """
        question = decision.question
        if not decision.allowed or not decision.permit or question is None:
            return make_denial(decision.text or "There is no permit.", decision.call_id, decision.code or "gate_error")
        tool, runs = get_allowed_tool(decision), decision.args if decision.edited else question.args
        body = {
            "call_id": question.call_id, "attempt": question.attempt, "args_sha256": decision.args_sha256,
            "call_sha256": question.digest_of(runs, tool), "tool": {"name": tool.name, "source": tool.source},
            "schema_sha256": question.tool.schema_sha256, "claim_id": uuid.uuid4().hex,
        }  # fmt: skip
        try:
            answer = self._claimed(f"/api/v1/permits/{quote(decision.permit, safe='')}/claim", body)
        except Unreachable as error:
            return make_denial(f"The permit could not be used: {error}", decision.call_id)
        return check_claim(answer, decision)

    def _claimed(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a claim until it is answered, CLAIMS times at most; raises Unreachable."""
        for left in reversed(range(CLAIMS)):
            try:
                return self._ask("POST", path, body)
            except Unreachable as error:
                if not left or _is_final(error):
                    raise
                time.sleep(PAUSE)
        raise AssertionError("unreachable")

    def result(
        self, run: str, call_id: str, *, output: Any = None, error: str | Mapping[str, Any] | None = None, **more: Any
    ) -> bool:
        """Report an output, or an error (a message, or a `faults.fault`); return whether the server has it.

        `more` may hold `attempt`, the decision's; without it, it is the one that was asked about last under this id.
        """
        attempt = self._asked.latest(run, call_id)
        body: dict[str, Any] = {"run": run, "attempt": attempt, "outcome": "ok" if error is None else "error", **more}
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
        decision = await self._unless_stopped(self._decided, run, call_id, tool, args, reask, more)
        waiting = ApprovalWait(decision, seconds)
        try:
            while waiting.decision.waiting:
                waiting.saw(await run_in_thread(waiting.step(self)))
        except BaseException:
            get_pool().submit(self.withdraw, waiting.decision)
            raise
        decision = waiting.decision
        return await self._unless_stopped(self.claim, decision) if decision.allowed else decision

    async def _unless_stopped(self, do: Callable[..., Decision], *args: Any) -> Decision:
        """Do it in a thread; if the task is cancelled meanwhile, what the server then allows or asks is given back."""
        work = get_pool().submit(do, *args)
        try:
            return await asyncio.wrap_future(work)
        except BaseException:
            work.add_done_callback(self._give_back)
            raise

    def _give_back(self, work: Future[Decision]) -> None:
        if work.cancelled() or work.exception() is not None:
            return
        decision = work.result()
        self.withdraw(decision)
        if decision.allowed and decision.question is not None and not decision.permit:  # claimed, and not run
            question = decision.question
            self.result(question.run, question.call_id, outcome="aborted", attempt=question.attempt)

    def _decided(
        self, run: str, call_id: str, tool: str, args: Any, reask: Reask | None, more: dict[str, Any]
    ) -> Decision:
        """The decision; where the call was unusable, that on what was written in its place."""
        decision = self.decide(run, call_id, tool, args, **more)
        if reask is None or decision.effect != "deny":
            return decision
        once_more = {**more, "attempt": int(more.get("attempt", 1)) + 1}
        if decision.code == "invalid_input":
            again = repair_loop.rewrite_arguments(reask, decision, args, repair_loop.get_schema_errors(decision))
            return decision if again is None else self.decide(run, call_id, tool, again, **once_more)
        chosen = ""
        if decision.code == "no_such_tool":
            chosen = repair_loop.choose_other_tool(reask, decision, args, input_repair.offers(more.get("tools") or ()))
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
        """Return the JSON object of a 200; raises Unreachable for anything else."""
        data = json.dumps(body, allow_nan=False).encode() if body is not None else None
        return self._http.request(method, path, data, self.timeout + held)


def _is_final(error: Unreachable) -> bool:
    """Return whether the server refused, so that asking again gets no other answer."""
    return 400 <= error.status < 500 and error.status != 429
