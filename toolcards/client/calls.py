"""One tool call of a run: write its input, wait for the decision, report the result."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .common.input_repair import Repair
from .decisions.answers import Decision, Denied, make_denial
from .decisions.question import CallRequest
from .values import outputs, repair_loop
from .values.failures import format_error, mark_as_reported
from .values.jsonable import shorten
from .values.repair_loop import Reask

if TYPE_CHECKING:
    from .stream import Run

__all__ = ["FORM", "Call"]

FORM = "elicitation/create"  # the tool of forms, which people fill in; models are not offered it


class Call:
    """One tool call. Methods may be used from any thread; those that only report never wait or raise."""

    def __init__(self, run: Run, tool: str, call_id: str) -> None:
        self.run, self.tool, self.id = run, tool, call_id
        self._is_submitted = False

    def delta(self, text: str) -> None:
        """Report a piece of the input, as the model writes it."""
        self._send("tool.input.delta", delta=text)

    def available(self, args: Any) -> None:
        """Report the complete input without waiting for a decision."""
        self._send("tool.input.available", tool=self.tool, input=shorten(args))

    def invalid(self, value: Any, error: str = "", code: str = "invalid_input") -> None:
        """Report an invalid input or tool name (`no_such_tool`); nothing runs."""
        details = {"message": error, "code": code}
        self._send("tool.input.invalid", tool=self.tool, input=shorten(value), error=details)

    async def decision(
        self, args: Any, *, seconds: float | None = None, reask: Reask | None = None, repair: Repair | None = None
    ) -> Decision:
        """Submit the complete input.

        Return the final decision, an allow or a deny. A call is submitted once.
        A call that does not fit the tools offered by the run is repaired if there is only one way (the decision holds
        the `args` and the `tool` to run), otherwise it ends at once. `reask` may rewrite the input, see
        `Toolcards.ask`. `repair` is the caller's own repair.
        """
        if repair is None and reask is not None:
            repair, denial = await asyncio.to_thread(self._repair, args, reask)
        elif repair is None:
            repair, denial = self._repair(args)
        else:
            denial = None
        question = denial or self._submit(args, repair)
        if isinstance(question, Decision):
            return question
        return _apply_repair(await self.run.decided(question, self._format_input_frame(args, repair), seconds), repair)

    def decision_now(
        self, args: Any, *, seconds: float | None = None, reask: Reask | None = None, repair: Repair | None = None
    ) -> Decision:
        """Do the same for code without an event loop."""
        denial = None
        if repair is None:
            repair, denial = self._repair(args, reask)
        question = denial or self._submit(args, repair)
        if isinstance(question, Decision):
            return question
        return _apply_repair(self.run.decided_now(question, self._format_input_frame(args, repair), seconds), repair)

    async def allowed(self, args: Any, *, seconds: float | None = None) -> Any:
        """Submit the complete input.

        Return the arguments to run with, or raise Denied.
        """
        return _require_allowed(await self.decision(args, seconds=seconds), args)

    def allowed_now(self, args: Any, *, seconds: float | None = None) -> Any:
        """Do the same for code without an event loop."""
        return _require_allowed(self.decision_now(args, seconds=seconds), args)

    def partial(self, output: Any) -> None:
        """Report a preliminary result."""
        self._send("tool.output.partial", output=shorten(output))

    def output(self, output: Any = None) -> str:
        """Report the result.

        Return why it is unusable (reported as an error), or "".
        """
        offer = self.run.offers.get(self.tool)
        why = outputs.find_output_trouble(output, offer.output if offer is not None else None)
        if why:
            self.error(why, code=outputs.BadOutput.toolcards_code)
        else:
            self._send("tool.output.available", output=shorten(output))
        return why

    def deferred(self) -> None:
        """Report that the app brings the result later."""
        self._send("tool.output.deferred")

    def error(self, message: str = "", **more: Any) -> None:
        """Report a failure; `more` may hold code, retryable, authority."""
        self._send("tool.output.error", error={"message": shorten(message), **more})

    def failed(self, error: BaseException) -> None:
        """Report an exception of the tool."""
        mark_as_reported(error)
        self._send("tool.output.error", error=format_error(error))

    def denied(self, reason: str = "") -> None:
        """Report a denial that did not come from our gate.

        The tool did not run.
        """
        self._send("tool.output.denied", reason=reason)

    def _repair(self, args: Any, reask: Reask | None = None) -> tuple[Repair | None, Decision | None]:
        """Return the repair of an invalid call, or the denial that ends it."""
        offers = {} if self.tool == FORM else self.run.offers
        repair, trouble = repair_loop.find_usable_call(self.tool, args, offers, self.id, reask)
        if trouble is None:
            return repair, None
        denial = repair_loop.make_refusal(trouble, offers, self.id)
        self.invalid(args, denial.text, trouble.code)
        return None, denial

    def _submit(self, args: Any, repair: Repair | None) -> CallRequest | Decision:
        """Return the question to submit, or the denial of a call that cannot be submitted."""
        if self._is_submitted:
            return make_denial(
                "A decision was already requested for this call. Start a new call.", self.id, "call_id_reused"
            )
        self._is_submitted = True
        tool, args = (self.tool, args) if repair is None else (repair.tool, repair.input)
        try:
            return CallRequest.about(self.run.name, self.id, tool, args, offered_names=self.run.offers)
        except (TypeError, ValueError, RecursionError) as error:
            denial = make_denial(f"The arguments cannot be evaluated: {error}", self.id, "invalid_args")
            self.invalid(args, denial.text)
            return denial

    def _format_input_frame(self, args: Any, repair: Repair | None = None) -> dict[str, Any]:
        if repair is None:
            return {"type": "tool.input.available", "call_id": self.id, "tool": self.tool, "input": args}
        self.tool = repair.tool
        return {
            "type": "tool.input.repaired", "call_id": self.id, "tool": repair.tool, "input": repair.input,
            "original": args, "method": repair.method,
        }  # fmt: skip

    def _send(self, kind: str, **more: Any) -> None:
        self.run.send({"type": kind, "call_id": self.id, **more})


def _apply_repair(decision: Decision, repair: Repair | None) -> Decision:
    """Return the decision with the repaired arguments, which are the evaluated ones."""
    if repair is None or not decision.allowed or decision.edited:
        return decision
    return replace(decision, args=repair.input, edited=True)


def _require_allowed(decision: Decision, args: Any) -> Any:
    if not decision.allowed:
        raise Denied(decision)
    return decision.args if decision.edited else args
