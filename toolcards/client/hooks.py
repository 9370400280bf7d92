"""Plugins in the agent's own process: observe each gated call, and stop one before it is submitted.

    from toolcards.client import hooks

    class Tickets:
        def before(self, call): ...      # may raise hooks.Veto("…"), or return {"input": …} to replace the input
        def after(self, call): ...       # after a success
        def error(self, call): ...       # after a failure: call["error"], ["retryable"], ["authority"]
        def settled(self, call): ...    # closes every before: call["outcome"]

    hooks.register(Tickets())

They get the calls of `@gated` and of the framework modules. Payloads and order are the server's (docs/hooks.md).
`before` has 2 seconds and a copy of the arguments. The others run in sequence in a separate thread and
change nothing.
"""

from __future__ import annotations

import copy
import itertools
import json
import logging
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from .common import error_codes, exception_codes
from .decisions.answers import Denied, make_denial

__all__ = ["Attempt", "TimedOut", "Veto", "clear", "drain", "has_plugins", "register"]

LIMIT = 2.0  # seconds per plugin and event
_UNUSABLE = ("resolve", "validate")
log = logging.getLogger(__name__)
_plugins: list[Any] = []
_seq = itertools.count(1)
_queue: queue.Queue[tuple[Any, dict[str, Any]]] = queue.Queue()
_worker: threading.Thread | None = None
_lock = threading.Lock()


class Veto(Exception):
    """A plugin denies the call; any other exception counts as a crash."""

    toolcards_code = "plugin_veto"


class TimedOut(Exception):
    """A plugin exceeded its time limit."""

    toolcards_code = "plugin_timeout"


def register(plugin: Any) -> Callable[[], None]:
    """Register the plugin; return a function that removes it."""
    _plugins.append(plugin)

    def unplug() -> None:
        if plugin in _plugins:
            _plugins.remove(plugin)

    return unplug


def clear() -> None:
    """Remove every plugin."""
    _plugins.clear()


def has_plugins() -> bool:
    """Return whether a plugin is registered."""
    return bool(_plugins)


def drain() -> None:
    """Wait until every event was delivered.

    For tests, and before a program ends.
    """
    _queue.join()


class Attempt:
    """One attempt of one call, from its `before` to its one `settled`.

    Another thread may settle it while `before` runs: plugins then receive `settled` after `before`. They
    receive nothing about a call that was aborted earlier than its `before`.
    """

    def __init__(self, run: str, call_id: str, tool: str, attempt: int = 1) -> None:
        self._base_payload = {"v": 1, "run_id": run, "call_id": call_id, "attempt": attempt, "tool": {"name": tool}}
        self.tool, self._began = tool, time.monotonic()
        self._open = bool(_plugins)
        self._lock = threading.Lock()
        self._has_begun, self._is_in_before = False, False
        self._deferred_events: list[tuple[Any, dict[str, Any]]] = []

    def before(self, args: Any) -> Any:
        """Run the `before` hooks.

        Return the arguments, replaced if a hook did so. Raises Denied.
        """
        with self._lock:
            if not self._open:
                return args
            self._has_begun, self._is_in_before = True, True
        try:
            return self._run_before_hooks(args)
        finally:
            with self._lock:
                self._is_in_before = False
                for plugin, payload in self._deferred_events:
                    _enqueue(plugin, payload)
                self._deferred_events.clear()

    def _run_before_hooks(self, args: Any) -> Any:
        for plugin in tuple(_plugins):
            if not self._open:
                break
            try:
                answer, error = _call_with_limit(plugin, self._make_payload("before", phase="before", input=args))
            except BaseException:  # the caller was interrupted
                self.settle("aborted")
                raise
            if error is None:
                try:
                    args = _replace_input(answer, args)
                except Exception as bad:
                    error = bad
            if error is not None:
                fault = exception_codes.classify_hook_exception(error)
                reason = exception_codes.get_message(error) if fault.code == "plugin_veto" else fault.title
                self._emit("error", **_format_fault(fault, reason, self.tool))
                self.settle("denied" if fault.code == "plugin_veto" else "error")
                raise Denied(
                    make_denial(reason or fault.title, str(self._base_payload["call_id"]), fault.code)
                ) from error
        return args

    def deny(self, code: str, reason: str) -> None:
        """Report a denial by the gate.

        An invalid call counts as an error.
        """
        fault = error_codes.make_fault(code if code in error_codes.TABLE else "policy_denied")
        self._emit("error", **_format_fault(fault, reason, self.tool))
        self.settle("error" if fault.phase in _UNUSABLE else "denied")

    def report_error(self, code: str, message: str) -> None:
        """Report an error message of the tool or of its runtime."""
        fault = error_codes.make_fault(code if code in error_codes.TABLE else "tool_reported")
        self._emit("error", **_format_fault(fault, message, self.tool))
        self.settle("error")

    def succeed(self, output: Any) -> None:
        """Report a success."""
        self._emit("after", output=output)
        self.settle("ok")

    def fail(self, error: BaseException, idempotent: bool | None = None) -> None:
        """Report an exception; an interruption is not an error."""
        fault = exception_codes.classify_exception(error, idempotent=idempotent)
        if fault is None:
            return self.settle("aborted")
        self._emit("error", **_format_fault(fault, exception_codes.get_message(error), self.tool))
        return self.settle("error")

    @property
    def open(self) -> bool:
        """Whether `settled` is still to come."""
        return self._open

    def settle(self, outcome: str) -> None:
        """Emit `settled`, once."""
        with self._lock:
            if self._has_begun or outcome != "aborted":
                self._emit_locked("settled", outcome=outcome)
            self._open = False

    def _emit(self, event: str, **more: Any) -> None:
        with self._lock:
            self._emit_locked(event, **more)

    def _emit_locked(self, event: str, **more: Any) -> None:
        if not self._open:
            return
        payload = self._make_payload(event, **more)
        for plugin in tuple(_plugins):
            if not callable(getattr(plugin, event, None)):
                continue
            if self._is_in_before:
                self._deferred_events.append((plugin, payload))
            else:
                _enqueue(plugin, payload)

    def _make_payload(self, event: str, **more: Any) -> dict[str, Any]:
        took = round((time.monotonic() - self._began) * 1000)
        ident = {"event": f"tool.execute.{event}", "id": f"evt_{uuid.uuid4().hex}", "seq": next(_seq)}
        return self._base_payload | ident | {"duration_ms": took} | more


def _format_fault(fault: error_codes.ClassifiedError, message: str, tool: str) -> dict[str, Any]:
    return {
        "error": {
            "code": fault.code, "type": fault.type, "message": message[:2000], "title": fault.title,
            "http_status": fault.http_status,
            "fingerprint": error_codes.make_fingerprint(tool, fault.code, fault.phase),
        },
        "retryable": fault.retryable, "authority": fault.authority, "phase": fault.phase,
        "retry": {"safe": fault.safe, "after_ms": fault.after_ms}, "side_effects": fault.effects,
    }  # fmt: skip


def _replace_input(answer: Any, args: Any) -> Any:
    if answer is None:
        return args
    if not isinstance(answer, dict) or set(answer) != {"input"}:
        raise TypeError("before must return None or {'input': …}")
    return json.loads(json.dumps(answer["input"], allow_nan=False))


def _call_with_limit(plugin: Any, payload: dict[str, Any]) -> tuple[Any, BaseException | None]:
    """Return the plugin's result within its limit, and its exception or TimedOut."""
    method = getattr(plugin, str(payload["event"]).rpartition(".")[2], None)
    if not callable(method):
        return None, None
    box: dict[str, Any] = {}

    def run() -> None:
        try:
            box["result"] = method(copy.deepcopy(payload))
        except BaseException as error:
            box["error"] = error

    thread = threading.Thread(target=run, name="toolcards hook", daemon=True)
    thread.start()
    thread.join(LIMIT)
    if thread.is_alive():
        return None, TimedOut()
    return box.get("result"), box.get("error")


def _enqueue(plugin: Any, payload: dict[str, Any]) -> None:
    global _worker
    _queue.put((plugin, payload))
    with _lock:
        if _worker is None or not _worker.is_alive():
            _worker = threading.Thread(target=_deliver_events, name="toolcards hooks", daemon=True)
            _worker.start()


def _deliver_events() -> None:
    while True:
        plugin, payload = _queue.get()
        try:
            _, error = _call_with_limit(plugin, payload)
            if error is not None:
                log.warning("a plugin failed at %s: %s", payload["event"], type(error).__name__)
        except Exception:  # no thread could be started
            log.exception("a plugin did not receive %s", payload["event"])
        finally:
            _queue.task_done()


def _reset_after_fork() -> None:
    """Start with an empty queue: the parent's thread does not exist here, and its locks may be held."""
    global _queue, _worker, _lock
    _queue, _worker, _lock = queue.Queue(), None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
