"""Small files that are replaced as a whole."""

from __future__ import annotations

import errno
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
