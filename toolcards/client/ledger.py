"""The calls of a run under the ids their framework gives them: told once each, whoever tells first.

What every framework module writes into. Nothing here raises into the agent, and only `ask` ever waits.
"""

from __future__ import annotations

import json
from typing import Any

from .answers import Decision, denial
from .calls import Call
from .faults import aborted
from .jsonable import jsonable
from .live import Run

__all__ = ["Ledger", "closed", "ledger_of", "refusal"]

ANY = ""  # arguments that were not compared yet
UNRUN = "Not run: "  # how our denials begin where a framework has no other way to tell the model


class Ledger:
    """One run's calls. A framework's id that comes again after its call ended is a new call."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._entries: dict[str, _Entry] = {}
        self._seen: dict[str, int] = {}

    # ------------------------------------------------------------ the input

    def started(self, call_id: str, tool: str) -> None:
        """The model begins to write the call."""
        self._entry(call_id, tool)

    def delta(self, call_id: str, text: str) -> None:
        """A piece of the input."""
        entry = self._entries.get(call_id)
        if entry is not None and text and not entry.whole:
            entry.call.delta(text)

    def written(self, call_id: str, tool: str, args: Any) -> None:
        """The input is whole. Where the run is gated this says nothing yet: asking does."""
        entry = self._entry(call_id, tool)
        if not self.run.gate and not entry.whole:
            entry.whole = True
            entry.call.available(args)

    def invalid(self, call_id: str, tool: str, given: Any, message: str, code: str = "invalid_input") -> None:
        """The input or the tool's name cannot be used; nothing runs."""
        if self.over(call_id):
            return
        entry = self._entry(call_id, tool)
        entry.whole = entry.over = True
        entry.call.invalid(given, message, code)

    # ------------------------------------------------------------ the decision

    async def ask(self, call_id: str, tool: str, args: Any, *, seconds: float | None = None) -> Decision:
        """May the call run with these arguments? A final answer; in a run that is only shown it is always yes."""
        entry = self._entry(call_id, tool)
        known = self._known(entry, args)
        if known is None:
            known = entry.settle(await entry.call.decision(jsonable(args), seconds=seconds))
        return known

    def ask_now(self, call_id: str, tool: str, args: Any, *, seconds: float | None = None) -> Decision:
        """The same for code without an event loop."""
        entry = self._entry(call_id, tool)
        known = self._known(entry, args)
        if known is None:
            known = entry.settle(entry.call.decision_now(jsonable(args), seconds=seconds))
        return known

    def _known(self, entry: _Entry, args: Any) -> Decision | None:
        """The answer where nobody has to be asked, or has been already."""
        if not self.run.gate:
            self.written(entry.name, entry.call.tool, args)
            return Decision("allow", call_id=entry.call.id)
        same = _text(args)
        if entry.decision is not None and entry.asked in {same, ANY}:
            entry.asked = same
            return entry.decision
        entry.asked, entry.whole = same, True
        return None

    def decided(self, call_id: str) -> Decision | None:
        """Return what was decided on the call, if it was asked about."""
        entry = self._entries.get(call_id)
        return None if entry is None else entry.decision

    def settled(self, call_id: str) -> None:
        """The framework itself runs the call with what was allowed, mended to the tool's types: ask no second time."""
        entry = self._entries.get(call_id)
        if entry is not None:
            entry.asked = ANY

    # ------------------------------------------------------------ what came of it

    def output(self, call_id: str, output: Any) -> None:
        """The result."""
        entry = self._open(call_id)
        if entry is not None:
            entry.call.output(output)

    def failed(self, call_id: str, error: BaseException) -> None:
        """The tool raised. What was stopped is no failure: the end of the run says so."""
        if aborted(error):
            return
        entry = self._open(call_id)
        if entry is not None:
            entry.call.failed(error)

    def broke(self, call_id: str, message: str = "", **more: Any) -> None:
        """The tool reports an error in words."""
        entry = self._open(call_id)
        if entry is not None:
            entry.call.error(message, **more)

    def denied(self, call_id: str, reason: str = "") -> None:
        """Somebody else than our gate said no."""
        entry = self._open(call_id)
        if entry is not None and (entry.decision is None or entry.decision.allowed):
            entry.call.denied(reason)

    def open(self, call_id: str) -> bool:
        """Whether the call has begun and its end was not told."""
        return call_id in self._entries and not self.over(call_id)

    def over(self, call_id: str) -> bool:
        """Whether the call's end was told."""
        entry = self._entries.get(call_id)
        return entry is not None and entry.over

    def _open(self, call_id: str) -> _Entry | None:
        entry = self._entries.get(call_id)
        if entry is None or entry.over:
            return None
        entry.over = True
        return entry

    def _entry(self, call_id: str, tool: str) -> _Entry:
        entry = self._entries.get(call_id)
        if entry is None or entry.over:
            count = self._seen[call_id] = self._seen.get(call_id, 0) + 1
            name = call_id if count == 1 else f"{call_id}#{count}"
            entry = self._entries[call_id] = _Entry(call_id, self.run.call(tool or "unknown", name))
        return entry


class _Entry:
    """A call and how far it has come."""

    def __init__(self, name: str, call: Call) -> None:
        self.name, self.call = name, call
        self.whole = self.over = False
        self.asked = ""
        self.decision: Decision | None = None

    def settle(self, decision: Decision) -> Decision:
        """Keep the answer; a no ends the call."""
        self.decision, self.over = decision, not decision.allowed
        return decision


def ledger_of(run: Run | None) -> Ledger | None:
    """Return the run's ledger, one for all who tell about it."""
    if run is None:
        return None
    found = getattr(run, "ledger", None)
    if not isinstance(found, Ledger):
        found = Ledger(run)
        run.ledger = found
    return found


def refusal(decision: Decision) -> str:
    """Return a denial in words for the model."""
    return UNRUN + (decision.text or "this call was denied.")


def closed(call_id: str = "") -> Decision:
    """Return the no where there is no run to ask in."""
    return denial("No Toolcards run is open here, so nobody can be asked and the call may not run.", call_id)


def _text(args: Any) -> str:
    return json.dumps(jsonable(args), sort_keys=True)
