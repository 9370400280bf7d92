"""Outages: which parts of this process do not work now. The log has one line when each begins, and one at its end.

Parts are what the server must be able to do: read, write, send notifications, ring the bell between processes. Code
that does one of these reports each outcome here, from any thread; readiness and the pages read from here.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field

log = logging.getLogger(__name__)
READING, WRITING, SENDING, BELL = "reading", "writing", "sending", "bell"
PARTS = (READING, WRITING, SENDING, BELL)


@dataclass(slots=True)
class Outage:
    """One part that fails: since when on the monotonic clock, why, and how many tries have failed."""

    part: str
    why: str
    since: float = field(default_factory=time.monotonic)
    tries: int = 1

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self.since


_lock = threading.Lock()
_outages: dict[str, Outage] = {}
_worked: dict[str, float] = {}


def succeed(part: str) -> None:
    """Note that the part has just worked; ends its outage."""
    _worked[part] = time.monotonic()
    if part not in _outages:  # nearly always
        return
    with _lock:
        ended = _outages.pop(part, None)
    if ended is not None:
        log.warning("%s works again after %.0f s and %d failed tries", part, ended.seconds, ended.tries)


def fail(part: str, error: BaseException | str) -> None:
    """Note that the part has just failed; only the first failure of an outage is logged."""
    why = _shorten(error)
    with _lock:
        known = _outages.get(part)
        if known is not None:
            known.tries, known.why = known.tries + 1, why
            return
        _outages[part] = Outage(part, why)
    log.error("%s fails, and is tried again until it works: %s", part, why)


def ongoing(part: str) -> Outage | None:
    """Return the outage of the part, None while it works."""
    return _outages.get(part)


def listed() -> list[Outage]:
    """Return all outages, the longest first."""
    return sorted(_outages.values(), key=lambda outage: outage.since)


def idle_seconds(part: str) -> float:
    """Return how long ago the part last worked, infinity where it never has."""
    return time.monotonic() - _worked[part] if part in _worked else float("inf")


def reset() -> None:
    """Forget everything (tests)."""
    _outages.clear()
    _worked.clear()


def _shorten(error: BaseException | str) -> str:
    """Return one line; drivers write several, and some hold addresses, which are for the log alone."""
    said = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:300]
