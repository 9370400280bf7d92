"""Small files: replaced as a whole, and read without a trace."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from toolcards import files


def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "kept.json"
    files.replace_file(target, "before")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.replace_file(target, "after")
    assert target.read_text() == "before" and list(tmp_path.iterdir()) == [target]
    assert target.stat().st_mode & 0o777 == 0o600


def test_reading_writes_no_time_of_access(tmp_path: Path) -> None:
    target = tmp_path / "kept.json"
    files.replace_file(target, "text")
    os.utime(target, (1, target.stat().st_mtime))  # most file systems note the first reading after a change
    assert files.read_file(target) == "text"
    assert target.stat().st_atime == 1
    with pytest.raises(FileNotFoundError):
        files.read_file(tmp_path / "missing.json")
