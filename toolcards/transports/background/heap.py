"""Memory that is not used returns to the system: the C library keeps what was freed, as after a flood of calls."""

from __future__ import annotations

import ctypes
import gc
from functools import cache
from typing import Any

from toolcards import gate
from toolcards.models.calls import forget_shown_cards
from toolcards.transports.background import activity

_collected_use = -1.0  # the last use of this process before the last full collection


def release_memory() -> None:
    """Drop idle runs if all are too large, and return free memory.

    While no one uses the process, almost all caches; once after each use also what only a full collection finds: that
    stops all threads for a moment.
    """
    global _collected_use
    is_unused, use = activity.is_unused(), activity.get_last_use()
    gate.drop_idle_runs(is_unused=is_unused)
    if is_unused:
        forget_shown_cards()
        gate.forget_committed_cards()
    if is_unused and use != _collected_use:  # nothing new has become garbage since
        _collected_use = use
        gc.collect()
    return_free_memory()


def return_free_memory() -> None:
    """Return free memory to the system, if the library is glibc.

    Takes about 0.1 ms for each megabyte that returns, without the interpreter's lock.
    """
    trim = _find_trim()
    if trim is not None:
        trim(0)


@cache
def _find_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # musl, macOS, Windows
        return None
