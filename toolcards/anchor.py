"""The anchor: the end of the audit trail, noted in a file beside the database every few seconds.

Whoever can delete the last rows of a table can also set its head back; the file is what they would have
to find as well. For proof against the server's own administrator, copy it (or `audit export`) elsewhere.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path

from django.conf import settings

EVERY_ROWS = 200
EVERY_SECONDS = 2.0

_lock = threading.Lock()
_newest: tuple[int, str] | None = None
_written = 0
_timer: threading.Timer | None = None


def path() -> Path:
    """Return where the anchor lies."""
    return Path(settings.TOOLCARDS.data_dir) / "audit-anchor.json"


def note(seq: int, hash: str) -> None:  # noqa: A002 - the column's word
    """Remember the end of the trail; it is written soon, or now if much has happened."""
    global _newest, _timer
    with _lock:
        if _newest is None or seq > _newest[0]:
            _newest = (seq, hash)
        if seq - _written < EVERY_ROWS:
            if _timer is None:
                _timer = threading.Timer(EVERY_SECONDS, write)
                _timer.daemon = True
                _timer.start()
            return
    write()


def write() -> None:
    """Write the newest end that was noted; never an older one than the file has."""
    global _newest, _written, _timer
    with _lock:
        if _timer is not None:
            _timer.cancel()
            _timer = None
        newest, _newest = _newest, None
        if newest is None:
            return
        stands = read()
        if stands is None or stands[0] < newest[0]:
            _put(newest)
        _written = newest[0]


def read() -> tuple[int, str] | None:
    """Return the end of the trail as the file has it, None without a file; raises ValueError if it is broken."""
    with suppress(FileNotFoundError):
        said = json.loads(path().read_text())
        return int(said["seq"]), str(said["hash"])
    return None


def _put(end: tuple[int, str]) -> None:
    target = path()
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as opened:
        opened.write(json.dumps({"seq": end[0], "hash": end[1]}) + "\n")
    draft.replace(target)


def forget() -> None:
    """Drop what was noted and the file (tests, and after a database was replaced on purpose)."""
    global _newest, _written
    with _lock:
        _newest, _written = None, 0
        path().unlink(missing_ok=True)


def _at_exit() -> None:
    with suppress(Exception):
        write()


atexit.register(_at_exit)
