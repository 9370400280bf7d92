"""Causes: classify errors of the system and of database drivers, with texts for people.

The messages of drivers differ, and some contain addresses: pages and `/readyz` show the texts from here, the log has
those of the driver.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass


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
    lowered = text.lower()
    return next((cause for words, cause in _PHRASES.items() if words in lowered), None)
