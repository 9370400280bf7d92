"""Calls plugins, each in its own thread and for a limited time.

Every plugin has its own threads for guarding and for watching, so one that hangs does not block others.
"""

from __future__ import annotations

import copy
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolcards.client.common import error_codes, exception_codes
from toolcards.core.calls import tool_events
from toolcards.hooks import registry
from toolcards.hooks.registry import Plugin, Status, Veto

log = logging.getLogger(__name__)
# Threads of one plugin at the same time, including those that never return. This limits its concurrent calls.
MAX_GUARD_THREADS, MAX_WATCH_THREADS = 16, 8
_slots: dict[tuple[str, bool], threading.Semaphore] = {}
_lock = threading.Lock()


class TimedOut(Exception):
    """The plugin took longer than its limit."""

    toolcards_code = "plugin_timeout"


class BadVerdict(Exception):
    """The plugin returned something other than None or a new input."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The plugins' answer before a call: a fault with plugin and reason, a new input, or neither."""

    fault: error_codes.ClassifiedError | None = None
    reason: str = ""
    suggest: str = ""
    plugin: str = ""
    input: Any = None
    replaced: bool = False


def consult(payload: dict[str, Any]) -> Verdict:
    """Consult the guards one after the other; the first denial ends it."""
    absent = registry.list_absent_guards()
    if absent:
        return build_missing_verdict(absent[0])
    current_input, changed_by = payload.get("input"), ""
    for plugin in registry.list_plugins("before"):
        try:
            answer = _call(plugin, "before", {**payload, "input": current_input})
            replacement = _parse_verdict(answer)
        except BaseException as error:  # the table classifies it
            return _build_refusal(plugin, error)
        if replacement is not None:
            current_input, changed_by = replacement["input"], plugin.name
    return Verdict(plugin=changed_by, input=current_input, replaced=bool(changed_by))


def observe(plugin: Plugin, payload: dict[str, Any]) -> str:
    """Send one plugin an event.

    Returns the code of a failure, which has no effect on the call, or "".
    """
    try:
        _call(plugin, str(payload["event"]), payload)
    except BaseException as error:
        code = exception_codes.classify_hook_exception(error, after=payload["event"] == tool_events.EXECUTE_AFTER).code
        code = "plugin_crash" if code == "plugin_veto" else code  # a veto after the fact
        log.warning("hooks: %s failed at %s: %s (%s)", plugin.name, payload["event"], code, type(error).__name__)
        return code
    return ""


def build_missing_verdict(status: Status) -> Verdict:
    """Return the denial for a guard that cannot be asked."""
    log.error("hooks: a call is denied, since the guard %s is %s", status.name, status.state)
    fault = error_codes.make_fault("plugin_missing")
    return Verdict(fault, f"{fault.title}: {status.name}. {status.why} The call did not run.", "", status.name)


def build_timeout_verdict() -> Verdict:
    """Return the denial if the plugins could not be asked in time."""
    fault = error_codes.make_fault("plugin_timeout")
    return Verdict(fault, "The plugins are too busy, so the call did not run. Try again later.")


def build_crash_verdict(error: BaseException) -> Verdict:
    """Return the denial if asking the plugins failed."""
    fault = error_codes.make_fault("plugin_crash", type=type(error).__name__)
    return Verdict(fault, f"The plugins could not be consulted ({type(error).__name__}), so the call did not run.")


def _build_refusal(plugin: Plugin, error: BaseException) -> Verdict:
    fault = exception_codes.classify_hook_exception(error)
    if isinstance(error, Veto):
        return Verdict(fault, str(error.reason)[:2000], str(error.suggest)[:2000], plugin.name)
    log.warning("hooks: %s failed before a call: %s (%s)", plugin.name, fault.code, type(error).__name__)
    return Verdict(fault, f"{fault.title}: {plugin.name} ({type(error).__name__}).", "", plugin.name)


def _parse_verdict(answer: Any) -> dict[str, Any] | None:
    """Return the new input, None for none; mutations of the argument have no effect."""
    if answer is None:
        return None
    if isinstance(answer, Veto):
        raise answer
    if not isinstance(answer, dict) or set(answer) != {"input"}:
        raise BadVerdict
    try:
        return {"input": json.loads(json.dumps(answer["input"], allow_nan=False))}
    except (TypeError, ValueError, RecursionError) as error:
        raise BadVerdict from error


def _call(plugin: Plugin, event: str, payload: dict[str, Any]) -> Any:
    """Return the plugin's result within its limit; raises its exception or TimedOut."""
    method = plugin.hears(event)
    if method is None:
        return None
    guards = event == "before"
    slots = _get_slots(plugin.name, guards)
    if not slots.acquire(timeout=registry.LIMIT if guards else 0):
        raise TimedOut
    turn = _Turn(plugin.name, guards, slots)
    threading.Thread(
        target=turn.run, args=(method, copy.deepcopy(payload)), name=f"hook {plugin.name}", daemon=True
    ).start()
    if not turn.finished.wait(registry.LIMIT) and turn.give_up():
        raise TimedOut
    if turn.error is not None:
        raise turn.error
    return turn.answer


def _get_slots(name: str, guards: bool) -> threading.Semaphore:
    with _lock:
        return _slots.setdefault(
            (name, guards), threading.Semaphore(MAX_GUARD_THREADS if guards else MAX_WATCH_THREADS)
        )


class _Turn:
    """One call of a plugin, in its own thread."""

    def __init__(self, name: str, guards: bool, slots: threading.Semaphore) -> None:
        self.name, self.guards, self.slots = name, guards, slots
        self.finished = threading.Event()
        self.answer: Any = None
        self.error: BaseException | None = None
        self.late = False

    def run(self, method: Callable[..., Any], payload: Any) -> None:
        """Call the plugin's method and release the slot afterwards."""
        try:
            self.answer = method(payload)
        except BaseException as error:
            self.error = error
        finally:
            with _lock:
                self.finished.set()
                late = self.late
            self.slots.release()
            if late and self.guards:
                registry.count_hanging(self.name, -1)

    def give_up(self) -> bool:
        """Stop waiting; return whether the call is still running."""
        with _lock:
            self.late = not self.finished.is_set()
        if self.late and self.guards:
            registry.count_hanging(self.name, 1)
        return self.late
