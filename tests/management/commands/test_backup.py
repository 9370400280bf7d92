"""The command that makes and checks a backup."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError

from toolcards import __version__, backup

pytestmark = pytest.mark.usefixtures("database")


def test_a_backup_is_made_described_and_checked_again(run: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "backup.tar"
    line = f"{path}: sqlite, Toolcards {__version__}, "
    output = run("backup", str(path))
    assert output.startswith(line) and output.endswith(f"{path.stat().st_size} bytes, checksums OK.\n")
    changed_at = path.stat().st_mtime_ns
    assert run("backup", "--check", str(path)) == output and path.stat().st_mtime_ns == changed_at
    assert backup.check(path).store == "sqlite"


def test_a_backup_with_the_key_warns_when_it_is_made_and_checked(run: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "backup.tar"
    for words in (["--with-key"], ["--check"]):
        assert "anyone who reads it can decrypt everything" in run("backup", *words, str(path))


def test_a_file_that_is_no_backup_is_an_error(run: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CommandError, match="is not a backup"):
        run("backup", "--check", str(tmp_path / "file"))
    with pytest.raises(CommandError, match="File not found"):
        run("backup", "--check", str(tmp_path / "missing"))
    with pytest.raises(CommandError, match="Folder not found"):
        run("backup", str(tmp_path / "missing" / "backup.tar"))
