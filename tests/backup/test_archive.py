"""The backup file: complete and whole, or refused with the reason."""

from __future__ import annotations

import io
import json
import os
import tarfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.tables import loop_over
from toolcards.backup import archive
from toolcards.backup.archive import DATABASE, MANIFEST, BackupError, Manifest

MANIFEST_OF_NOTHING = Manifest("1.0", 1_700_000_000.0, "sqlite", ["toolcards.0001"], "key", {})


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup with one part of some pieces."""
    part = tmp_path / "part"
    part.write_bytes(os.urandom(3_000_000))
    manifest = replace(MANIFEST_OF_NOTHING, parts={DATABASE: archive.hash_file(part)})
    return archive.write(tmp_path / "backup.tar", manifest, {DATABASE: part})


def write_archive(path: Path, **members: bytes) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name.replace("__", "."))
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def write_manifest(path: Path, manifest: Any, **members: bytes) -> Path:
    return write_archive(path, manifest__json=json.dumps(manifest).encode(), **members)


def test_a_backup_is_private_whole_and_gives_its_part_back(backup: Path, tmp_path: Path) -> None:
    assert archive.check(backup).parts == {DATABASE: archive.hash_file(tmp_path / "part")}
    archive.unpack(backup, DATABASE, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "part").read_bytes()
    assert backup.stat().st_mode & 0o777 == (tmp_path / "out").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        archive.unpack(backup, DATABASE, tmp_path / "out")  # nothing is overwritten


@loop_over("place", [100, 3_000, 2_000_000, -1_000_000])
def test_a_changed_byte_of_a_part_or_of_the_archive_shows(backup: Path, place: int) -> None:
    whole = backup.read_bytes()
    changed = bytearray(whole)
    changed[place] ^= 1
    backup.write_bytes(changed)
    try:
        with pytest.raises(BackupError, match=r"damaged|manifest cannot be read|not a backup"):
            archive.check(backup)
    finally:
        backup.write_bytes(whole)


@loop_over("size", [0, 1, 511, 512, 700, 2_000, 1_000_000, 2_999_000])
def test_a_file_that_was_cut_off_is_refused(backup: Path, size: int) -> None:
    whole = backup.read_bytes()
    backup.write_bytes(whole[:size])
    try:
        with pytest.raises(BackupError):
            archive.check(backup)
    finally:
        backup.write_bytes(whole)


GOOD = asdict(MANIFEST_OF_NOTHING)


@loop_over(
    "manifest",
    [
        None, [], "x", 1, {}, {"format": 1}, {"format": "1"}, {"format": None}, GOOD | {"more": 1},
        GOOD | {"parts": []}, GOOD | {"parts": None}, GOOD | {"parts": {"database": 1}}, GOOD | {"migrations": "x"},
        GOOD | {"migrations": [1]}, GOOD | {"made_at": "today"}, GOOD | {"made_at": float("nan")},
        GOOD | {"made_at": 1e300}, GOOD | {"made_at": -1}, GOOD | {"version": 1}, GOOD | {"store": None},
        GOOD | {"key": ["a"]},
    ],
)  # fmt: skip
def test_a_manifest_of_another_shape_is_refused(tmp_path: Path, manifest: Any) -> None:
    with pytest.raises(BackupError, match="manifest cannot be read"):
        archive.check(write_manifest(tmp_path / "backup.tar", manifest))


def test_a_backup_of_a_later_format_names_its_version(tmp_path: Path) -> None:
    path = write_manifest(tmp_path / "backup.tar", {"format": 2, "version": "9.9", "anything": "else"})
    with pytest.raises(BackupError, match=r"made by Toolcards 9\.9\. Install that version"):
        archive.check(path)


def test_what_is_no_archive_of_ours_is_named(tmp_path: Path, backup: Path) -> None:
    with pytest.raises(BackupError, match=r"it has no manifest\.json"):
        archive.check(write_archive(tmp_path / "other.tar", x=b"1"))
    with pytest.raises(BackupError, match="it has no database"):
        archive.check(write_manifest(tmp_path / "other.tar", GOOD | {"parts": {DATABASE: "0"}}))
    with pytest.raises(BackupError, match="manifest cannot be read"):
        archive.check(write_archive(tmp_path / "other.tar", manifest__json=b"{" * 100_000))
    with pytest.raises(BackupError, match="cannot be read: Is a directory"):
        archive.check(tmp_path)
    with pytest.raises(BackupError, match="it has no secret_key"):
        archive.unpack(backup, archive.KEY, tmp_path / "key")


def test_a_link_in_an_archive_gives_no_file_of_this_computer(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    path = tmp_path / "backup.tar"
    with tarfile.open(path, "w") as tar:
        entry = tarfile.TarInfo(MANIFEST)
        entry.type, entry.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
        tar.addfile(entry)
    with pytest.raises(BackupError, match=r"it has no manifest\.json"):
        archive.check(path)


def test_a_part_that_changes_while_it_is_written_is_no_backup(tmp_path: Path, backup: Path) -> None:
    whole = backup.read_bytes()
    manifest = replace(MANIFEST_OF_NOTHING, parts={DATABASE: "0" * 64})
    with pytest.raises(BackupError, match="does not match its checksum"):
        archive.write(backup, manifest, {DATABASE: tmp_path / "part"})
    assert backup.read_bytes() == whole and sorted(path.name for path in tmp_path.iterdir()) == ["backup.tar", "part"]


def test_a_file_is_replaced_only_by_a_complete_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(KeyError), archive.replace_when_complete(path) as draft:
        draft.write_text("half")
        assert draft.parent == tmp_path and draft.stat().st_mode & 0o777 == 0o600
        raise KeyError
    with pytest.raises(BackupError, match="cannot be written: No space left"), archive.replace_when_complete(path):
        raise OSError(28, "No space left on device")
    assert path.read_text() == "before" and [*tmp_path.iterdir()] == [path]
    with archive.replace_when_complete(path) as draft:
        draft.write_text("after")
    assert path.read_text() == "after" and [*tmp_path.iterdir()] == [path]
    with pytest.raises(BackupError, match="cannot be written"), archive.replace_when_complete(tmp_path / "a" / "b"):
        pass


def test_a_sparse_part_is_refused(tmp_path: Path, backup: Path) -> None:
    """A few bytes of an archive can be gigabytes of a file."""
    with tarfile.open(backup) as old_file:
        manifest = old_file.extractfile("manifest.json")
        assert manifest is not None
        text = manifest.read()
    with tarfile.open(backup, "w", format=tarfile.PAX_FORMAT) as file:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(text)
        file.addfile(entry, io.BytesIO(text))
        part = tarfile.TarInfo("database")
        part.size = 512
        part.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40)}
        file.addfile(part, io.BytesIO(b"1\n0\n0\n".ljust(512, b"\0")))
    with pytest.raises(BackupError, match="it has no database"):
        archive.check(backup)
