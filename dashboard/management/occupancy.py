"""One server per SQLite data directory: a lock that ends with its process, and names that process."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

LOCK = "server.lock"


class FolderOccupied(Exception):
    """Another server uses the folder; the message names it."""


@contextlib.contextmanager
def occupy_folder(folder: Path) -> Iterator[Callable[[str], None]]:
    """Keep other servers from using the folder; raises FolderOccupied.

    Yields a function that takes the server's address once it is known. After kill -9 the folder is free at once.
    """
    if sys.platform == "win32":  # has no such locks
        yield lambda address: None
        return
    # Never deleted: a server that waits for a deleted file would not see the lock of a new one.
    with (folder / LOCK).open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderOccupied(_read_owner(file)) from None
        except OSError:  # a file system without locks cannot show other servers
            yield lambda address: None
            return
        started_at = datetime.now(UTC).isoformat(timespec="seconds")

        def write(address: str) -> None:
            file.truncate(0)
            json.dump({"pid": os.getpid(), "address": address, "since": started_at}, file)
            file.flush()

        write("an address that is not known yet")
        yield write


def _read_owner(file: Any) -> str:
    file.seek(0)
    try:
        owner = json.load(file)
        return f"process {owner['pid']} at {owner['address']}, since {owner['since']}"
    except (ValueError, KeyError, TypeError):  # it holds the lock but has not written its name
        return "a server that is just starting"
