"""Outages: the parts of this process that do not work now. Each one is logged once at its start and at its end.

A part is a capability of the server, such as reading, writing, sending notifications, or ringing the bell between
processes. Its code reports each outcome here, from any thread; readiness and the pages read the outages.

On a nearly full disk a small write works while a larger one fails. An outage that begins again soon after its end is
the same one: from then on it only ends after a calm time, which doubles, so that neither log nor pages flicker.

The messages of drivers differ, and some contain addresses: pages and `/readyz` show the words of the cause, the log has
the message of the driver.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

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
    log.warning("%s works again after %.0f s and %d failed attempts", part, outage.seconds, outage.tries)


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
    log.error("%s fails; trying again until it works: %s", part, why)


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


# ---------------------------------------------------------------- causes


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause: its code for programs, and the end of a sentence for people.

    `spares_readers`: it affects only writes, even if the error appears during a read.
    """

    code: str
    words: str
    spares_readers: bool = False


DISK_FULL = Cause("disk_full", "the disk is full", spares_readers=True)
READ_ONLY = Cause("read_only", "the disk or the database is read-only", spares_readers=True)
LOCKED = Cause("locked", "another program holds a lock on the database")
LOCKED_FILE = Cause(LOCKED.code, LOCKED.words, spares_readers=True)  # SQLite's, whose log is read without a lock
NO_DESCRIPTORS = Cause("no_descriptors", "the server has too many open files and connections")
UNREACHABLE = Cause("unreachable", "the database cannot be reached")
NO_ANSWER = Cause("no_answer", "there is no answer in time")
DISK_ERROR = Cause("disk_error", "the disk reports errors")
UNKNOWN = Cause("failing", "it fails; the server's log has the error")

_ERRNO = {
    errno.ENOSPC: DISK_FULL, errno.EDQUOT: DISK_FULL, errno.EROFS: READ_ONLY, errno.EMFILE: NO_DESCRIPTORS,
    errno.ENFILE: NO_DESCRIPTORS, errno.EIO: DISK_ERROR, errno.ECONNREFUSED: UNREACHABLE, errno.ECONNRESET: UNREACHABLE,
}  # fmt: skip
# PostgreSQL's codes, by their beginning: https://www.postgresql.org/docs/current/errcodes-appendix.html
_SQLSTATE = {
    "53100": DISK_FULL, "25006": READ_ONLY, "55P03": LOCKED, "57014": LOCKED, "40P01": LOCKED, "58030": DISK_ERROR,
    "53300": UNREACHABLE, "57P": UNREACHABLE, "08": UNREACHABLE,
}  # fmt: skip
_PHRASES = {
    "disk is full": DISK_FULL, "no space left": DISK_FULL, "readonly database": READ_ONLY, "read-only": READ_ONLY,
    "is locked": LOCKED_FILE, "lock timeout": LOCKED, "statement timeout": LOCKED,
    "too many open files": NO_DESCRIPTORS, "unable to open database file": NO_DESCRIPTORS,
    "disk i/o error": DISK_ERROR, "connection": UNREACHABLE,
}  # fmt: skip


def find_cause(error: BaseException | str) -> Cause:
    """Return the cause of the error."""
    if isinstance(error, str):
        return _match_wording(error) or UNKNOWN
    for link in _iterate_chain(error):
        cause = _match_error(link)
        if cause is not None:
            return cause
    return UNKNOWN


def is_system_fault(error: BaseException) -> bool:
    """Return whether the system failed, so that a retry can succeed."""
    return find_cause(error) is not UNKNOWN


def _iterate_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error's causes, innermost first: Django wraps driver errors, which wrap those of the system."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    yield from reversed(chain)


def _match_error(error: BaseException) -> Cause | None:
    if isinstance(error, TimeoutError) and error.errno is None:
        return NO_ANSWER
    state = getattr(error, "sqlstate", None) or ""
    if isinstance(error, OSError) and error.errno is not None:
        return _ERRNO.get(error.errno)
    by_state = next((cause for code, cause in _SQLSTATE.items() if state.startswith(code)), None)
    return by_state or _match_wording(str(error))


def _match_wording(text: str) -> Cause | None:
    lowercase_text = text.lower()
    return next((cause for words, cause in _PHRASES.items() if words in lowercase_text), None)
