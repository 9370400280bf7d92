"""What an exception says about a failed tool, as the wire wants it; the table and the reading of it are in `errors`.

Careful on purpose: where it depends on what the tool does, `retryable` is left to the server, which knows the tool.
"""

from __future__ import annotations

from typing import Any

from . import errors, raised

__all__ = ["aborted", "fault"]

MESSAGE = 4000


def aborted(error: BaseException) -> bool:
    """Whether this is somebody stopping the work, or a framework's own signal, and no failure."""
    return raised.of_exception(error) is None


def fault(error: BaseException) -> dict[str, Any]:
    """Return the `error` object of a native frame: message, code, authority; retryable and after_ms where known."""
    found = raised.of_exception(error)
    told: dict[str, Any] = {"message": _message(error), "code": found.code if found else "internal"}
    if found is None:
        return told
    told["authority"] = found.authority
    if errors.TABLE[found.code].again in {"yes", "no"}:
        told["retryable"] = found.retryable
    if found.after_ms is not None:
        told["after_ms"] = found.after_ms
    return told


def _message(error: BaseException) -> str:
    """The exception's own words; a KeyError's are only a key, so its name comes along."""
    text = raised.message_of(error, MESSAGE)
    return f"{type(error).__name__}: {text}"[:MESSAGE] if isinstance(error, KeyError) else text
