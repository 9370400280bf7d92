"""Put a backup in the database's place, while no server runs."""

import getpass
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from toolcards import backup


class Command(BaseCommand):
    """Restores a backup."""

    help = "Replace the database by a backup, and write that into the audit trail; no server may run."
    requires_system_checks = ()  # the database may be missing or damaged

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the file, and what may be replaced."""
        parser.add_argument("path", type=Path, help="what `toolcards backup` wrote")
        parser.add_argument("--force", action="store_true", help="replace the database that is there; it is kept aside")
        parser.add_argument("--by", default="", help="who restores, for the audit trail (default: the system user)")
        parser.add_argument("--with-key", action="store_true", help="also use the secret key that the backup holds")

    def handle(self, *, path: Path, force: bool, by: str, with_key: bool, **options: Any) -> None:
        """Restore, and say what came of it."""
        try:
            done = backup.restore(path, by=by or _user(), force=force, with_key=with_key)
        except backup.BackupError as error:
            raise CommandError(str(error)) from error
        made = datetime.fromtimestamp(done.manifest.made_at, UTC).isoformat(timespec="seconds")
        self.stdout.write(f"Restored the backup of {made} (Toolcards {done.manifest.version}).")
        if done.kept:
            self.stdout.write(f"What was there before is kept in {done.kept}.")
        if done.fault:
            self.stderr.write(f"The backup's audit trail is not whole: {done.fault}.")
        self.stdout.write(f"The audit trail says so in row {done.rows}, and its anchor is there.")
        self.stdout.write("Changes since the backup are undone: look through people, agent keys and policy.")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        return "unknown"
