"""Restore a backup while no server runs."""

import getpass
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from toolcards import backup


class Command(BaseCommand):
    """Restores a backup."""

    help = "Replace the database with a backup and record that in the audit trail. Stop all servers first."
    requires_system_checks = ()  # the database may be missing or damaged

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the file and the options."""
        parser.add_argument("path", type=Path, help="a file from `toolcards backup`")
        parser.add_argument("--force", action="store_true", help="replace an existing database and keep the old one")
        parser.add_argument(
            "--by", dest="actor", default="", help="your name for the audit trail (default: the system user)"
        )
        parser.add_argument("--with-key", action="store_true", help="also restore the secret key from the backup")
        parser.add_argument(
            "--accept-broken-trail", action="store_true", help="restore a backup whose audit trail is not intact"
        )
        parser.add_argument(
            "--accept-unsealed", action="store_true", help="restore a backup of a version that did not seal backups"
        )
        parser.add_argument(
            "--fingerprint", default="", help="restore only the backup for which `toolcards backup` printed this"
        )

    def handle(
        self, *, path: Path, force: bool, actor: str, with_key: bool, accept_broken_trail: bool, accept_unsealed: bool,
        fingerprint: str, **options: Any,
    ) -> None:  # fmt: skip
        """Restore, and report the result."""
        try:
            report = backup.restore(
                path, actor=actor or _get_user_name(), force=force, with_key=with_key,
                accept_broken_trail=accept_broken_trail, accept_unsealed=accept_unsealed,
                fingerprint=fingerprint,
            )  # fmt: skip
        except backup.BackupError as error:
            raise CommandError(str(error)) from error
        made_at = datetime.fromtimestamp(report.manifest.made_at, UTC).isoformat(timespec="seconds")
        self.stdout.write(f"Restored the backup of {made_at} (Toolcards {report.manifest.version}).")
        if report.old_database:
            self.stdout.write(f"The old database is in {report.old_database}.")
        if report.fault:
            self.stderr.write(f"The backup's audit trail is not intact: {report.fault}.")
        if not report.is_proven:
            self.stderr.write(
                "The backup contains the key of its own seal, so nothing proves that it was not changed. "
                "The --fingerprint that `toolcards backup` printed would."
            )
        self.stdout.write(f"Row {report.rows} of the audit trail records the restore, and the anchor is at that row.")
        self.stdout.write("Changes since the backup are undone: check people, agent keys and policy.")


def _get_user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        return "unknown"
