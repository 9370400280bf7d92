"""The calls of a run by the framework's ids, distinct even if the framework reuses an id.

All framework modules use it. Models, providers and sub-agents reuse call ids: in a later turn, in parallel, and nested.
A call is therefore identified by its id, tool and input, and each has its own id on the wire (`call_0`, `call_0#2`). A
call that runs or was submitted is never taken for another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..decisions.answers import Decision, make_denial
from ..stream import Run
from .tracked_call import TrackedCall

__all__ = ["DENIAL_PREFIX", "CallRegistry", "deny_without_run", "find_registry", "format_denial", "require_registry"]

MAX_ENDED = 16  # ended calls kept per id, for streams that lag behind
DENIAL_PREFIX = "Not run: "  # marks our denials in frameworks that have only text for the model


class CallRegistry:
    """One run's open calls, by the framework's ids."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._calls: dict[str, list[TrackedCall]] = {}

    # ------------------------------------------------------------ calls being written

    def begin(self, name: str, tool: str) -> TrackedCall:
        """Return a new call that the model begins to write."""
        with self._lock:
            return self._add(name, tool)

    def find_or_begin(self, name: str, tool: str) -> TrackedCall:
        """Return the call being written under this id, or begin one."""
        with self._lock:
            return self._find_first(name, tool, TrackedCall.is_untouched) or self._add(name, tool)

    def match_announced(self, name: str, tool: str) -> TrackedCall:
        """Return the call that a stream reports.

        The stream may lag behind a call that runs or has ended.
        """
        with self._lock:
            call = self._find_first(name, tool, lambda each: not each.announced) or self._add(name, tool)
            call.announced = True
            return call

    def complete(self, name: str, tool: str, args: Any) -> TrackedCall:
        """Record a complete input.

        Return its call: one being written, one with this input, or a new one.
        """
        with self._lock:
            call = self._find_first(name, tool, TrackedCall.is_being_written)
            call = call or self._find_first(name, tool, lambda each: each.matches(args)) or self._add(name, tool)
            call.identify(args)
        call.complete(args)
        return call

    def invalid(self, name: str, tool: str, value: Any, message: str, code: str = "invalid_input") -> None:
        """Report a call whose input or tool name is invalid; nothing runs."""
        self.find_or_begin(name, tool).invalid(value, message, code)

    # ------------------------------------------------------------ calls being run

    def enter(self, name: str, tool: str, args: Any) -> TrackedCall:
        """Return the call to run with these arguments, reserved for the caller.

        A new one unless one matches.
        """
        with self._lock:
            call = self._find_first(name, tool, lambda each: each.matches(args)) or self._add(name, tool)
            call.reserve(args)
            return call

    def find(self, name: str, tool: str = "") -> TrackedCall | None:
        """Return the oldest open call with this id and tool, if any.

        `tool`: "" for any tool.
        """
        with self._lock:
            return self._find_first(name, tool, lambda each: not each.over)

    def find_pending(self, name: str, tool: str = "") -> TrackedCall | None:
        """Return the oldest open call with this id that was not submitted."""
        with self._lock:
            return self._find_first(name, tool, TrackedCall.is_untouched)

    def is_busy(self) -> bool:
        """Return whether a call runs or waits for a decision."""
        with self._lock:
            return any(call.is_busy for calls in self._calls.values() for call in calls)

    def close(self) -> None:
        """Close the open calls as interrupted, when the run ends."""
        with self._lock:
            calls = [call for calls in self._calls.values() for call in calls]
        for call in calls:
            call.close()

    def _find_first(self, name: str, tool: str, matches: Callable[[TrackedCall], bool]) -> TrackedCall | None:
        calls = self._calls.get(name, ())
        return next((call for call in calls if tool in {"", call.tool} and matches(call)), None)

    def _add(self, name: str, tool: str) -> TrackedCall:
        call = TrackedCall(name, tool, self.run.call(tool or "unknown", name))
        calls = self._calls.get(name, [])
        over_calls = [each for each in calls if each.over][-MAX_ENDED:]
        self._calls[name] = [*over_calls, *(each for each in calls if not each.over), call]
        return call


def find_registry(run: Run | None) -> CallRegistry | None:
    """Return the run's registry, shared by everything that reports its calls."""
    if run is None:
        return None
    if not isinstance(run.registry, CallRegistry):
        run.registry = CallRegistry(run)
    return run.registry


def require_registry(run: Run) -> CallRegistry:
    """Return the registry of a run that is known to exist."""
    registry = find_registry(run)
    assert registry is not None
    return registry


def format_denial(decision: Decision) -> str:
    """Return a denial as text for the model."""
    return DENIAL_PREFIX + (decision.text or "this call was denied.")


def deny_without_run(call_id: str = "") -> Decision:
    """Return the deny of a call outside any run."""
    return make_denial("No Toolcards run is open here, so the call did not run.", call_id)
