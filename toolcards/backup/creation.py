"""Make a backup, while servers run."""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from toolcards import __version__
from toolcards.audit import anchor
from toolcards.audit.rows import get_key_id
from toolcards.backup import archive, stores
from toolcards.backup.archive import BackupError, Manifest


def make(path: Path, *, with_key: bool = False) -> Path:
    """Write a backup to a file or folder; return its path."""
    if path.is_dir():
        path = path / time.strftime("toolcards-%Y%m%d-%H%M%S.tar", time.gmtime())
    if not path.parent.is_dir():
        raise BackupError(f"Folder not found: {path.parent}.")
    store, made_at = stores.get_store(), time.time()
    if not store.exists():
        raise BackupError("There is no database yet, so there is nothing to back up.")
    try:
        # Next to the backup: there must be room for it there anyway.
        with tempfile.TemporaryDirectory(prefix=".toolcards-backup-", dir=path.parent) as folder:
            parts = _write_parts(store, Path(folder), with_key=with_key)
            digests = {name: archive.hash_file(part) for name, part in parts.items()}
            manifest = Manifest(__version__, made_at, store.name, list_migrations(), get_key_id(), digests)
            manifest = replace(manifest, seal=manifest.compute_seal(settings.SECRET_KEY))
            return archive.write(path, manifest, parts)
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror or error}.") from error


def list_migrations() -> list[str]:
    """Return the newest applied migration of each app."""
    newest: dict[str, str] = {}
    for app, name in MigrationRecorder(connection).applied_migrations():
        newest[app] = max(name, newest.get(app, ""))
    return [f"{app}.{name}" for app, name in sorted(newest.items())]


def _write_parts(store: stores.Store, folder: Path, *, with_key: bool) -> dict[str, Path]:
    """Write the parts into the folder. The anchor is written first, so that it names no rows that the copy lacks."""
    parts = {archive.DATABASE: folder / archive.DATABASE}
    with suppress(FileNotFoundError):
        text = anchor.get_path().read_bytes()
        parts[archive.ANCHOR] = folder / archive.ANCHOR
        parts[archive.ANCHOR].write_bytes(text)
    if with_key:
        parts[archive.KEY] = folder / archive.KEY
        parts[archive.KEY].write_text(settings.SECRET_KEY + "\n")
    store.copy(parts[archive.DATABASE])
    return parts
