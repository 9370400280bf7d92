"""Small files, replaced atomically: the old content stays until the new one is safe on disk."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(target: Path, text: str) -> None:
    """Replace a private file; after a failure the old one remains."""
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())  # a power cut must not leave an empty file behind
        draft.replace(target)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def read_file(path: Path) -> str:
    """Return the text of a file, and leave its time of access.

    An idle server would write a new one to the disk.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOATIME", 0))
    except PermissionError:  # the file of another user, or not readable
        return path.read_text()
    with os.fdopen(handle) as stream:
        return stream.read()
