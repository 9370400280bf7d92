"""Make a backup while the server runs."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from toolcards import backup


class Command(BaseCommand):
    """Makes a backup."""

    help = "Back up the database and the audit trail's anchor to one file. The server can keep running."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the file and the options."""
        parser.add_argument(
            "path", type=Path, help="the file to write, or a folder for a file that is named after the time"
        )
        parser.add_argument(
            "--with-key",
            action="store_true",
            help="include the secret key: the file alone is then enough to decrypt everything",
        )
        parser.add_argument("--check", action="store_true", help="only read the file and verify its checksums")

    def handle(self, *, path: Path, with_key: bool, check: bool, **options: Any) -> None:
        """Make or check the backup, and describe it."""
        try:
            file = path if check else backup.make(path, with_key=with_key)
            manifest = backup.check(file)
        except backup.BackupError as error:
            raise CommandError(str(error)) from error
        if "secret_key" in manifest.parts:
            self.stderr.write(
                "This file contains the secret key: anyone who reads it can decrypt everything, and can change it and "
                "seal it again. Store it safely, and the fingerprint elsewhere: `restore --fingerprint` compares it."
            )
        size = file.stat().st_size
        self.stdout.write(f"{file}: {manifest.store}, Toolcards {manifest.version}, {size} bytes, checksums OK.")
        if with_key:
            self.stdout.write(f"Fingerprint: {manifest.seal}")
