"""What an exception says about a failed tool, as the wire wants it; the table and the reading of it are in `errors`.

Careful on purpose: where it depends on what the tool does, `retryable` is left to the server, which knows the tool.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from .common import error_codes, exception_codes

__all__ = ["classify_run_end", "format_error", "is_cancellation", "is_interruption", "mark_as_reported"]

MESSAGE = 4000
OUT_OF_TIME = "A time limit around the agent ran out."
_MARK = "toolcards_told"


def is_interruption(error: BaseException) -> bool:
    """Whether this is somebody stopping the work, or a framework's own signal, and no failure."""
    return exception_codes.of_exception(error) is None


def is_cancellation(error: BaseException) -> bool:
    """Whether somebody outside stopped the work; a framework's own signals are not that."""
    return isinstance(error, (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit))


def mark_as_reported(error: BaseException) -> None:
    """Remember on the exception that it was told as a tool's own failure."""
    with contextlib.suppress(Exception):  # somebody else's class
        setattr(error, _MARK, True)


def classify_run_end(error: BaseException | None, interrupted: bool) -> tuple[str, str]:
    """Return how a run ended out of which this came, and why.

    `interrupted`: something in it was stopped from outside. Then a time-out that is no tool's own is what stopped it:
    `asyncio.wait_for` turns the interruption into one on its way out.
    """
    if error is None:
        return "success", ""
    if is_interruption(error):
        return "aborted", str(error)[:2000]
    if interrupted and isinstance(error, TimeoutError) and not getattr(error, _MARK, False):
        return "aborted", str(error)[:2000] or OUT_OF_TIME
    return "error", str(error)[:2000]


def format_error(error: BaseException) -> dict[str, Any]:
    """Return the `error` object of a native frame: message, code, authority; retryable and after_ms where known."""
    found = exception_codes.of_exception(error)
    told: dict[str, Any] = {"message": _message(error), "code": found.code if found else "internal"}
    if found is None:
        return told
    told["authority"] = found.authority
    if error_codes.TABLE[found.code].again in {"yes", "no"}:
        told["retryable"] = found.retryable
    if found.after_ms is not None:
        told["after_ms"] = found.after_ms
    return told


def _message(error: BaseException) -> str:
    """The exception's own words; a KeyError's are only a key, so its name comes along."""
    text = exception_codes.message_of(error, MESSAGE)
    return f"{type(error).__name__}: {text}"[:MESSAGE] if isinstance(error, KeyError) else text
