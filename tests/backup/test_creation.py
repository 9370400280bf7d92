"""Making a backup: what is in it, where it is written, and when it is refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from toolcards import __version__
from toolcards.audit import anchor
from toolcards.audit.rows import get_key_id
from toolcards.audit.trail import Act, write_acts
from toolcards.backup import BackupError, archive, creation, make


def test_a_backup_has_the_database_and_what_names_it(database: Path, tmp_path: Path) -> None:
    manifest = archive.check(make(tmp_path / "backup.tar"))
    assert (manifest.version, manifest.store, manifest.key) == (__version__, "sqlite", get_key_id())
    assert manifest.parts.keys() == {archive.DATABASE} and manifest.migrations == creation.list_migrations()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.tar", "data"]


def test_the_newest_migration_of_each_app_is_named_once(database: Path) -> None:
    MigrationRecorder(connection).record_applied("toolcards", "0000_applied_later")
    with connection.cursor() as cursor:
        cursor.execute("SELECT app, max(name) FROM django_migrations GROUP BY app ORDER BY app")
        assert creation.list_migrations() == [f"{app}.{name}" for app, name in cursor.fetchall()]


def test_the_anchor_is_in_it_and_names_no_row_that_the_copy_lacks(database: Path, tmp_path: Path) -> None:
    write_acts(*(Act(f"act {number}") for number in range(3)))
    anchor.write()
    path = make(tmp_path / "backup.tar")
    archive.unpack(path, archive.ANCHOR, tmp_path / "anchor")
    archive.unpack(path, archive.DATABASE, tmp_path / "copy")
    assert (tmp_path / "anchor").read_bytes() == anchor.get_path().read_bytes()
    with sqlite3.connect(tmp_path / "copy") as copy:
        assert copy.execute("SELECT max(seq) FROM toolcards_auditrow").fetchone() == (3,)
    assert anchor.parse_anchor((tmp_path / "anchor").read_text()).seq == 3


@pytest.mark.parametrize("with_key", [True, False])
def test_the_key_is_in_it_only_if_it_is_asked_for(database: Path, tmp_path: Path, with_key: bool) -> None:
    path = make(tmp_path / "backup.tar", with_key=with_key)
    assert (archive.KEY in archive.check(path).parts) is with_key
    assert (settings.SECRET_KEY.encode() in path.read_bytes()) is with_key


def test_in_a_folder_the_file_is_named_after_the_time(database: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    path = make(folder)
    assert [*folder.iterdir()] == [path] and path.name.startswith("toolcards-2") and path.suffix == ".tar"


def test_where_nothing_can_be_written_or_copied_the_reason_is_named(database: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupError, match=r"Folder not found: .*/missing"):
        make(tmp_path / "missing" / "backup.tar")
    connection.close()
    database.unlink()
    with pytest.raises(BackupError, match="There is no database yet"):
        make(tmp_path / "backup.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_backup_that_fails_leaves_the_earlier_one(database: Path, tmp_path: Path) -> None:
    path = tmp_path / "backup.tar"
    path.write_text("an earlier one")
    connection.close()
    database.write_bytes(b"no database at all" * 1000)
    with pytest.raises(BackupError, match="SQLite cannot copy"):
        make(path)
    assert path.read_text() == "an earlier one"
