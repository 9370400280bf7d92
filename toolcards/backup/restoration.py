"""Replace the database by a backup, and record the restore in its audit trail."""

from __future__ import annotations

import hmac
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import transaction
from django.db.migrations.loader import MigrationLoader

from toolcards.audit import anchor, verification
from toolcards.audit.anchor import Anchor, InvalidAnchor
from toolcards.audit.rows import AuditRow, get_key_id, list_key_ids
from toolcards.audit.trail import Act, repair_head, write_acts
from toolcards.backup import archive, recovery, stores
from toolcards.backup.archive import BackupError, Manifest
from toolcards.backup.creation import make
from toolcards.backup.recovery import SCRATCH

LOCK = "server.lock"
NO_ANCHOR = "the backup has no anchor that this server can trust"


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """The result of a restore."""

    manifest: Manifest
    old_database: str
    """Where the replaced database is, "" if there was none."""
    fault: str
    """What is wrong with the backup's own audit trail, "" if it is intact."""
    rows: int
    is_proven: bool
    """False if the backup contains the key of its own seal, and no fingerprint was given."""


def restore(
    path: Path,
    *,
    actor: str,
    force: bool = False,
    with_key: bool = False,
    accept_broken_trail: bool = False,
    accept_unsealed: bool = False,
    fingerprint: str = "",
) -> RestoreReport:
    """Replace the database by the backup; raises BackupError.

    An error leaves everything unchanged, unless the message states otherwise.
    """
    manifest, store = archive.check(path), stores.get_store()
    folder = Path(settings.TOOLCARDS.data_dir)
    with lock_folder(folder):
        if users := store.users():
            raise BackupError(f"The database is in use by {users}. Stop every server first.")
        with suppress(BackupError):  # PostgreSQL's is replaced as a whole by this one
            recovery.clean_up()
        _check_compatible(manifest, store, path, force=force)
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder) as scratch:
            source = Path(scratch) / archive.DATABASE
            archive.unpack(path, archive.DATABASE, source)
            key = _read_key(path, Path(scratch), with_key=with_key)
            with _use_key(key):
                _check_key(path, manifest)
                _check_seal(path, manifest, accept_unsealed=accept_unsealed)
                _check_fingerprint(path, manifest, fingerprint)
                before = _read_anchor(path, manifest, Path(scratch))
            old_database = store.choose_place()
            with _use_key(key):
                new_key = get_key_id()
            recovery.begin(path, old_database, new_key if new_key != get_key_id() else "")
            try:
                store.replace(source, old_database, make)  # a backup of the old database belongs to the old key
                with _use_key(key):
                    call_command("migrate", interactive=False, verbosity=0)
                    fault = _find_fault(before)
                if fault and fault != NO_ANCHOR and not accept_broken_trail:
                    store.put_back(old_database)
                    recovery.end()
                    hint = "--accept-broken-trail restores it nevertheless."
                    raise BackupError(f"The audit trail of {path} is not intact: {fault}. Nothing was changed. {hint}")
                with _use_key(key):
                    _record_restore(manifest, before, fault, actor=actor)
                if key:
                    _put_key(key, Path(scratch), folder)
            except BaseException:
                with suppress(BackupError):  # PostgreSQL's note stays: the next start says what to do
                    recovery.undo()
                raise
            recovery.end()
        is_proven = bool(fingerprint) or archive.KEY not in manifest.parts
        return RestoreReport(manifest, old_database, fault, verification.verify_and_store().rows, is_proven)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the data directory; raises BackupError if a server uses it."""
    try:
        import fcntl
    except ImportError:  # Windows has none
        yield
        return
    with (folder / LOCK).open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            server = ""
            with suppress(ValueError, KeyError, TypeError):
                owner = json.load(lock)
                server = f" (process {owner['pid']} at {owner['address']})"
            raise BackupError(f"A server uses {folder}{server}. Stop it first.") from None
        yield


def _check_compatible(manifest: Manifest, store: stores.Store, path: Path, *, force: bool) -> None:
    if manifest.store != store.name:
        raise BackupError(f"{path} is a backup of {manifest.store}, but the settings name a {store.name} database.")
    migrations = {f"{app}.{name}" for app, name in MigrationLoader(None, ignore_no_migrations=True).disk_migrations}
    newer = [name for name in manifest.migrations if name not in migrations]
    if newer:
        reason = f"it has {', '.join(newer)}, which this version does not know"
        raise BackupError(f"{path} was made by a newer Toolcards ({manifest.version}): {reason}. Install that version.")
    if store.exists() and not force:
        raise BackupError("A database already exists. --force replaces it and keeps the old one.")


def _read_key(path: Path, scratch: Path, *, with_key: bool) -> str:
    """Return the backup's key if `with_key`, else ""."""
    if not with_key:
        return ""
    if settings.TOOLCARDS.secret_key:
        raise BackupError("TOOLCARDS_SECRET_KEY is set, so a key in the backup would not be used. Unset it first.")
    archive.unpack(path, archive.KEY, scratch / archive.KEY)
    try:
        return (scratch / archive.KEY).read_text().strip()
    except UnicodeDecodeError as error:
        raise BackupError(f"{path} is damaged: its key is not text.") from error


@contextmanager
def _use_key(key: str) -> Iterator[None]:
    """Use this key instead of the server's own for a moment; "" for its own."""
    own_key = settings.SECRET_KEY
    settings.SECRET_KEY = key or own_key
    try:
        yield
    finally:
        settings.SECRET_KEY = own_key


def _check_key(path: Path, manifest: Manifest) -> None:
    if manifest.key not in list_key_ids():
        hint = (
            "Restore it with --with-key." if archive.KEY in manifest.parts else "Set TOOLCARDS_SECRET_KEY to that key."
        )
        raise BackupError(
            f"The secret key that {path} was made with is missing. Without it, encrypted data cannot be read. {hint}"
        )


def _check_seal(path: Path, manifest: Manifest, *, accept_unsealed: bool) -> None:
    """Refuse a manifest that no key of this server sealed: its checksums prove nothing."""
    if not manifest.seal:
        if accept_unsealed:
            return
        hint = "If you know where it was since, --accept-unsealed restores it."
        raise BackupError(f"{path} was made by Toolcards {manifest.version}, which did not seal backups. {hint}")
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    if not any(hmac.compare_digest(manifest.compute_seal(secret), manifest.seal) for secret in secrets):
        raise BackupError(f"{path} was changed after it was made: the seal of its manifest does not match.")


def _check_fingerprint(path: Path, manifest: Manifest, fingerprint: str) -> None:
    """Refuse another backup than the one with this fingerprint, if there is one."""
    expected_seal = fingerprint.strip().lower() or manifest.seal
    if not hmac.compare_digest(expected_seal.encode(), manifest.seal.encode()):
        raise BackupError(f"{path} does not have this fingerprint: it was changed, or is another backup.")


def _put_key(key: str, scratch: Path, folder: Path) -> None:
    """Put the key into its file from now on; another key that is there is kept."""
    target = folder / "secret_key"
    if target.exists() and target.read_bytes().strip() != key.encode():
        kept_key = target.with_name(f"secret_key.before-restore-{stores.format_stamp()}")
        shutil.copy2(target, kept_key)  # the file is never missing: a server that is started then would make a new key
    (scratch / archive.KEY).replace(target)
    settings.SECRET_KEY = key


def _read_anchor(path: Path, manifest: Manifest, scratch: Path) -> Anchor | None:
    """Return the backup's anchor, None if it has none that this server signed."""
    if archive.ANCHOR not in manifest.parts:
        return None
    archive.unpack(path, archive.ANCHOR, scratch / archive.ANCHOR)
    with suppress(InvalidAnchor, UnicodeDecodeError):
        return anchor.parse_anchor((scratch / archive.ANCHOR).read_text())
    return None


def _record_restore(manifest: Manifest, before: Anchor | None, fault: str, *, actor: str) -> None:
    """Record the restore in the trail, and begin a new line of anchors."""
    replaced_anchor: dict[str, object] = {}
    with suppress(InvalidAnchor):
        current = anchor.read()
        replaced_anchor = {"seq": current.seq, "hash": current.hash, "line": current.line} if current else {}
    with transaction.atomic():
        row = repair_head()
        detail = {
            "backup_made_at": round(manifest.made_at * 1000), "backup_version": manifest.version, "row": row,
            "anchor_was": replaced_anchor, "fault": fault,
        }  # fmt: skip
        write_acts(Act("trail.restored", kind="command", name=actor, detail=detail))
    line = before.line if before else 0
    anchor.follow_line(line)  # copies outside may have the backup's line: the new one follows both
    anchor.accept_end(AuditRow.objects.order_by("-seq").values_list("seq", "hash")[0])


def _find_fault(before: Anchor | None) -> str:
    """Return the faults of the restored trail at the time of the backup, or ""."""
    finding = verification.verify()
    if finding.kind == "broken":
        return finding.fault
    if before is None:
        return NO_ANCHOR
    is_in_table = not before.seq or AuditRow.objects.filter(seq=before.seq, hash=before.hash).exists()
    return "" if is_in_table else f"row {before.seq}, which the backup's anchor names, is missing"
