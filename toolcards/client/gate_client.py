"""The HTTP client: submit a call, wait for the decision, claim the permit, report the result.

Longer than most modules: it is one class, and each of its methods exists for threads and for async code.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from .common import input_repair
from .decisions.answers import Decision, check_answer, check_claim, deny_unasked, get_allowed_tool, make_denial
from .decisions.approval_wait import ApprovalWait
from .decisions.question import CallRequest, SubmittedCalls, Tool
from .stream import Run
from .transport.background import LateRequests, finish, is_final, start
from .transport.connection import ASKED_PATIENCE
from .transport.http_client import HttpClient, Unreachable
from .values import repair_loop
from .values.jsonable import shorten
from .values.repair_loop import Reask

__all__ = ["Toolcards", "Unreachable"]

CLAIMS = 3  # attempts at one claim while its answer is lost
PAUSE = 1.0  # seconds between polls of a server that is down or does not hold the poll
REUSED = "Another call was submitted under this call id. Use a new id for every call, or a higher attempt."


class Toolcards:
    """A Toolcards server, for an agent. Every failure of `decide` and `wait` is a deny, never an exception.

    The default address and key come from TOOLCARDS_URL and TOOLCARDS_AGENT_KEY.
    """

    def __init__(self, url: str = "", key: str = "", *, timeout: float = 10, keep_alive: bool = True) -> None:
        self.url = (url or os.environ.get("TOOLCARDS_URL") or "http://127.0.0.1:8000").rstrip("/")
        self.key = (key or os.environ.get("TOOLCARDS_AGENT_KEY", "")).strip()  # files end with a line break
        self.timeout = timeout
        self._http = HttpClient(self.url, {"Authorization": f"Bearer {self.key}"}, keep_alive=keep_alive)
        self._submitted = SubmittedCalls()
        self._late = LateRequests(self._send)

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
        """Ask whether the call may run.

        `more` holds further fields, for example `can_wait=False`.
        `tool` is its name, or an object with `name` and optionally source, title, kind.
        """
        try:
            offers = input_repair.parse_offers(more.get("tools") or ())
            question = CallRequest.about(run, call_id, tool, args, attempt=attempt, offered_names=offers)
        except (TypeError, ValueError, RecursionError) as error:  # not JSON: cannot be evaluated
            return deny_unasked(error, call_id)
        if not self._submitted.admit(question):
            return make_denial(REUSED, call_id, "call_id_reused")
        self._late.discard(*_build_abort(question))  # it is asked again
        body = {
            "v": 1, "run": run, "call_id": call_id, "attempt": attempt, "agent_path": list(agent),
            "tool": {"name": tool} if isinstance(tool, str) else dict(tool), "args": question.args,
            "args_sha256": question.args_sha256, **more,
        }  # fmt: skip
        try:
            return check_answer(self._send("POST", "/api/v1/calls/decide", body), question)
        except Unreachable as error:
            denial = deny_unasked(error, call_id)
            return replace(denial, question=question) if error.may_have_arrived else denial
        except (TypeError, ValueError) as error:
            return deny_unasked(error, call_id)

    def wait(
        self, decision: Decision, *, seconds: float | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> Decision:
        """Wait for the final decision; a deny after `seconds`.

        If the server has not responded for ASKED_PATIENCE seconds, the result is a deny. Once `stopped()` is true, the
        current decision is returned.
        """
        wait = ApprovalWait(decision, seconds)
        while wait.decision.waiting and not stopped():
            wait.update(wait.next_step(self)())
        return wait.decision

    def look(self, decision: Decision, seconds: float = 0) -> Decision:
        """Return the current decision, waiting up to `seconds` for an answer."""
        question, began = decision.question, time.monotonic()
        if not decision.waiting or question is None:
            return make_denial("There is no approval to wait for.", decision.call_id)
        path = f"/api/v1/approvals/{quote(decision.approval, safe='')}?wait={seconds:.0f}"
        try:
            polled_decision = check_answer(self._send("GET", path, hold=seconds), question, "poll")
        except Unreachable as error:
            if is_final(error):
                return make_denial(f"The approval can no longer be waited for: {error}", decision.call_id)
            time.sleep(min(PAUSE, seconds))  # a restart: the approval survives it
            return decision
        if polled_decision.effect != "deny" and polled_decision.approval != decision.approval:
            return make_denial("The gate answered about a different approval.", decision.call_id)
        if polled_decision.waiting and time.monotonic() - began < PAUSE:  # the poll was not held
            time.sleep(min(PAUSE, seconds))
        return polled_decision

    def withdraw(self, decision: Decision, *, timed_out: bool = False) -> bool:
        """Withdraw a waiting approval; return whether the server confirmed it.

        If it cannot be reached, it learns this later, see `result`.
        """
        if not decision.waiting:
            return False
        body = {"timed_out": True} if timed_out else {}
        return self._deliver(f"/api/v1/approvals/{quote(decision.approval, safe='')}/withdraw", body)

    def give_up(self, decision: Decision) -> None:
        """Report in the background that a call will not run.

        Only if the server may count on it: the approval is waiting, or the answer to the question was lost.
        """
        if decision.waiting:
            finish(self.withdraw, decision)
        elif decision.by == "client" and decision.question is not None:
            self._abort(decision.question)

    def _abort(self, question: CallRequest) -> None:
        self._late.add(*_build_abort(question))

    def expire(self, decision: Decision) -> Decision:
        """Withdraw the approval and return the deny of one that expired."""
        self.withdraw(decision, timed_out=True)
        return make_denial("No one answered in time.", decision.call_id, "approval_expired")

    def deny_silent_server(self, decision: Decision) -> Decision:
        """Return the deny after the server was silent for too long.

        The server learns this when it is back.
        """
        self.give_up(decision)
        text = f"Toolcards has not answered for {ASKED_PATIENCE:.0f} seconds, so the call did not run."
        return make_denial(text, decision.call_id, "gate_unavailable")

    def claim(self, decision: Decision) -> Decision:
        """Claim the permit right before executing.

        Returns an allow with the arguments to run, or a deny.
        If the answer is lost, the claim is sent again with the same `claim_id`; other claims of the permit are denied.
        If all answers are lost, the server learns later that the call did not run.
        """
        question = decision.question
        if not decision.allowed or not decision.permit or question is None:
            return make_denial(decision.text or "There is no permit.", decision.call_id, decision.code or "gate_error")
        tool, args = get_allowed_tool(decision), decision.args if decision.edited else question.args
        body = {
            "call_id": question.call_id, "attempt": question.attempt, "args_sha256": decision.args_sha256,
            "call_sha256": question.digest_of(args, tool), "tool": {"name": tool.name, "source": tool.source},
            "schema_sha256": question.tool.schema_sha256, "claim_id": uuid.uuid4().hex,
        }  # fmt: skip
        try:
            answer = self._send_claim(f"/api/v1/permits/{quote(decision.permit, safe='')}/claim", body)
        except Unreachable as error:
            if not is_final(error):
                self._abort(question)
            return make_denial(f"The permit could not be claimed, so the call did not run: {error}", decision.call_id)
        except BaseException:  # interrupted
            self._abort(question)
            raise
        return check_claim(answer, decision)

    def _send_claim(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a claim up to CLAIMS times until it is answered; raises Unreachable."""
        for remaining in reversed(range(CLAIMS)):
            try:
                return self._send("POST", path, body)
            except Unreachable as error:
                if not remaining or is_final(error):
                    raise
                time.sleep(PAUSE)
        raise AssertionError("unreachable")

    def result(
        self, run: str, call_id: str, *, output: Any = None, error: str | Mapping[str, Any] | None = None, **more: Any
    ) -> bool:
        """Report an output, an error, or an error with an output.

        An error is a message or an error object.
        Return whether the server has it. If it cannot be reached, the report is sent again in the background, for up to
        two minutes; at the end of the process for up to two seconds.
        An output too long for one frame is cut, with a mark. `more` may hold the decision's `attempt`; the default is
        the last one submitted under this id.
        """
        attempt = self._submitted.latest(run, call_id)
        body: dict[str, Any] = {"run": run, "attempt": attempt, "outcome": "ok" if error is None else "error", **more}
        details = error if isinstance(error, Mapping) else {"message": error}
        body |= {} if error is None else {"error": dict(details)}
        body |= {"output": shorten(output)} if error is None or output is not None else {}
        return self._deliver(f"/api/v1/calls/{quote(call_id, safe='')}/result", body)

    def _deliver(self, path: str, body: dict[str, Any]) -> bool:
        """Send a report; return whether the server has it.

        What it may not have is sent again in the background.
        """
        try:
            self._send("POST", path, body)
        except Unreachable as error:
            if not is_final(error):
                self._late.add(path, body)
            return False
        except (TypeError, ValueError):
            return False
        except BaseException:  # interrupted
            self._late.add(path, body)
            raise
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
        """Ask the gate about a call, wait for people, claim the permit.

        On allow, run `decision.args`. On deny, give the model `decision.text`.
        `more` may hold `tools`, those offered to the model: the call is checked against them, and repaired if there is
        only one way. `reask` gets the deny of an invalid input (`decision.raw["places"]` has the places) and may return
        other arguments, for example from the model, or None. For an unknown tool it may return the name of one of
        `decision.raw["tools"]`, which only read; it runs only if a rule allows it, and `decision.tool` names it.
        `reask` has 10 seconds; only what failed may change; the result is evaluated once, as the next attempt of the
        same id. Exceptions in it are ignored.
        """
        decision = self._decide_with_reask(run, call_id, tool, args, reask, more)
        try:
            decision = self.wait(decision, seconds=seconds)
        except BaseException:  # the agent stops waiting
            self.give_up(decision)
            raise
        return self._claim_or_give_up(decision)

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
        """Do the same in async code.

        A canceled task withdraws its approval. `reask` is called in a thread.
        """
        decision = await self._run_cancellable(self._decide_with_reask, run, call_id, tool, args, reask, more)
        wait = ApprovalWait(decision, seconds)
        try:
            while wait.decision.waiting:
                wait.update(await asyncio.wrap_future(start(wait.next_step(self))))
        except BaseException:
            self.give_up(wait.decision)
            raise
        return await self._run_cancellable(self._claim_or_give_up, wait.decision)

    def _claim_or_give_up(self, decision: Decision) -> Decision:
        if decision.allowed:
            return self.claim(decision)
        self.give_up(decision)
        return decision

    async def _run_cancellable(self, do: Callable[..., Decision], *args: Any) -> Decision:
        """Run `do` in a thread; if the task is canceled, give back what the server then allows or asks."""
        work = start(do, *args)
        try:
            return await asyncio.wrap_future(work)
        except BaseException:
            finish(self._give_back, work)
            raise

    def _give_back(self, work: Future[Decision]) -> None:
        """Wait for the decision, and report that its call will not run."""
        try:
            decision = work.result()
        except (CancelledError, Exception):
            return
        if decision.allowed and decision.question is not None:
            self._abort(decision.question)
        elif decision.waiting:
            self.withdraw(decision)
        else:
            self.give_up(decision)

    def _decide_with_reask(
        self, run: str, call_id: str, tool: str, args: Any, reask: Reask | None, more: dict[str, Any]
    ) -> Decision:
        """Return the decision on the call, or on its rewrite if it was invalid.

        An interruption gives the call up.
        """
        try:
            return self._decide_once_more(run, call_id, tool, args, reask, more)
        except BaseException as error:
            if not isinstance(error, Exception):
                self._abort(CallRequest(run, call_id, Tool(""), None, "", self._submitted.latest(run, call_id)))
            raise

    def _decide_once_more(
        self, run: str, call_id: str, tool: str, args: Any, reask: Reask | None, more: dict[str, Any]
    ) -> Decision:
        decision = self.decide(run, call_id, tool, args, **more)
        if reask is None or decision.effect != "deny":
            return decision
        next_attempt = {**more, "attempt": int(more.get("attempt", 1)) + 1}
        if decision.code == "invalid_input":
            new_args = repair_loop.rewrite_arguments(reask, decision, args, repair_loop.get_schema_errors(decision))
            return decision if new_args is None else self.decide(run, call_id, tool, new_args, **next_attempt)
        chosen_tool = ""
        if decision.code == "no_such_tool":
            chosen_tool = repair_loop.choose_other_tool(
                reask, decision, args, input_repair.parse_offers(more.get("tools") or ())
            )
        if not chosen_tool:
            return decision
        # Without asking a person:
        repeated_decision = self.decide(run, call_id, chosen_tool, args, **{**next_attempt, "can_wait": False})
        return (
            replace(repeated_decision, tool=repeated_decision.tool or chosen_tool)
            if repeated_decision.allowed
            else decision
        )

    # ------------------------------------------------------------ a run

    def end(self, run: str, outcome: str = "success", reason: str = "", *, seconds: float | None = None) -> bool:
        """Report the end of the run within `seconds`.

        Return whether the server has it.
        """
        body, hold = {"outcome": outcome, "reason": reason}, 0.0 if seconds is None else seconds - self.timeout
        try:
            self._send("POST", f"/api/v1/runs/{quote(run, safe='')}/end", body, hold=hold)
        except Unreachable:
            return False
        return True

    def beat(self, run: str) -> bool:
        """Send a heartbeat; return whether the server has it.

        From the first one on, send one at least every 60 seconds.
        """
        try:
            self._send("POST", f"/api/v1/runs/{quote(run, safe='')}/beat", {})
        except Unreachable:
            return False
        return True

    def run(self, run: str = "", **options: Any) -> Run:
        """Return a run that is reported over one WebSocket.

        Use it as `async with cards.run(agent="…") as run`. See stream.Run.
        """
        return Run(self.url, self.key, run or f"run-{uuid.uuid4().hex[:12]}", **options)

    # ------------------------------------------------------------ HTTP

    def _send(self, method: str, path: str, body: Any = None, *, hold: float = 0) -> dict[str, Any]:
        """Return the JSON object of a 200 answer; raises Unreachable for anything else."""
        data = json.dumps(body, allow_nan=False).encode() if body is not None else None
        return self._http.request(method, path, data, self.timeout + hold)


def _build_abort(question: CallRequest) -> tuple[str, dict[str, Any]]:
    """Return path and body of the report that a call did not run, and will not."""
    body = {"run": question.run, "attempt": question.attempt, "outcome": "aborted", "side_effects": "none"}
    return f"/api/v1/calls/{quote(question.call_id, safe='')}/result", body
