"""Formats an exception of a tool as the `error` object of a frame; the table is in `common.error_codes`.

If `retryable` depends on the tool, the server fills it in.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from ..common import error_codes, exception_codes

__all__ = ["classify_run_end", "format_error", "is_cancellation", "is_interruption", "mark_as_reported"]

MESSAGE = 4000
OUT_OF_TIME = "A time limit around the agent ran out."
_MARK = "toolcards_told"


def is_interruption(error: BaseException) -> bool:
    """Return whether the error is an interruption, not a failure.

    Signals of frameworks count as interruptions.
    """
    return exception_codes.classify_exception(error) is None


def is_cancellation(error: BaseException) -> bool:
    """Return whether the work was canceled from outside.

    A framework's own signals are not.
    """
    return isinstance(error, (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit))


def mark_as_reported(error: BaseException) -> None:
    """Mark the exception as reported as a failure of a tool."""
    with contextlib.suppress(Exception):  # a foreign class
        setattr(error, _MARK, True)


def classify_run_end(error: BaseException | None, was_interrupted: bool) -> tuple[str, str]:
    """Return the outcome and reason of a run that raised this error.

    `was_interrupted`: something in it was canceled from outside. A timeout that no tool reported is then that
    cancellation: `asyncio.wait_for` converts it.
    """
    if error is None:
        return "success", ""
    if is_interruption(error):
        return "aborted", str(error)[:2000]
    if was_interrupted and isinstance(error, TimeoutError) and not getattr(error, _MARK, False):
        return "aborted", str(error)[:2000] or OUT_OF_TIME
    return "error", str(error)[:2000]


def format_error(error: BaseException) -> dict[str, Any]:
    """Return the `error` object of a native frame: message, code, authority.

    Also `retryable` and `after_ms`, if known.
    """
    code = exception_codes.classify_exception(error)
    details: dict[str, Any] = {"message": _format_message(error), "code": code.code if code else "internal"}
    if code is None:
        return details
    details["authority"] = code.authority
    if error_codes.TABLE[code.code].retry in {"yes", "no"}:
        details["retryable"] = code.retryable
    if code.after_ms is not None:
        details["after_ms"] = code.after_ms
    return details


def _format_message(error: BaseException) -> str:
    """Return the exception's message; for a KeyError, which has only a key, with its name."""
    text = exception_codes.get_message(error, MESSAGE)
    return f"{type(error).__name__}: {text}"[:MESSAGE] if isinstance(error, KeyError) else text
