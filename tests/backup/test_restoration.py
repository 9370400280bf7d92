"""Restoring: what is refused changes nothing, and what is replaced is kept."""

from __future__ import annotations

import contextlib
import fcntl
import sqlite3
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection

from toolcards.audit import anchor
from toolcards.audit.rows import AuditRow, get_key_id
from toolcards.audit.trail import Act, write_acts
from toolcards.backup import BackupError, Manifest, archive, creation, make, restoration, restore, stores

OTHER_KEY = "another-key-0123456789abcdefghijklmnopqrstuvwxyz"


def list_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != restoration.LOCK}


def make_manifest(**changes: Any) -> Manifest:
    manifest = Manifest("9.9", 1.0, stores.get_store().name, creation.list_migrations(), get_key_id(), {})
    return replace(manifest, **changes)


def test_a_restore_undoes_what_came_later_and_records_who_did_it(database: Path, tmp_path: Path) -> None:
    write_acts(Act("before"))
    backup = make(tmp_path / "backup.tar")
    write_acts(Act("after"))
    with pytest.raises(BackupError, match="--force"):
        restore(backup, actor="ana")
    assert AuditRow.objects.filter(act="after").exists()
    report = restore(backup, actor="ana", force=True)
    acts = list(AuditRow.objects.order_by("seq").values_list("act", "actor"))
    assert [act for act, _ in acts] == ["before", "trail.restored"] and report.rows == 2
    assert "ana" in acts[1][1] and report.fault == ""
    with sqlite3.connect(report.old_database) as old:
        assert old.execute("SELECT count(*) FROM toolcards_auditrow").fetchone() == (2,)


def rewrite(backup: Path, *, seal: str | None = None) -> None:
    """Change the database in a backup, and compute the checksums again, as an attacker without the key does."""
    database = backup.with_name("database")
    archive.unpack(backup, archive.DATABASE, database)
    with contextlib.closing(sqlite3.connect(database)) as copy, copy:
        copy.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('evil', '1', '2020-01-01')")
    manifest, anchor_path = archive.check(backup), backup.with_name("anchor")
    archive.unpack(backup, archive.ANCHOR, anchor_path)
    parts = {archive.DATABASE: database, archive.ANCHOR: anchor_path}
    digests = {name: archive.hash_file(path) for name, path in parts.items()}
    new_seal = manifest.seal if seal is None else seal
    archive.write(backup, replace(manifest, parts=digests, seal=new_seal), parts)


@pytest.mark.parametrize(("seal", "reason"), [(None, "does not match"), ("0" * 64, "does not match"), ("", "not seal")])
def test_an_archive_with_new_checksums_is_refused(
    database: Path, tmp_path: Path, seal: str | None, reason: str
) -> None:
    write_acts(Act("before"))
    backup = make(tmp_path / "backup.tar")
    rewrite(backup, seal=seal)
    before = database.read_bytes()
    with pytest.raises(BackupError, match=reason):
        restore(backup, actor="ana", force=True, accept_broken_trail=True)
    assert database.read_bytes() == before
    if seal == "":
        assert restore(backup, actor="ana", force=True, accept_unsealed=True).fault == ""


def test_a_trail_that_was_cut_is_restored_only_on_request_and_leaves_the_database_as_it_was(
    database: Path, tmp_path: Path
) -> None:
    write_acts(Act("one"), Act("two"))
    anchor.write()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM toolcards_auditrow WHERE seq = 2")
    backup = make(tmp_path / "backup.tar")
    with pytest.raises(BackupError, match="--accept-broken-trail"):
        restore(backup, actor="ana", force=True)
    assert list(AuditRow.objects.values_list("act", flat=True)) == ["one"]
    assert [path.name for path in database.parent.glob("*before-restore*")] == []
    assert restore(backup, actor="ana", force=True, accept_broken_trail=True).fault


def test_the_remains_of_a_restore_that_was_killed_are_removed(database: Path, tmp_path: Path) -> None:
    write_acts(Act("one"))
    backup = make(tmp_path / "backup.tar")
    remains = database.parent / ".restore-abc"
    remains.mkdir()
    (remains / "database").write_bytes(b"x" * 100)
    assert restore(backup, actor="ana", force=True).fault == ""
    assert not remains.exists()


def test_a_folder_that_a_server_uses_is_not_touched(tmp_path: Path) -> None:
    lock = tmp_path / restoration.LOCK
    for owner, words in (('{"pid": 7, "address": "http://x"}', r"process 7 at http://x"), ("{", ""), ("[1]", "")):
        lock.write_text(owner)
        with lock.open("a") as server:
            fcntl.flock(server, fcntl.LOCK_EX)
            with pytest.raises(BackupError, match=f"A server uses .*{words}"), restoration.lock_folder(tmp_path):
                pytest.fail("it was entered")
    with restoration.lock_folder(tmp_path), pytest.raises(BackupError), restoration.lock_folder(tmp_path):
        pytest.fail("it was entered twice")
    with restoration.lock_folder(tmp_path):
        assert lock.read_text() == "[1]"  # the lock of a server that is gone stays as it was


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"store": "other"}, "is a backup of other, but the settings name"),
        (
            {"migrations": ["toolcards.9999_later"]},
            "newer Toolcards .9.9.*9999_later, which this version does not know",
        ),
        ({}, "--force replaces it"),
    ],
)
def test_a_backup_that_does_not_fit_says_why(database: Path, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(BackupError, match=reason):
        restoration._check_compatible(make_manifest(**changes), stores.get_store(), database, force=False)
    restoration._check_compatible(make_manifest(), stores.get_store(), database, force=True)


# ---------------------------------------------------------------- keys


@pytest.fixture
def backup_of_another_key(database: Path, tmp_path: Path, settings: Any, limits: Any) -> Path:
    """A backup with its key, which is another one than this server's."""
    limits(data_dir=database.parent, secret_key="")
    with restoration._use_key(OTHER_KEY):
        write_acts(Act("before"))
        path = make(tmp_path / "backup.tar", with_key=True)
    settings.SECRET_KEY = "own-key-0123456789abcdefghijklmnopqrstuvwxyz"
    (database.parent / "secret_key").write_text(settings.SECRET_KEY + "\n")
    return path


def test_without_the_right_key_nothing_is_restored(backup_of_another_key: Path, database: Path, limits: Any) -> None:
    before = list_files(database.parent)
    with pytest.raises(BackupError, match="Restore it with --with-key"):
        restore(backup_of_another_key, actor="ana", force=True)
    limits(secret_key="set")
    with pytest.raises(BackupError, match="TOOLCARDS_SECRET_KEY is set"):
        restore(backup_of_another_key, actor="ana", force=True, with_key=True)
    assert list_files(database.parent) == before and django_settings.SECRET_KEY.startswith("own-key")


@pytest.mark.parametrize("is_key_replaced", [False, True])
def test_a_fingerprint_refuses_a_changed_backup_that_was_sealed_again_by_a_key_inside(
    backup_of_another_key: Path, database: Path, tmp_path: Path, is_key_replaced: bool
) -> None:
    backup, key = backup_of_another_key, "a-third-key-0123456789abcdefghijklmn" if is_key_replaced else OTHER_KEY
    fingerprint = archive.check(backup).seal
    report = restore(backup, actor="ana", force=True, with_key=True, fingerprint=f" {fingerprint.upper()}\n")
    assert report.is_proven
    with tarfile.open(backup) as file:
        contents = {name: file.extractfile(name).read() for name in file.getnames()[1:]}  # type: ignore[union-attr]
    for name, content in contents.items():
        (tmp_path / name).write_bytes(key.encode() if name == archive.KEY else content)
    parts = {name: tmp_path / name for name in contents}
    with restoration._use_key(key):
        manifest = replace(
            archive.check(backup), made_at=1.0, key=get_key_id(), parts={n: archive.hash_file(parts[n]) for n in parts}
        )
    archive.write(backup, replace(manifest, seal=manifest.compute_seal(key)), parts)
    before = list_files(database.parent)
    with pytest.raises(BackupError, match="does not have this fingerprint"):
        restore(backup, actor="ana", force=True, with_key=True, fingerprint=fingerprint)
    assert list_files(database.parent) == before
    report = restore(backup, actor="ana", force=True, with_key=True, accept_broken_trail=True)
    assert not report.is_proven and bool(report.fault) is is_key_replaced


def test_a_key_that_is_replaced_is_kept_each_time(
    backup_of_another_key: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_path = database.parent / "secret_key"
    own_key = key_path.read_text()
    monkeypatch.setattr(stores, "format_stamp", iter(f"stamp-{number}" for number in range(9)).__next__)
    restore(backup_of_another_key, actor="ana", force=True, with_key=True)
    assert key_path.read_text().strip() == django_settings.SECRET_KEY == OTHER_KEY
    assert key_path.stat().st_mode & 0o777 == 0o600
    key_path.write_text("a third key\n")
    restore(backup_of_another_key, actor="ana", force=True, with_key=True)
    earlier_keys = [path.read_text() for path in sorted(database.parent.glob("secret_key.before-restore-*"))]
    assert earlier_keys == [own_key, "a third key\n"]


def test_a_restore_with_the_key_that_is_there_keeps_no_copy_of_it(backup_of_another_key: Path, database: Path) -> None:
    (database.parent / "secret_key").write_text(OTHER_KEY)  # without the end of its line
    restore(backup_of_another_key, actor="ana", force=True, with_key=True)
    assert not [*database.parent.glob("secret_key.before*")]


def test_a_backup_of_the_old_database_belongs_to_the_old_key(
    backup_of_another_key: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys: list[str] = []
    replace_files = stores.Sqlite.replace

    def note_key(store: stores.Sqlite, source: Path, old_database: str, back_up: Any) -> None:
        keys.append(archive.check(back_up(tmp_path / "old.tar")).key)  # as PostgreSQL's does
        replace_files(store, source, old_database, back_up)

    own_key = get_key_id()
    monkeypatch.setattr(stores.Sqlite, "replace", note_key)
    restore(backup_of_another_key, actor="ana", force=True, with_key=True)
    assert keys == [own_key] != [get_key_id()]


def test_a_database_that_cannot_be_replaced_leaves_the_key_that_it_needs(
    backup_of_another_key: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(store: stores.Sqlite, source: Path, old_database: str, back_up: Any) -> None:
        raise BackupError("the server of the database is away")

    before = list_files(database.parent)
    monkeypatch.setattr(stores.Sqlite, "replace", fail)
    with pytest.raises(BackupError, match="is away"):
        restore(backup_of_another_key, actor="ana", force=True, with_key=True)
    assert list_files(database.parent) == before and django_settings.SECRET_KEY.startswith("own-key")


def test_a_key_that_is_no_text_is_refused(database: Path, tmp_path: Path, limits: Any) -> None:
    limits(secret_key="")
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    manifest = make_manifest(parts={archive.KEY: archive.hash_file(tmp_path / "key")})
    backup = archive.write(tmp_path / "backup.tar", manifest, {archive.KEY: tmp_path / "key"})
    with pytest.raises(BackupError, match="its key is not text"):
        restoration._read_key(backup, database.parent, with_key=True)
