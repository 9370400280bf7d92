"""Tasks of MCP: calls that the server answers at once and ends later (2025-11-25, and the extension of 2026).

A call is running until the client learns of its end: by `tasks/result`, `tasks/get`, `tasks/cancel` or a notification.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from toolcards.mcp.messages import (
    TASK_CANCEL,
    TASK_GET,
    TASK_RESULT,
    TASK_STATUS,
    Message,
    find_key,
    format_id,
    get_object,
    get_text,
)

HeldCall = TypeVar("HeldCall")
MAX_TASKS = 1_000  # the oldest ones are forgotten
_REQUESTS = frozenset({TASK_CANCEL, TASK_GET, TASK_RESULT})


class Tasks(Generic[HeldCall]):
    """The running tasks of a session. `finish` reports the result of a call, `report` another end."""

    def __init__(self, finish: Callable[[HeldCall, Message], None], report: Callable[..., None]) -> None:
        self._finish, self._report = finish, report
        self._lock = threading.Lock()
        self._calls: dict[str, HeldCall] = {}  # by the id of the task
        self._requests: dict[str, tuple[str, str]] = {}  # method and task of open requests, by their key

    def begin(self, call: HeldCall, result: Message) -> bool:
        """Keep a call that continues as a task; return whether it does."""
        task = get_object(result, "task") or (result if result.get("resultType") == "task" else {})
        task_id = get_text(task, "taskId")
        if not task_id:
            return False
        with self._lock:
            lost_calls = [self._calls.pop(task_id)] if task_id in self._calls else []
            self._calls[task_id] = call
            while len(self._calls) > MAX_TASKS:
                lost_calls.append(self._calls.pop(next(iter(self._calls))))
        for lost_call in lost_calls:
            self._report(lost_call, outcome="unknown")
        self._note_status(task_id, task)  # it may have ended already
        return True

    def note_request(self, request: Message) -> None:
        """Note a request of the client about a task."""
        method = request.get("method")
        task_id = get_text(get_object(request, "params"), "taskId")
        if method in _REQUESTS and task_id:
            with self._lock:
                self._requests[format_id(request["id"])] = (str(method), task_id)
                while len(self._requests) > MAX_TASKS:
                    del self._requests[next(iter(self._requests))]

    def note_response(self, message: Message) -> None:
        """Read the end of a task from a response about it."""
        with self._lock:
            method, task_id = self._requests.pop(find_key(self._requests, message["id"]), ("", ""))
        result = get_object(message, "result")
        if method == TASK_RESULT and ("error" in message or not self._is_running(result)):
            self._end(task_id, lambda call: self._finish(call, message))
        elif method:
            self._note_status(task_id, result)

    def note_notification(self, message: Message) -> None:
        """Read the end of a task from a notification of the server."""
        if message.get("method") == TASK_STATUS:
            params = get_object(message, "params")
            self._note_status(get_text(params, "taskId"), params)

    def list_calls(self) -> list[HeldCall]:
        """Return the calls that continue as tasks."""
        with self._lock:
            return list(self._calls.values())

    def end(self) -> None:
        """Report the tasks whose end no one learned."""
        with self._lock:
            calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            self._report(call, outcome="unknown")

    def _note_status(self, task_id: str, task: Message) -> None:
        """End the call of a task that has ended; the result of a completed one may follow in `tasks/result`."""
        status, words = get_text(task, "status"), get_text(task, "statusMessage")
        if status == "completed" and isinstance(task.get("result"), dict):
            self._end(task_id, lambda call: self._finish(call, {"result": task["result"]}))
        elif status == "failed" and isinstance(task.get("error"), dict):
            self._end(task_id, lambda call: self._finish(call, {"error": task["error"]}))
        elif status == "failed":
            error = {"message": words[:8_000], "code": "tool_reported"}
            self._end(task_id, lambda call: self._report(call, error=error))
        elif status == "cancelled":
            self._end(task_id, lambda call: self._report(call, outcome="aborted"))

    @staticmethod
    def _is_running(result: Message) -> bool:
        return get_text(result, "status") in {"working", "input_required", "submitted"} and "content" not in result

    def _end(self, task_id: str, report: Callable[[Any], None]) -> None:
        with self._lock:
            call = self._calls.pop(task_id, None)
        if call is not None:
            report(call)
