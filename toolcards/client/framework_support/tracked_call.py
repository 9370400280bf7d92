"""One call of a framework: written, submitted, running, ended. Each phase is reported once."""

from __future__ import annotations

import json
import threading
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from ..calls import Call
from ..common import error_codes
from ..common.input_repair import Repair
from ..decisions.answers import Decision, Denied, make_denial
from ..hooks import Attempt, has_plugins
from ..transport.threads import run_in_thread
from ..values.failures import is_cancellation, is_interruption
from ..values.jsonable import to_jsonable
from ..values.outputs import BadOutput

__all__ = ["TrackedCall", "canonical_text", "current_call"]

OTHER_TOOL = "The call was repaired to a tool that cannot be run in its place."
current_call: ContextVar[TrackedCall | None] = ContextVar(
    "toolcards_call", default=None
)  # the call being executed here


class TrackedCall:
    """One call. Its methods raise only interruptions into the agent; only `ask` and `ask_now` block.

    `name` is the framework's id, `tool` the tool as the model named it; on the wire the call has its own id.
    """

    def __init__(self, name: str, tool: str, call: Call) -> None:
        self.name, self.tool, self.call = name, tool, call
        self.decision: Decision | None = None
        self.over = False  # its end was reported
        self.is_running = False  # or is about to run
        self.announced = False  # the model's stream reported it
        self._lock = threading.Lock()
        self._is_complete = self._has_streamed = self._is_waiting = False
        self._input_text = ""  # "" while the model writes it
        self._submitted_tool = tool or call.tool  # the tool that the framework will run
        self._attempt: Attempt | None = None

    # ------------------------------------------------------------ identity

    def is_being_written(self) -> bool:
        """Return whether the model may still be writing it."""
        return self.is_untouched() and not self._input_text

    def is_untouched(self) -> bool:
        """Return whether it is open, not submitted and not running."""
        return not (self.over or self.is_running or self._is_waiting or self.decision)

    @property
    def is_busy(self) -> bool:
        """Whether it runs or waits for a decision."""
        return not self.over and (self.is_running or self._is_waiting)

    def matches(self, args: Any) -> bool:
        """Return whether a call with these arguments may be this one.

        It is not if it runs or waits.
        """
        if self.over or self.is_running or self._is_waiting:
            return False
        text = canonical_text(args)
        if self.decision is not None and self.decision.edited:
            return text in {self._input_text, canonical_text(self.decision.args)}
        return self._input_text in {"", text}

    def identify(self, args: Any) -> None:
        """Store the input: a different one is a different call."""
        self._input_text = self._input_text or canonical_text(args)

    def reserve(self, args: Any) -> None:
        """Reserve the call for a caller that is about to ask."""
        self.identify(args)
        self._is_waiting = True

    # ------------------------------------------------------------ the input

    def delta(self, text: str) -> None:
        """Report a piece of the input."""
        if text and not self._is_complete:
            self._has_streamed = True
            self.call.delta(text)

    def complete(self, args: Any) -> None:
        """Record the complete input; a gated run reports it only with `ask`."""
        self.identify(args)
        if not self.call.run.gate:
            self._report_input(args)

    def _report_input(self, args: Any) -> None:
        if not self._is_complete:
            self._is_complete = True
            self.call.available(args)

    def invalid(self, value: Any, message: str, code: str = "invalid_input") -> None:
        """Report an invalid input or tool name; nothing runs."""
        if self._try_end():
            self._is_complete = True
            self.call.invalid(value, message, code)
            self._begin_attempt().deny(code, message)

    # ------------------------------------------------------------ the decision

    async def ask(
        self, args: Any, *, seconds: float | None = None, repair: Repair | None = None, take: bool = True
    ) -> Decision:
        """Return the final decision on the call.

        In an observed run only plugins can deny.
        `repair` replaces a call that was invalid as written. `take`: the call runs next; without it the call is only
        approved, and `ask` gives the same answer again when it runs.
        """
        earlier = self._reuse_decision(args, take=take)
        if earlier is not None:
            return earlier
        try:
            new_args = (
                await run_in_thread(self._begin_attempt().before, _choose_input(args, repair))
                if has_plugins()
                else _choose_input(args, repair)
            )
            decision = self._allow_if_observed(new_args)
            if decision is None:
                submitted_question, repair = self._choose_question(args, new_args, repair)
                decision = await self.call.decision(submitted_question, seconds=seconds, repair=repair)
        except Denied as denied:
            return self._end_by_hook(args, denied.decision)
        except BaseException:  # the agent stopped waiting
            self._abort()
            raise
        return self._settle(decision, new_args, args, take=take)

    def ask_now(
        self, args: Any, *, seconds: float | None = None, repair: Repair | None = None, take: bool = True
    ) -> Decision:
        """Return the final decision, for code without an event loop."""
        earlier = self._reuse_decision(args, take=take)
        if earlier is not None:
            return earlier
        try:
            new_args = self._begin_attempt().before(_choose_input(args, repair))
            decision = self._allow_if_observed(new_args)
            if decision is None:
                submitted_question, repair = self._choose_question(args, new_args, repair)
                decision = self.call.decision_now(submitted_question, seconds=seconds, repair=repair)
        except Denied as denied:
            return self._end_by_hook(args, denied.decision)
        except BaseException:
            self._abort()
            raise
        return self._settle(decision, new_args, args, take=take)

    def _reuse_decision(self, args: Any, *, take: bool) -> Decision | None:
        """Return an earlier decision, which lets the call run once; otherwise reserve the call."""
        with self._lock:
            if self.decision is not None and not self.is_running:
                self.is_running, self._is_waiting = take, False
                return self.decision
        self.reserve(args)
        return None

    def _allow_if_observed(self, new_args: Any) -> Decision | None:
        """Return an allow if the run is only observed."""
        if self.call.run.gate:
            self._is_complete = True
            return None
        self._ensure_attempt()
        self._report_input(new_args)
        return Decision("allow", call_id=self.call.id)

    def _choose_question(self, args: Any, new_args: Any, repair: Repair | None) -> tuple[Any, Repair | None]:
        """Return the arguments to submit, and the repair that goes with them."""
        if repair is None:
            return new_args, None
        self._submitted_tool = repair.tool
        return to_jsonable(args), replace(repair, input=new_args)

    def _end_by_hook(self, args: Any, decision: Decision) -> Decision:
        """End the call because a plugin denied it or failed; the card still shows the input."""
        if not self._has_streamed:
            self.call.delta(canonical_text(args))
        if decision.code == "plugin_veto":
            self.call.denied(decision.text)
        else:
            fault = error_codes.make_fault(decision.code if decision.code in error_codes.TABLE else "plugin_crash")
            self.call.error(decision.text, code=fault.code, authority=fault.authority, retryable=fault.retryable)
        self.decision, self.over, self._is_waiting = decision, True, False
        return decision

    def _settle(self, decision: Decision, new_args: Any, args: Any, *, take: bool) -> Decision:
        """Store the decision; a deny ends the call, an allow runs the repaired or changed input."""
        self._ensure_attempt()
        if decision.allowed and (
            self.call.tool != self._submitted_tool or decision.tool not in {"", self._submitted_tool}
        ):
            self.call.denied(OTHER_TOOL)
            decision = make_denial(OTHER_TOOL, self.call.id, "no_such_tool")
        if decision.allowed and not decision.edited and canonical_text(new_args) != canonical_text(args):
            decision = replace(decision, args=new_args, edited=True)
        with self._lock:
            self.decision, self.over, self._is_waiting = decision, not decision.allowed, False
            self.is_running = decision.allowed and take
        if self.over and self._attempt is not None:
            self._attempt.deny(decision.code, decision.text)
        return decision

    def _abort(self) -> None:
        self._is_waiting, self.over = False, True
        self.close()

    # ------------------------------------------------------------ the result

    def output(self, output: Any) -> None:
        """Report the result."""
        if self._try_end():
            why = self.call.output(output)
            if self._attempt is not None and why:
                self._attempt.report_error(BadOutput.toolcards_code, why)
            elif self._attempt is not None:
                self._attempt.succeed(output)

    def failed(self, error: BaseException) -> None:
        """Report an exception of the tool.

        An interruption is reported by the end of the run instead.
        """
        if is_cancellation(error):
            self.call.run.interrupted = True
        if not is_interruption(error) and self._try_end():
            self.call.failed(error)
            if self._attempt is not None:
                self._attempt.fail(error)

    def error(self, message: str = "", **more: Any) -> None:
        """Report an error message of the tool."""
        if self._try_end():
            self.call.error(message, **more)
            if self._attempt is not None:
                self._attempt.report_error(str(more.get("code", "")), message)

    def denied(self, reason: str = "") -> None:
        """Report a denial that did not come from our gate."""
        if self._try_end():
            self.call.denied(reason)
            if self._attempt is not None:
                self._attempt.deny("approval_denied", reason)

    def pause(self) -> None:
        """Mark the call as interrupted.

        The framework runs it again without asking.
        """
        self.is_running = False

    def defer(self) -> None:
        """Report that the app brings the result later; the call stays open."""
        self.is_running = False
        if not self.over:
            self.call.deferred()

    def close(self) -> None:
        """Close the call as interrupted if it has not ended."""
        if self._attempt is not None:
            self._attempt.settle("aborted")

    def _try_end(self) -> bool:
        """Mark the call as ended; return False if it had ended before."""
        with self._lock:
            was_over, self.over = self.over, True
        return not was_over

    # ------------------------------------------------------------ plugins

    def _begin_attempt(self) -> Attempt:
        if self._attempt is None or not self._attempt.open:
            self._attempt = Attempt(self.call.run.name, self.call.id, self.call.tool)
        return self._attempt

    def _ensure_attempt(self) -> None:
        if self._attempt is None:
            self._begin_attempt()


def canonical_text(args: Any) -> str:
    """Return the arguments as text; equal JSON gives equal text."""
    return json.dumps(to_jsonable(args), sort_keys=True)


def _choose_input(args: Any, repair: Repair | None) -> Any:
    return to_jsonable(args if repair is None else repair.input)
