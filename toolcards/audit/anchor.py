"""The anchor: the signed end of the audit trail, in a file beside the database.

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
from toolcards.audit import anchor_line
from toolcards.audit.anchor_line import GENESIS, Anchor, End, NotOurs
from toolcards.causes import is_system_fault
from toolcards.files import replace_file
from toolcards.showing import derived

log = logging.getLogger(__name__)
EVERY_ROWS = 200
EVERY_SECONDS = 2.0
RETRY_SECONDS = 5.0  # after the file could not be written


def parse(text: str) -> Anchor:
    """Return the anchor that the text holds; raises NotOurs."""
    return anchor_line.parse(text, _keys())


def line_of(anchor: Anchor) -> str:
    """Return the anchor as one line of JSON, signed with today's key."""
    return anchor.text(*next(iter(_keys().items())))


def _keys() -> dict[str, bytes]:
    return _all_keys(settings.SECRET_KEY, tuple(settings.SECRET_KEY_FALLBACKS))


@lru_cache(maxsize=4)
def _all_keys(secret: str, older: tuple[str, ...]) -> dict[str, bytes]:
    keys = [derived(each, "audit.anchor") for each in (secret, *older)]
    return {hmac.digest(key, b"name", "sha256").hex()[:8]: key for key in keys}


def _now() -> int:
    return int(time.time() * 1000)  # never rounded up: an act in the same millisecond is not before the anchor


# ---------------------------------------------------------------- the file


def path() -> Path:
    """Return where the anchor is."""
    return Path(settings.TOOLCARDS.data_dir) / "audit-anchor.json"


def read() -> Anchor | None:
    """Return the anchor in the file, None without a file; raises NotOurs."""
    try:
        return parse(path().read_text())
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise NotOurs("cannot be read") from None


@contextmanager
def _writing() -> Iterator[None]:
    """Be the only one who reads the file in order to replace it."""
    with _file, path().with_suffix(".lock").open("a") as lock:
        with suppress(ImportError):
            import fcntl  # not on Windows, where one process serves

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _put(anchor: Anchor) -> None:
    replace_file(path(), line_of(anchor) + "\n")


# ---------------------------------------------------------------- what this process knows


@dataclass
class _Process:
    """What this process has seen of the trail: `seen` its newest committed end, `cut` ends that were taken away."""

    seen: End | None = None
    cut: list[End] = field(default_factory=list)
    line: int = 0
    written: int = 0
    adopted: bool = False
    timer: threading.Timer | None = None


_here = _Process()
_state = threading.Lock()  # guards `_here`; held for a moment only
_file = threading.Lock()  # one writer of the file in this process; `_writing` keeps out other processes too


def note(seq: int, hash: str) -> None:  # noqa: A002 - the column's word
    """Remember the end of the trail after a commit; a thread writes it soon, sooner if there are many new rows."""
    with _state:
        if _here.seen is None or seq > _here.seen[0]:
            _here.seen = (seq, hash)
        hurry = seq - _here.written >= EVERY_ROWS
        if hurry and _here.timer is not None and _here.timer.interval:
            _here.timer.cancel()
            _here.timer = None
        if _here.timer is None:
            failing = outages.get_outage(outages.ANCHORING) is not None
            _start_timer(RETRY_SECONDS if failing else 0.0 if hurry else EVERY_SECONDS)


def _start_timer(seconds: float) -> None:
    _here.timer = threading.Timer(seconds, _write_soon)
    _here.timer.daemon = True
    _here.timer.start()


def known_ends() -> list[End]:
    """Return the ends of the trail that this process has seen committed."""
    with _state:
        return [*_here.cut, *([_here.seen] if _here.seen else [])]


def known_line() -> int:
    """Return the newest line that this process has seen."""
    return _here.line


def prepare(seq: int) -> None:
    """Make the anchor ready before rows are appended to a trail of `seq` rows, whose end is locked."""
    with _state:
        if _here.seen is not None and seq < _here.seen[0]:
            _here.cut.append(_here.seen)
            _here.seen = None
        adopted, _here.adopted = _here.adopted, True
    if seq == 0:
        _begin()
    if not adopted:
        with suppress(NotOurs, OSError), _writing():
            current = _adopt(read())
            follow_line(current.line if current else 0)


def write() -> None:
    """Write the newest end that was noted here; raises NotOurs or OSError where the file cannot follow."""
    current = read()
    if current is not None:
        follow_line(current.line)
    with _state:
        if _here.timer is not None:
            _here.timer.cancel()
            _here.timer = None
        newest = _here.seen
    if newest is not None:
        advance(newest)


def advance(end: End) -> None:
    """Move the file forward to this end, if the table still has the row that the file names."""
    with _writing():
        current = _adopt(read())
        if current is None or not current.signed or not _is_in_table(current.end):
            return  # a finding; writing a new anchor would hide it
        if current.seq < end[0] and _is_in_table(end):
            _put(current.moved(end, _now()))
    with _state:
        _here.written = max(_here.written, end[0])


def accept(end: End) -> None:
    """Begin a new line at this end, whatever the file says."""
    with _writing():
        before = None
        with suppress(NotOurs):
            before = read()
        line = max(before.line if before else 0, _here.line) + 1
        number = before.number + 1 if before else 1
        _put(Anchor(end[0], end[1], number, line, _now(), _now()))
    with _state:
        _here.seen, _here.cut, _here.line = None, [], line


def follow_line(line: int) -> None:
    """Forget what was seen of earlier lines: an operator has accepted the trail as it was (`audit reanchor`)."""
    with _state:
        if line > _here.line:
            if _here.line:
                _here.seen, _here.cut = None, []
            _here.line = line


def forget() -> None:
    """Drop the file and what this process knows (tests)."""
    global _here
    with _state:
        if _here.timer is not None:
            _here.timer.cancel()
        _here = _Process()
    path().unlink(missing_ok=True)


def _begin() -> None:
    """The trail has no row: make its anchor, unless there is one, and write down what speaks against a beginning."""
    from toolcards.audit import witnesses

    with _writing(), suppress(NotOurs):
        current, doubts = read(), witnesses.earlier_use(witnesses.RECENT)
        if current is None or (doubts and current.signed and not current.seq and not current.doubts):
            since = _now() - round(witnesses.RECENT * 1000)
            _put(Anchor(line=(current.line if current else 0) + 1, at=_now(), since=since, doubts=doubts))


def _adopt(current: Anchor | None) -> Anchor | None:
    """Sign an anchor of version 1, as long as all rows are of that time too; later on nothing unsigned counts."""
    from toolcards.audit.trail import is_of_first_version

    if current is None or current.signed or not is_of_first_version() or not _is_in_table(current.end):
        return current
    signed = Anchor(current.seq, current.hash, 1, 1, _now(), _now())
    _put(signed)
    return signed


def _is_in_table(end: End) -> bool:
    from toolcards.audit.trail import AuditRow

    return end == (0, GENESIS) or AuditRow.objects.filter(seq=end[0], hash=end[1]).exists()


def _write_soon() -> None:
    """Write, and again until it works: the disk may be full, or the database away, for a while."""
    try:
        write()
        outages.report_success(outages.ANCHORING)
    except Exception as error:
        if is_system_fault(error):
            outages.report_failure(outages.ANCHORING, error)
        else:
            log.exception("audit: the anchor could not be written")
        with _state:
            if _here.timer is None and outages.get_outage(outages.ANCHORING) is not None:
                _start_timer(RETRY_SECONDS)
    finally:
        connection.close()  # this thread's own


def _at_exit() -> None:
    with suppress(Exception):
        write()


atexit.register(_at_exit)


__all__ = [
    "GENESIS", "Anchor", "End", "NotOurs", "accept", "advance", "follow_line", "forget", "known_ends", "known_line",
    "line_of", "note", "parse", "path", "prepare", "read", "write",
]  # fmt: skip
