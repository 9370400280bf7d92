"""The calls of a run under the ids their framework gives them: told once each, whoever tells first.

What every framework module writes into. Nothing here raises into the agent, and only `ask` ever waits.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from .answers import Decision, Denied, denial
from .asking import aside
from .calls import Call
from .common import errors
from .common.repair import Mended
from .faults import aborted, stopped
from .hooks import Attempt, anybody
from .jsonable import jsonable
from .live import Run
from .outputs import BadOutput

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
            entry.streamed = True
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
        entry.hears(self.run.name).denied(code, message)

    # ------------------------------------------------------------ the decision

    async def ask(
        self, call_id: str, tool: str, args: Any, *, seconds: float | None = None, mended: Mended | None = None
    ) -> Decision:
        """May the call run with these arguments? A final answer; in a run that is only shown only plug-ins may say no.

        `mended`: what was put in place of a call that could not be used as it was written.
        """
        entry = self._entry(call_id, tool)
        known = self._known(entry, args)
        if known is not None:
            return known
        try:
            given = await aside(self._before, entry, args, mended) if anybody() else _given(args, mended)
            decision = self._shown(entry, given)
            if decision is None:
                asked, instead = _asked(args, given, mended)
                decision = await entry.call.decision(asked, seconds=seconds, mended=instead)
        except Denied as denied:
            return self._stopped(entry, args, denied.decision)
        except BaseException:  # whoever waited does so no more
            entry.settled("aborted")
            raise
        return entry.settle(decision, given, args)

    def ask_now(
        self, call_id: str, tool: str, args: Any, *, seconds: float | None = None, mended: Mended | None = None
    ) -> Decision:
        """The same for code without an event loop."""
        entry = self._entry(call_id, tool)
        known = self._known(entry, args)
        if known is not None:
            return known
        try:
            given = self._before(entry, args, mended)
            decision = self._shown(entry, given)
            if decision is None:
                asked, instead = _asked(args, given, mended)
                decision = entry.call.decision_now(asked, seconds=seconds, mended=instead)
        except Denied as denied:
            return self._stopped(entry, args, denied.decision)
        except BaseException:
            entry.settled("aborted")
            raise
        return entry.settle(decision, given, args)

    def _known(self, entry: _Entry, args: Any) -> Decision | None:
        """The answer where nobody has to be asked any more."""
        same = _text(args)
        if entry.decision is not None and entry.asked in {same, ANY}:
            entry.asked = same
            return entry.decision
        entry.asked, entry.whole = same, entry.whole or self.run.gate
        return None

    def _before(self, entry: _Entry, args: Any, mended: Mended | None) -> Any:
        """What plug-ins make of the arguments; raises Denied."""
        given = _given(args, mended)
        return entry.hears(self.run.name).before(given)

    def _shown(self, entry: _Entry, given: Any) -> Decision | None:
        """The yes of a run where nobody decides."""
        if self.run.gate:
            return None
        self.written(entry.name, entry.call.tool, given)
        return Decision("allow", call_id=entry.call.id)

    def _stopped(self, entry: _Entry, args: Any, decision: Decision) -> Decision:
        """A plug-in said no, or broke: nobody is asked, but it is shown, with the input in question."""
        if not entry.streamed:
            entry.call.delta(_text(args))
        if decision.code == "plugin_veto":
            entry.call.denied(decision.text)
        else:
            fault = errors.fault(decision.code if decision.code in errors.TABLE else "plugin_crash")
            entry.call.error(decision.text, code=fault.code, authority=fault.authority, retryable=fault.retryable)
        entry.decision, entry.over = decision, True
        return decision

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
            why = entry.call.output(output)
            if entry.heard is not None and why:
                entry.heard.broke(BadOutput.toolcards_code, why)
            elif entry.heard is not None:
                entry.heard.ok(output)

    def failed(self, call_id: str, error: BaseException) -> None:
        """The tool raised. What was stopped is no failure: the end of the run says so."""
        if stopped(error):
            self.run.interrupted = True
        if aborted(error):
            return
        entry = self._open(call_id)
        if entry is not None:
            entry.call.failed(error)
            if entry.heard is not None:
                entry.heard.failed(error)

    def broke(self, call_id: str, message: str = "", **more: Any) -> None:
        """The tool reports an error in words."""
        entry = self._open(call_id)
        if entry is not None:
            entry.call.error(message, **more)
            if entry.heard is not None:
                entry.heard.broke(str(more.get("code", "")), message)

    def denied(self, call_id: str, reason: str = "") -> None:
        """Somebody else than our gate said no."""
        entry = self._open(call_id)
        if entry is not None and (entry.decision is None or entry.decision.allowed):
            entry.call.denied(reason)
            if entry.heard is not None:
                entry.heard.denied("approval_denied", reason)

    def open(self, call_id: str) -> bool:
        """Whether the call has begun and its end was not told."""
        return call_id in self._entries and not self.over(call_id)

    def over(self, call_id: str) -> bool:
        """Whether the call's end was told."""
        entry = self._entries.get(call_id)
        return entry is not None and entry.over

    def close(self) -> None:
        """The run is over: what was begun and did not end was interrupted."""
        for entry in self._entries.values():
            entry.settled("aborted")

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
        self.whole = self.over = self.streamed = False
        self.asked = ""
        self.decision: Decision | None = None
        self.heard: Attempt | None = None
        self.attempts = 0

    def hears(self, run: str) -> Attempt:
        """Begin an attempt that plug-ins hear of; a call that is asked about with other arguments is another one."""
        self.settled("aborted")
        self.attempts += 1
        self.heard = Attempt(run, self.call.id, self.call.tool, self.attempts)
        return self.heard

    def settled(self, outcome: str) -> None:
        """Close the attempt, if it is open."""
        if self.heard is not None:
            self.heard.settled(outcome)

    def settle(self, decision: Decision, given: Any, args: Any) -> Decision:
        """Keep the answer; a no ends the call. What plug-ins changed, or a repair, is what is to run."""
        if decision.allowed and not decision.edited and _text(given) != _text(args):
            decision = replace(decision, args=given, edited=True)
        self.decision, self.over = decision, not decision.allowed
        if self.over and self.heard is not None:
            self.heard.denied(decision.code, decision.text)
        return decision


def _given(args: Any, mended: Mended | None) -> Any:
    return jsonable(args if mended is None else mended.input)


def _asked(args: Any, given: Any, mended: Mended | None) -> tuple[Any, Mended | None]:
    """What is asked about, and what was put in its place."""
    return (given, None) if mended is None else (jsonable(args), replace(mended, input=given))


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
