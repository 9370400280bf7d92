"""One call of a framework as far as it has come: written, asked about, running, ended; each told once."""

from __future__ import annotations

import json
import threading
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from .answers import Decision, Denied, make_denial
from .calls import Call
from .common import error_codes
from .common.input_repair import Mended
from .failures import is_cancellation, is_interruption
from .hooks import Attempt, anybody
from .jsonable import to_jsonable
from .outputs import BadOutput
from .threads import run_in_thread

__all__ = ["TrackedCall", "canonical_text", "current_call"]

OTHER_TOOL = "The call was repaired to a tool that cannot be run in its place."
current_call: ContextVar[TrackedCall | None] = ContextVar(
    "toolcards_call", default=None
)  # the call being executed here


class TrackedCall:
    """One call. Nothing here raises into the agent but being stopped, and only `ask` and `ask_now` ever wait.

    `name` is the framework's id, `tool` the tool as the model named it; on the wire the call has an id of its own.
    """

    def __init__(self, name: str, tool: str, call: Call) -> None:
        self.name, self.tool, self.call = name, tool, call
        self.decision: Decision | None = None
        self.over = False  # its end was told
        self.taken = False  # it runs, or is about to
        self.announced = False  # the model's stream told of it
        self._lock = threading.Lock()
        self._whole = self._streamed = self._asking = False
        self._written = ""  # its input as text, "" while the model writes it
        self._judged = tool or call.tool  # the tool that the framework will run
        self._attempt: Attempt | None = None

    # ------------------------------------------------------------ which call is meant

    def starts(self) -> bool:
        """Return whether the model may still be writing it."""
        return self.untouched() and not self._written

    def untouched(self) -> bool:
        """Return whether it is open, and nobody has asked about it or begun to run it."""
        return not (self.over or self.taken or self._asking or self.decision)

    @property
    def busy(self) -> bool:
        """Whether it runs, or is being asked about."""
        return not self.over and (self.taken or self._asking)

    def fits(self, args: Any) -> bool:
        """Return whether a call with these arguments may be this one: not another that runs, or is asked about."""
        if self.over or self.taken or self._asking:
            return False
        text = canonical_text(args)
        if self.decision is not None and self.decision.edited:
            return text in {self._written, canonical_text(self.decision.args)}
        return self._written in {"", text}

    def identify(self, args: Any) -> None:
        """Remember the input: another one is another call."""
        self._written = self._written or canonical_text(args)

    def reserve(self, args: Any) -> None:
        """Keep it for one who is about to ask."""
        self.identify(args)
        self._asking = True

    # ------------------------------------------------------------ the input

    def delta(self, text: str) -> None:
        """A piece of the input."""
        if text and not self._whole:
            self._streamed = True
            self.call.delta(text)

    def written(self, args: Any) -> None:
        """The input is whole. Where the run is gated this says nothing yet: asking does."""
        self.identify(args)
        if not self.call.run.gate:
            self._show(args)

    def _show(self, args: Any) -> None:
        if not self._whole:
            self._whole = True
            self.call.available(args)

    def invalid(self, given: Any, message: str, code: str = "invalid_input") -> None:
        """The input or the tool's name cannot be used; nothing runs."""
        if self._ends():
            self._whole = True
            self.call.invalid(given, message, code)
            self._begin().denied(code, message)

    # ------------------------------------------------------------ the decision

    async def ask(
        self, args: Any, *, seconds: float | None = None, mended: Mended | None = None, take: bool = True
    ) -> Decision:
        """May the call run with these arguments? A final answer; in a run that is only shown only plug-ins may deny.

        `mended`: what was put in place of a call that could not be used as it was written. `take`: it runs next;
        without it the call is only approved, and asked about again, with the same answer, where it runs.
        """
        known = self._known(args, take=take)
        if known is not None:
            return known
        try:
            given = await run_in_thread(self._before, args, mended) if anybody() else _choose_input(args, mended)
            decision = self._observed(given)
            if decision is None:
                asked, instead = self._question(args, given, mended)
                decision = await self.call.decision(asked, seconds=seconds, mended=instead)
        except Denied as denied:
            return self._stopped(args, denied.decision)
        except BaseException:  # the agent stopped waiting
            self._aborted()
            raise
        return self._settle(decision, given, args, take=take)

    def ask_now(
        self, args: Any, *, seconds: float | None = None, mended: Mended | None = None, take: bool = True
    ) -> Decision:
        """The same for code without an event loop."""
        known = self._known(args, take=take)
        if known is not None:
            return known
        try:
            given = self._before(args, mended)
            decision = self._observed(given)
            if decision is None:
                asked, instead = self._question(args, given, mended)
                decision = self.call.decision_now(asked, seconds=seconds, mended=instead)
        except Denied as denied:
            return self._stopped(args, denied.decision)
        except BaseException:
            self._aborted()
            raise
        return self._settle(decision, given, args, take=take)

    def _known(self, args: Any, *, take: bool) -> Decision | None:
        """Return the answer where it was given before; it lets the call run once."""
        with self._lock:
            if self.decision is not None and not self.taken:
                self.taken, self._asking = take, False
                return self.decision
        self.reserve(args)
        return None

    def _before(self, args: Any, mended: Mended | None) -> Any:
        """What plug-ins make of the arguments; raises Denied."""
        return self._begin().before(_choose_input(args, mended))

    def _observed(self, given: Any) -> Decision | None:
        """The allow of a run where nobody decides."""
        if self.call.run.gate:
            self._whole = True
            return None
        self._begin_once()
        self._show(given)
        return Decision("allow", call_id=self.call.id)

    def _question(self, args: Any, given: Any, mended: Mended | None) -> tuple[Any, Mended | None]:
        """Return what is asked about, and what was put in its place."""
        if mended is None:
            return given, None
        self._judged = mended.tool
        return to_jsonable(args), replace(mended, input=given)

    def _stopped(self, args: Any, decision: Decision) -> Decision:
        """A plug-in said no, or broke: nobody is asked, but it is shown, with the input in question."""
        if not self._streamed:
            self.call.delta(canonical_text(args))
        if decision.code == "plugin_veto":
            self.call.denied(decision.text)
        else:
            fault = error_codes.fault(decision.code if decision.code in error_codes.TABLE else "plugin_crash")
            self.call.error(decision.text, code=fault.code, authority=fault.authority, retryable=fault.retryable)
        self.decision, self.over, self._asking = decision, True, False
        return decision

    def _settle(self, decision: Decision, given: Any, args: Any, *, take: bool) -> Decision:
        """Keep the answer; a deny ends the call. What plug-ins changed, or a repair, is what is to run."""
        self._begin_once()
        if decision.allowed and (self.call.tool != self._judged or decision.tool not in {"", self._judged}):
            self.call.denied(OTHER_TOOL)
            decision = make_denial(OTHER_TOOL, self.call.id, "no_such_tool")
        if decision.allowed and not decision.edited and canonical_text(given) != canonical_text(args):
            decision = replace(decision, args=given, edited=True)
        with self._lock:
            self.decision, self.over, self._asking = decision, not decision.allowed, False
            self.taken = decision.allowed and take
        if self.over and self._attempt is not None:
            self._attempt.denied(decision.code, decision.text)
        return decision

    def _aborted(self) -> None:
        self._asking, self.over = False, True
        self.close()

    # ------------------------------------------------------------ what came of it

    def output(self, output: Any) -> None:
        """The result."""
        if self._ends():
            why = self.call.output(output)
            if self._attempt is not None and why:
                self._attempt.broke(BadOutput.toolcards_code, why)
            elif self._attempt is not None:
                self._attempt.ok(output)

    def failed(self, error: BaseException) -> None:
        """The tool raised. What was stopped is no failure: the end of the run says so."""
        if is_cancellation(error):
            self.call.run.interrupted = True
        if not is_interruption(error) and self._ends():
            self.call.failed(error)
            if self._attempt is not None:
                self._attempt.failed(error)

    def broke(self, message: str = "", **more: Any) -> None:
        """The tool reports an error in words."""
        if self._ends():
            self.call.error(message, **more)
            if self._attempt is not None:
                self._attempt.broke(str(more.get("code", "")), message)

    def denied(self, reason: str = "") -> None:
        """Somebody else than our gate said no."""
        if self._ends():
            self.call.denied(reason)
            if self._attempt is not None:
                self._attempt.denied("approval_denied", reason)

    def paused(self) -> None:
        """The framework stopped it in the middle and will run the same call once more: it is not asked about again."""
        self.taken = False

    def close(self) -> None:
        """The run is over: what was begun and did not end was interrupted."""
        if self._attempt is not None:
            self._attempt.settled("aborted")

    def _ends(self) -> bool:
        """Return whether this is the call's end; it has one."""
        with self._lock:
            was, self.over = self.over, True
        return not was

    # ------------------------------------------------------------ what plug-ins hear

    def _begin(self) -> Attempt:
        if self._attempt is None or not self._attempt.open:
            self._attempt = Attempt(self.call.run.name, self.call.id, self.call.tool)
        return self._attempt

    def _begin_once(self) -> None:
        if self._attempt is None:
            self._begin()


def canonical_text(args: Any) -> str:
    """Return the arguments as one text, the same for the same JSON."""
    return json.dumps(to_jsonable(args), sort_keys=True)


def _choose_input(args: Any, mended: Mended | None) -> Any:
    return to_jsonable(args if mended is None else mended.input)
