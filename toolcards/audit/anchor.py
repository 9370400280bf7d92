"""The anchor: the signed end of the audit trail, in a file next to the database.

A table cannot show that its last rows were removed; the anchor can. Only a holder of the server's secret can sign
one, so an anchor that is missing, older than it should be, or rewritten is a finding (see `verification`). The
file only moves forward along the rows it was made for: while the table contradicts it, it stays as it is.
"""

from __future__ import annotations

import atexit
import hmac
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.db import connection

from toolcards import outages
from toolcards.audit import anchor_line, witnesses
from toolcards.audit.anchor_line import GENESIS, Anchor, End, InvalidAnchor
from toolcards.audit.rows import AuditRow, is_of_first_version
from toolcards.encryption import derive_key
from toolcards.files import read_file, replace_file
from toolcards.outages import is_system_fault

log = logging.getLogger(__name__)
EVERY_ROWS = 200
EVERY_SECONDS = 2.0
RETRY_SECONDS = 5.0  # after the file could not be written


def parse_anchor(text: str) -> Anchor:
    """Return the anchor that the text holds; raises InvalidAnchor."""
    return anchor_line.parse_anchor(text, _get_keys())


def serialize_anchor(anchor: Anchor) -> str:
    """Return the anchor as one line of JSON, signed with today's key."""
    return anchor.text(*next(iter(_get_keys().items())))


def _get_keys() -> dict[str, bytes]:
    return _build_keys(settings.SECRET_KEY, tuple(settings.SECRET_KEY_FALLBACKS))


@lru_cache(maxsize=4)
def _build_keys(secret: str, older: tuple[str, ...]) -> dict[str, bytes]:
    keys = [derive_key(each, "audit.anchor") for each in (secret, *older)]
    return {hmac.digest(key, b"name", "sha256").hex()[:8]: key for key in keys}


def _get_time() -> int:
    return int(time.time() * 1000)  # never rounded up: an act in the same millisecond is not before the anchor


# ---------------------------------------------------------------- the file


def get_path() -> Path:
    """Return where the anchor is."""
    return Path(settings.TOOLCARDS.data_dir) / "audit-anchor.json"


def read() -> Anchor | None:
    """Return the anchor in the file, None without a file; raises InvalidAnchor."""
    try:
        return parse_anchor(read_file(get_path()))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise InvalidAnchor("cannot be read") from None


@contextmanager
def _lock_file() -> Iterator[None]:
    """Hold the lock of those that read the file to replace it."""
    with _file_lock, get_path().with_suffix(".lock").open("a") as lock:
        with suppress(ImportError):
            import fcntl  # not on Windows, where one process serves

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _replace(anchor: Anchor) -> None:
    replace_file(get_path(), serialize_anchor(anchor) + "\n")


# ---------------------------------------------------------------- what this process knows


@dataclass
class _Process:
    """The trail as this process sees it: its newest committed end, and ends that have disappeared (`cut`)."""

    newest: End | None = None
    cut: list[End] = field(default_factory=list)
    line: int = 0
    anchored_seq: int = 0  # of the newest row that the file names
    adopted: bool = False
    timer: threading.Timer | None = None


_process = _Process()
_state_lock = threading.Lock()  # guards `_process`; held for a moment only
_file_lock = threading.Lock()  # one writer of the file in this process; the lock file keeps out other processes


def note_end(seq: int, hash: str) -> None:  # noqa: A002 - the column's word
    """Remember the end of the trail after a commit.

    A thread writes it to the file within seconds, sooner if there are many new rows.
    """
    with _state_lock:
        if _process.newest is None or seq > _process.newest[0]:
            _process.newest = (seq, hash)
        is_urgent = seq - _process.anchored_seq >= EVERY_ROWS
        if is_urgent and _process.timer is not None and _process.timer.interval:
            _process.timer.cancel()
            _process.timer = None
        if _process.timer is None:
            is_failing = outages.get_outage(outages.ANCHORING) is not None
            _start_timer(RETRY_SECONDS if is_failing else 0.0 if is_urgent else EVERY_SECONDS)


def _start_timer(seconds: float) -> None:
    _process.timer = threading.Timer(seconds, _write_until_it_works)
    _process.timer.daemon = True
    _process.timer.start()


def list_known_ends() -> list[End]:
    """Return the ends of the trail that this process has seen committed."""
    with _state_lock:
        return [*_process.cut, *([_process.newest] if _process.newest else [])]


def get_known_line() -> int:
    """Return the newest line that this process has seen."""
    return _process.line


def prepare(seq: int) -> None:
    """Make the anchor ready before rows are appended.

    `seq`: number of rows in the trail, whose head the caller has locked.
    """
    with _state_lock:
        if _process.newest is not None and seq < _process.newest[0]:
            _process.cut.append(_process.newest)
            _process.newest = None
        is_adopted, _process.adopted = _process.adopted, True
    if seq == 0:
        _create_first_anchor()
    if not is_adopted:
        with suppress(InvalidAnchor, OSError), _lock_file():
            current = _sign_first_version(read())
            follow_line(current.line if current else 0)


def write() -> None:
    """Write the newest known end to the file; raises InvalidAnchor or OSError."""
    current = read()
    if current is not None:
        follow_line(current.line)
    with _state_lock:
        if _process.timer is not None:
            _process.timer.cancel()
            _process.timer = None
        newest = _process.newest
    if newest is not None:
        advance(newest)


def advance(end: End) -> None:
    """Move the file forward to this end.

    It stays as it is if the table no longer has the row that it names.
    """
    with _lock_file():
        current = _sign_first_version(read())
        if current is None or not current.signed or not _is_in_table(current.end):
            return  # a finding; writing a new anchor would hide it
        if current.seq < end[0] and _is_in_table(end):
            _replace(current.advance_to(end, _get_time()))
    with _state_lock:
        _process.anchored_seq = max(_process.anchored_seq, end[0])


def accept_end(end: End) -> None:
    """Begin a new line at this end, regardless of the current file."""
    with _lock_file():
        before = None
        with suppress(InvalidAnchor):
            before = read()
        line = max(before.line if before else 0, _process.line) + 1
        number = before.number + 1 if before else 1
        _replace(Anchor(end[0], end[1], number, line, _get_time(), _get_time()))
    with _state_lock:
        _process.newest, _process.cut, _process.line = None, [], line


def follow_line(line: int) -> None:
    """Drop the ends of earlier lines.

    An operator has accepted the trail as it was (`audit reanchor`).
    """
    with _state_lock:
        if line > _process.line:
            if _process.line:
                _process.newest, _process.cut = None, []
            _process.line = line


def reset() -> None:
    """Remove the file and this process's state; end its threads (tests)."""
    global _process
    with _state_lock:
        if _process.timer is not None:
            _process.timer.cancel()
        _process = _Process()
    while writers := _list_writers():
        for writer in writers:
            writer.cancel()
            writer.join()
    get_path().unlink(missing_ok=True)


def _list_writers() -> list[threading.Timer]:
    timers = [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
    return [timer for timer in timers if timer.function is _write_until_it_works]


def _create_first_anchor() -> None:
    """Create the anchor of a trail without rows, with doubts if the database has been in use before."""
    with _lock_file(), suppress(InvalidAnchor):
        current, doubts = read(), witnesses.find_earlier_use(witnesses.RECENT_SECONDS)
        if current is None or (doubts and current.signed and not current.seq and not current.doubts):
            start = _get_time() - round(witnesses.RECENT_SECONDS * 1000)
            _replace(Anchor(line=(current.line if current else 0) + 1, at=_get_time(), since=start, doubts=doubts))


def _sign_first_version(current: Anchor | None) -> Anchor | None:
    """Sign an anchor of version 1 if all rows are of that version too; otherwise an unsigned anchor is a finding."""
    if current is None or current.signed or not is_of_first_version() or not _is_in_table(current.end):
        return current
    signed_anchor = Anchor(current.seq, current.hash, 1, 1, _get_time(), _get_time())
    _replace(signed_anchor)
    return signed_anchor


def _is_in_table(end: End) -> bool:
    return end == (0, GENESIS) or AuditRow.objects.filter(seq=end[0], hash=end[1]).exists()


def _write_until_it_works() -> None:
    """Write the file; retry while the disk is full or the database is unavailable."""
    try:
        write()
        outages.report_success(outages.ANCHORING)
    except Exception as error:
        if is_system_fault(error):
            outages.report_failure(outages.ANCHORING, error)
        else:
            log.exception("audit: the anchor could not be written")
        with _state_lock:
            if _process.timer is None and outages.get_outage(outages.ANCHORING) is not None:
                _start_timer(RETRY_SECONDS)
    finally:
        connection.close()  # this thread's own


def _at_exit() -> None:
    with suppress(Exception):
        write()


atexit.register(_at_exit)


__all__ = [
    "GENESIS", "Anchor", "End", "InvalidAnchor", "accept_end", "advance", "follow_line", "get_known_line", "get_path",
    "list_known_ends", "note_end", "parse_anchor", "prepare", "read", "reset", "serialize_anchor", "write",
]  # fmt: skip
