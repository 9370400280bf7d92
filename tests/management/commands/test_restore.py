"""The command that restores a backup, and what it prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError

from tests.support.audit_trail import read_last, sql
from toolcards import __version__
from toolcards.audit.trail import Act, write_acts
from toolcards.management.commands import restore

pytestmark = pytest.mark.usefixtures("database")


def test_a_restore_says_what_it_did_and_where_the_old_database_is(
    run: Callable[..., str], tmp_path: Path, database: Path
) -> None:
    write_acts(Act("before"))
    run("backup", str(tmp_path / "backup.tar"))
    with pytest.raises(CommandError, match="--force"):
        run("restore", str(tmp_path / "backup.tar"))
    output = run("restore", str(tmp_path / "backup.tar"), "--force", "--by", "ana")
    assert output.startswith("Restored the backup of 2") and f"(Toolcards {__version__})" in output
    (old_path,) = (
        path for path in database.parent.glob("*.before-restore-*") if not path.name.endswith(("-wal", "-shm"))
    )
    assert f"The old database is in {old_path}." in output and "Row 2 of the audit trail records" in output
    assert "not intact" not in output and read_last("trail.restored").actor == "ana"


def test_a_trail_that_was_not_intact_at_the_backup_is_reported(run: Callable[..., str], tmp_path: Path) -> None:
    write_acts(Act("one"), Act("two"), Act("three"))
    sql("UPDATE toolcards_auditrow SET actor = 'eve' WHERE seq = 2")
    run("backup", str(tmp_path / "backup.tar"))
    with pytest.raises(CommandError, match=r"row 2 is not valid.*--accept-broken-trail"):
        run("restore", str(tmp_path / "backup.tar"), "--force")
    output = run("restore", str(tmp_path / "backup.tar"), "--force", "--accept-broken-trail")
    assert "The backup's audit trail is not intact: row 2 is not valid" in output


def test_a_file_that_is_no_backup_is_an_error(run: Callable[..., str], tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="File not found"):
        run("restore", str(tmp_path / "missing.tar"))


@pytest.mark.parametrize("error", [KeyError("no such user"), OSError("no such user")])
def test_a_system_without_a_name_for_its_user_has_one_for_the_trail(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail() -> str:
        raise error

    monkeypatch.setattr("getpass.getuser", lambda: "ana")
    assert restore._get_user_name() == "ana"
    monkeypatch.setattr("getpass.getuser", fail)
    assert restore._get_user_name() == "unknown"
