"""One tool call of a run: write its input, wait until it is allowed, tell what came of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import outputs, repair_loop
from .answers import Decision, Denied, make_denial
from .common.input_repair import Repair
from .failures import format_error, mark_as_reported
from .jsonable import shorten
from .question import Question
from .repair_loop import Reask

if TYPE_CHECKING:
    from .stream import Run

__all__ = ["Call"]


class Call:
    """One tool call. Its methods may be used from any thread; none of those that only tell ever waits or raises."""

    def __init__(self, run: Run, tool: str, call_id: str) -> None:
        self.run, self.tool, self.id = run, tool, call_id
        self._asked = False

    def delta(self, text: str) -> None:
        """A piece of the input, as the model writes it."""
        self._say("tool.input.delta", delta=text)

    def available(self, args: Any) -> None:
        """The input is whole; nobody is asked to wait for a decision."""
        self._say("tool.input.available", tool=self.tool, input=shorten(args))

    def invalid(self, given: Any, error: str = "", code: str = "invalid_input") -> None:
        """The input, or the tool's name (`no_such_tool`), could not be used: nothing runs."""
        told = {"message": error, "code": code}
        self._say("tool.input.invalid", tool=self.tool, input=shorten(given), error=told)

    async def decision(
        self, args: Any, *, seconds: float | None = None, reask: Reask | None = None, repaired: Repair | None = None
    ) -> Decision:
        """The input is whole: return the final decision, an allow or a deny. A call is asked about once.

        A call that the tools offered by the run do not take is repaired where there is one way only (the decision has
        the `args` and the `tool` to run), or ends at once. `reask` may write the input once more, see `Toolcards.ask`.
        `repaired`: what the caller has already put in its place.
        """
        if repaired is None and reask is not None:
            repaired, refused = await asyncio.to_thread(self._usable, args, reask)
        elif repaired is None:
            repaired, refused = self._usable(args)
        else:
            refused = None
        asked = refused or self._question(args, repaired)
        if isinstance(asked, Decision):
            return asked
        return _apply_repair(await self.run.decided(asked, self._whole(args, repaired), seconds), repaired)

    def decision_now(
        self, args: Any, *, seconds: float | None = None, reask: Reask | None = None, repaired: Repair | None = None
    ) -> Decision:
        """The same for code without an event loop."""
        refused = None
        if repaired is None:
            repaired, refused = self._usable(args, reask)
        asked = refused or self._question(args, repaired)
        if isinstance(asked, Decision):
            return asked
        return _apply_repair(self.run.decided_now(asked, self._whole(args, repaired), seconds), repaired)

    async def allowed(self, args: Any, *, seconds: float | None = None) -> Any:
        """The input is whole: return the arguments to run with once the call is allowed; raise Denied where not."""
        return _granted(await self.decision(args, seconds=seconds), args)

    def allowed_now(self, args: Any, *, seconds: float | None = None) -> Any:
        """The same for code without an event loop."""
        return _granted(self.decision_now(args, seconds=seconds), args)

    def partial(self, output: Any) -> None:
        """A preliminary result."""
        self._say("tool.output.partial", output=shorten(output))

    def output(self, output: Any = None) -> str:
        """The result; one that cannot be used is told as that, and why is returned, "" where all is well."""
        offer = self.run.offers.get(self.tool)
        why = outputs.find_output_trouble(output, offer.output if offer is not None else None)
        if why:
            self.error(why, code=outputs.BadOutput.toolcards_code)
        else:
            self._say("tool.output.available", output=shorten(output))
        return why

    def error(self, message: str = "", **more: Any) -> None:
        """The call failed; `more` may be code, retryable, authority."""
        self._say("tool.output.error", error={"message": message, **more})

    def failed(self, error: BaseException) -> None:
        """The call raised this."""
        mark_as_reported(error)
        self._say("tool.output.error", error=format_error(error))

    def denied(self, reason: str = "") -> None:
        """Somebody else than our gate said no; the tool did not run."""
        self._say("tool.output.denied", reason=reason)

    def _usable(self, args: Any, reask: Reask | None = None) -> tuple[Repair | None, Decision | None]:
        """What stands in place of the call, or the no that ends it."""
        offers = self.run.offers
        repaired, trouble = repair_loop.find_usable_call(self.tool, args, offers, self.id, reask)
        if trouble is None:
            return repaired, None
        refused = repair_loop.make_refusal(trouble, offers, self.id)
        self.invalid(args, refused.text, trouble.code)
        return None, refused

    def _question(self, args: Any, repaired: Repair | None) -> Question | Decision:
        """Return what is asked about, or the deny of what cannot be."""
        if self._asked:
            return make_denial(
                "This call was asked about before; begin another one for that.", self.id, "call_id_reused"
            )
        self._asked = True
        tool, args = (self.tool, args) if repaired is None else (repaired.tool, repaired.input)
        try:
            return Question.about(self.run.name, self.id, tool, args, offered=self.run.offers)
        except (TypeError, ValueError, RecursionError) as error:
            refused = make_denial(f"The arguments cannot be judged: {error}", self.id, "invalid_args")
            self.invalid(args, refused.text)
            return refused

    def _whole(self, args: Any, repaired: Repair | None = None) -> dict[str, Any]:
        if repaired is None:
            return {"type": "tool.input.available", "call_id": self.id, "tool": self.tool, "input": args}
        self.tool = repaired.tool
        return {
            "type": "tool.input.repaired", "call_id": self.id, "tool": repaired.tool, "input": repaired.input,
            "original": args, "method": repaired.method,
        }  # fmt: skip

    def _say(self, kind: str, **more: Any) -> None:
        self.run.send({"type": kind, "call_id": self.id, **more})


def _apply_repair(decision: Decision, repaired: Repair | None) -> Decision:
    """What was judged is what runs: where the call was repaired, not the arguments as they were written."""
    if repaired is None or not decision.allowed or decision.edited:
        return decision
    return replace(decision, args=repaired.input, edited=True)


def _granted(decision: Decision, args: Any) -> Any:
    if not decision.allowed:
        raise Denied(decision)
    return decision.args if decision.edited else args
