"""The calls of a run as a framework knows them, kept apart even where it uses one id for several.

What every framework module writes into. Models, providers and sub-agents use call ids again: in a later turn, in
parallel, and nested. A call is therefore known by its id, its tool and its input, and each has an id of its own on the
wire (`call_0`, `call_0#2`). What runs, or was asked about, is never taken for another call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .answers import Decision, make_denial
from .stream import Run
from .tracked_call import TrackedCall

__all__ = ["DENIAL_PREFIX", "CallRegistry", "deny_without_run", "find_registry", "format_denial", "require_registry"]

KEPT = 16  # ended calls of one id, for streams that lag behind
DENIAL_PREFIX = "Not run: "  # how our denials begin where a framework has no other way to tell the model


class CallRegistry:
    """One run's open calls, by the framework's ids."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._calls: dict[str, list[TrackedCall]] = {}

    # ------------------------------------------------------------ what the model writes

    def begin(self, name: str, tool: str) -> TrackedCall:
        """Return a new call: the model begins to write it."""
        with self._lock:
            return self._new(name, tool)

    def started(self, name: str, tool: str) -> TrackedCall:
        """Return the call that the model writes, or has just written, under this id; a new one where there is none."""
        with self._lock:
            return self._first(name, tool, TrackedCall.untouched) or self._new(name, tool)

    def announced(self, name: str, tool: str) -> TrackedCall:
        """Return the call that a stream tells of, which may lag behind: the call may run, or have ended, by then."""
        with self._lock:
            call = self._first(name, tool, lambda each: not each.announced) or self._new(name, tool)
            call.announced = True
            return call

    def written(self, name: str, tool: str, args: Any) -> TrackedCall:
        """Return the call whose input is whole now: the one being written, one that was written so, or a new one."""
        with self._lock:
            call = self._first(name, tool, TrackedCall.starts)
            call = call or self._first(name, tool, lambda each: each.fits(args)) or self._new(name, tool)
            call.identify(args)
        call.written(args)
        return call

    def invalid(self, name: str, tool: str, given: Any, message: str, code: str = "invalid_input") -> None:
        """Tell of a call whose input, or whose tool's name, cannot be used; nothing runs."""
        self.started(name, tool).invalid(given, message, code)

    # ------------------------------------------------------------ what runs

    def enter(self, name: str, tool: str, args: Any) -> TrackedCall:
        """Return the call that is to run with these arguments, reserved for who asks; a new one unless one fits."""
        with self._lock:
            call = self._first(name, tool, lambda each: each.fits(args)) or self._new(name, tool)
            call.reserve(args)
            return call

    def find(self, name: str, tool: str = "") -> TrackedCall | None:
        """Return the oldest open call under this id, of this tool where one is named."""
        with self._lock:
            return self._first(name, tool, lambda each: not each.over)

    def untouched(self, name: str, tool: str = "") -> TrackedCall | None:
        """Return the oldest open call under this id that nobody has asked about or begun to run."""
        with self._lock:
            return self._first(name, tool, TrackedCall.untouched)

    def busy(self) -> bool:
        """Return whether a call runs, or is being asked about."""
        with self._lock:
            return any(call.busy for calls in self._calls.values() for call in calls)

    def close(self) -> None:
        """The run is over: what was begun and did not end was interrupted."""
        with self._lock:
            calls = [call for calls in self._calls.values() for call in calls]
        for call in calls:
            call.close()

    def _first(self, name: str, tool: str, wanted: Callable[[TrackedCall], bool]) -> TrackedCall | None:
        calls = self._calls.get(name, ())
        return next((call for call in calls if tool in {"", call.tool} and wanted(call)), None)

    def _new(self, name: str, tool: str) -> TrackedCall:
        call = TrackedCall(name, tool, self.run.call(tool or "unknown", name))
        known = self._calls.get(name, [])
        ended = [each for each in known if each.over][-KEPT:]
        self._calls[name] = [*ended, *(each for each in known if not each.over), call]
        return call


def find_registry(run: Run | None) -> CallRegistry | None:
    """Return the run's registry, one for all who tell about it."""
    if run is None:
        return None
    if not isinstance(run.registry, CallRegistry):
        run.registry = CallRegistry(run)
    return run.registry


def require_registry(run: Run) -> CallRegistry:
    """Return the registry of a run that is there."""
    registry = find_registry(run)
    assert registry is not None
    return registry


def format_denial(decision: Decision) -> str:
    """Return a denial in words for the model."""
    return DENIAL_PREFIX + (decision.text or "this call was denied.")


def deny_without_run(call_id: str = "") -> Decision:
    """Return the deny where there is no run to ask in."""
    return make_denial("No Toolcards run is open here, so nobody can be asked and the call may not run.", call_id)
