"""Plug-ins in the agent's own process: hear of each gated call, and stop one before anybody is asked.

    from toolcards.client import hooks

    class Tickets:
        def before(self, call): ...      # may raise hooks.Veto("…"), or return {"input": …} in place of the input
        def after(self, call): ...       # after a success
        def error(self, call): ...       # after a failure: call["error"], ["retryable"], ["authority"]
        def settled(self, call): ...     # closes every before: call["outcome"]

    hooks.register(Tickets())

They hear of the calls of `@gated` and of the modules for frameworks. The words and the order are the server's
(docs/hooks.md). `before` has 2 seconds and a copy of the arguments; the others
are called one after the other in a thread of their own, and whatever they do changes nothing.
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

from .answers import Denied, make_denial
from .common import error_codes, exception_codes

__all__ = ["Attempt", "TimedOut", "Veto", "anybody", "clear", "drain", "register"]

LIMIT = 2.0  # seconds for one plug-in and one event
_UNUSABLE = ("resolve", "validate")
log = logging.getLogger(__name__)
_plugins: list[Any] = []
_seq = itertools.count(1)
_queue: queue.Queue[tuple[Any, dict[str, Any]]] = queue.Queue()
_worker: threading.Thread | None = None
_lock = threading.Lock()


class Veto(Exception):
    """A plug-in's no; anything else that it raises is a crash."""

    toolcards_code = "plugin_veto"


class TimedOut(Exception):
    """A plug-in took longer than its limit."""

    toolcards_code = "plugin_timeout"


def register(plugin: Any) -> Callable[[], None]:
    """Plug the object in; return what unplugs it."""
    _plugins.append(plugin)

    def unplug() -> None:
        if plugin in _plugins:
            _plugins.remove(plugin)

    return unplug


def clear() -> None:
    """Unplug everything."""
    _plugins.clear()


def anybody() -> bool:
    """Return whether anybody is plugged in."""
    return bool(_plugins)


def drain() -> None:
    """Wait until every plug-in has heard everything (tests, and before a program ends)."""
    _queue.join()


class Attempt:
    """One attempt of one call, from its `before` to its one `settled`."""

    def __init__(self, run: str, call_id: str, tool: str, attempt: int = 1) -> None:
        self._said = {"v": 1, "run_id": run, "call_id": call_id, "attempt": attempt, "tool": {"name": tool}}
        self.tool, self._began = tool, time.monotonic()
        self._open = bool(_plugins)

    def before(self, args: Any) -> Any:
        """Ask the plug-ins; return the arguments, theirs if they replaced them. Raises Denied."""
        for plugin in tuple(_plugins):
            try:
                said, error = _limited(plugin, self._payload("before", phase="before", input=args))
            except BaseException:  # whoever waited for it was stopped
                self.settled("aborted")
                raise
            if error is None:
                try:
                    args = _replaced(said, args)
                except Exception as bad:
                    error = bad
            if error is not None:
                fault = exception_codes.of_hook(error)
                reason = exception_codes.message_of(error) if fault.code == "plugin_veto" else fault.title
                self._tell("error", **_told(fault, reason, self.tool))
                self.settled("denied" if fault.code == "plugin_veto" else "error")
                raise Denied(make_denial(reason or fault.title, str(self._said["call_id"]), fault.code)) from error
        return args

    def denied(self, code: str, reason: str) -> None:
        """The gate said no; a call that cannot be used is an error."""
        fault = error_codes.fault(code if code in error_codes.TABLE else "policy_denied")
        self._tell("error", **_told(fault, reason, self.tool))
        self.settled("error" if fault.phase in _UNUSABLE else "denied")

    def broke(self, code: str, message: str) -> None:
        """The tool, or whoever runs it, reports an error in words."""
        fault = error_codes.fault(code if code in error_codes.TABLE else "tool_reported")
        self._tell("error", **_told(fault, message, self.tool))
        self.settled("error")

    def ok(self, output: Any) -> None:
        """It succeeded."""
        self._tell("after", output=output)
        self.settled("ok")

    def failed(self, error: BaseException, idempotent: bool | None = None) -> None:
        """It raised; a mere interruption is no error."""
        fault = exception_codes.of_exception(error, idempotent=idempotent)
        if fault is None:
            return self.settled("aborted")
        self._tell("error", **_told(fault, exception_codes.message_of(error), self.tool))
        return self.settled("error")

    @property
    def open(self) -> bool:
        """Whether its end was not told."""
        return self._open

    def settled(self, outcome: str) -> None:
        """Close it, once."""
        self._tell("settled", outcome=outcome)
        self._open = False

    def _tell(self, event: str, **more: Any) -> None:
        if not self._open:
            return
        said = self._payload(event, **more)
        for plugin in tuple(_plugins):
            if callable(getattr(plugin, event, None)):
                _observe(plugin, said)

    def _payload(self, event: str, **more: Any) -> dict[str, Any]:
        took = round((time.monotonic() - self._began) * 1000)
        ident = {"event": f"tool.execute.{event}", "id": f"evt_{uuid.uuid4().hex}", "seq": next(_seq)}
        return self._said | ident | {"duration_ms": took} | more


def _told(fault: error_codes.Fault, message: str, tool: str) -> dict[str, Any]:
    return {
        "error": {
            "code": fault.code, "type": fault.type, "message": message[:2000], "title": fault.title,
            "http_status": fault.http_status, "fingerprint": error_codes.fingerprint(tool, fault.code, fault.phase),
        },
        "retryable": fault.retryable, "authority": fault.authority, "phase": fault.phase,
        "retry": {"safe": fault.safe, "after_ms": fault.after_ms}, "side_effects": fault.effects,
    }  # fmt: skip


def _replaced(said: Any, args: Any) -> Any:
    if said is None:
        return args
    if not isinstance(said, dict) or set(said) != {"input"}:
        raise TypeError("before returns nothing, or {'input': …}")
    return json.loads(json.dumps(said["input"], allow_nan=False))


def _limited(plugin: Any, said: dict[str, Any]) -> tuple[Any, BaseException | None]:
    """Return what the plug-in returns within its limit, and what it raised, or TimedOut."""
    method = getattr(plugin, str(said["event"]).rpartition(".")[2], None)
    if not callable(method):
        return None, None
    box: dict[str, Any] = {}

    def run() -> None:
        try:
            box["said"] = method(copy.deepcopy(said))
        except BaseException as error:
            box["error"] = error

    thread = threading.Thread(target=run, name="toolcards hook", daemon=True)
    thread.start()
    thread.join(LIMIT)
    if thread.is_alive():
        return None, TimedOut()
    return box.get("said"), box.get("error")


def _observe(plugin: Any, said: dict[str, Any]) -> None:
    global _worker
    _queue.put((plugin, said))
    with _lock:
        if _worker is None or not _worker.is_alive():
            _worker = threading.Thread(target=_work, name="toolcards hooks", daemon=True)
            _worker.start()


def _work() -> None:
    while True:
        plugin, said = _queue.get()
        try:
            _, error = _limited(plugin, said)
            if error is not None:
                log.warning("a plug-in failed at %s: %s", said["event"], type(error).__name__)
        except Exception:  # no thread to be had
            log.exception("a plug-in was not told of %s", said["event"])
        finally:
            _queue.task_done()


def _in_child() -> None:
    """Begin with an empty queue: the parent's thread is not here, and it may have held the locks when it forked."""
    global _queue, _worker, _lock
    _queue, _worker, _lock = queue.Queue(), None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
