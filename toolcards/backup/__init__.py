"""Backups: one file with the database and the anchor of its audit trail, and the way back.

Doors: `make`, `check`, `restore`, `clean_up`, `lock_folder`, `Manifest`, `BackupError`. A backup is a tar archive with
a manifest that names its version and the SHA-256 of each part. It is written next to its place, read again, and only
then renamed.
"""

from toolcards.backup.archive import BackupError, Manifest, check
from toolcards.backup.creation import make
from toolcards.backup.recovery import clean_up
from toolcards.backup.restoration import lock_folder, restore

__all__ = ["BackupError", "Manifest", "check", "clean_up", "lock_folder", "make", "restore"]
