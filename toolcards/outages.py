"""Outages: the parts of this process that do not work now. Each one is logged once at its start and at its end.

A part is a capability of the server, such as reading, writing, sending notifications, or ringing the bell between
processes. Its code reports each outcome here, from any thread; readiness and the pages read the outages.

On a nearly full disk a small write works while a larger one fails. An outage that begins again soon after its end is
the same one: from then on it only ends after a calm time, which doubles, so that neither log nor pages flicker.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field

from toolcards.causes import NO_ANSWER, Cause, find_cause

log = logging.getLogger(__name__)
READING, WRITING, SENDING, BELL = "reading", "writing", "sending", "bell"
ANCHORING = "anchoring"  # keeping the end of the audit trail in its file; the server is ready without it
CONNECTING = "connecting"  # taking new connections
PARTS = (READING, WRITING, SENDING, BELL, CONNECTING, ANCHORING)
SOON = 10.0  # seconds after an outage within which another one counts as the same
CALM, LONGEST_CALM = 2.0, 60.0  # seconds without a failure until an outage that came back counts as over


@dataclass(slots=True)
class Outage:
    """One part that fails: its start on the monotonic clock, the reason, and the number of failed tries.

    `began` is the same moment for people, in epoch seconds; `calm`: how long no try may fail before it is over.
    """

    part: str
    why: str
    cause: Cause
    started: float = field(default_factory=lambda: time.monotonic())
    began: float = field(default_factory=time.time)
    tries: int = 1
    calm: float = 0.0
    failed: float = field(default_factory=lambda: time.monotonic())  # when the last try did

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return time.monotonic() - self.started


_lock = threading.Lock()
_outages: dict[str, Outage] = {}
_past_outages: dict[str, tuple[float, Outage]] = {}
_last_success: dict[str, float] = {}


def report_success(part: str) -> None:
    """Report that the part has just worked, which ends its outage."""
    now = _last_success[part] = time.monotonic()
    if part not in _outages:  # nearly always
        return
    with _lock:
        outage = _outages.get(part)
        if outage is None or now - outage.failed < outage.calm:
            return
        del _outages[part]
        _past_outages[part] = (now, outage)
    log.warning("%s works again after %.0f s and %d failed tries", part, outage.seconds, outage.tries)


def report_failure(part: str, error: BaseException | str) -> None:
    """Report that the part has just failed.

    Only the first failure of an outage is logged.
    Readers report every error. Errors reported by another part, or that affect only writes, do not count as theirs.
    """
    why, cause, now = _shorten(error), find_cause(error), time.monotonic()
    if part == READING and cause.spares_readers:
        part = WRITING
    if isinstance(error, BaseException):
        if part == READING and getattr(error, "outage", part) != part:
            return
        error.outage = part  # type: ignore[attr-defined]
    with _lock:
        current = _outages.get(part)
        if current is not None:
            current.tries, current.failed = current.tries + 1, now
            if cause is not NO_ANSWER:  # the earlier reason explains the timeout
                current.why, current.cause = why, cause
            return
        outage = Outage(part, why, cause)
        end, before = _past_outages.get(part, (now, None))
        if before is not None and now - end < SOON:
            outage.started, outage.began, outage.tries = before.started, before.began, before.tries + 1
            outage.calm = min(LONGEST_CALM, max(CALM, 2 * before.calm))
        _outages[part] = outage
    log.error("%s fails, and is tried again until it works: %s", part, why)


def get_outage(part: str) -> Outage | None:
    """Return the outage of the part, None while it works."""
    return _outages.get(part)


def is_failing(part: str) -> bool:
    """Return whether the last try of the part failed.

    False for an outage that is only kept open until its calm time has passed.
    """
    outage = _outages.get(part)
    return outage is not None and outage.failed >= _last_success.get(part, 0.0)


def list_outages() -> list[Outage]:
    """Return all outages, the longest first."""
    return sorted(_outages.values(), key=lambda outage: outage.started)


def get_idle_seconds(part: str) -> float:
    """Return the seconds since the part last worked, infinity for never."""
    return time.monotonic() - _last_success[part] if part in _last_success else float("inf")


def reset() -> None:
    """Clear all outages (tests)."""
    _outages.clear()
    _past_outages.clear()
    _last_success.clear()


def _shorten(error: BaseException | str) -> str:
    """Return one line; drivers write several, and some hold addresses, which are for the log alone."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:300]
