"""Make a backup while the server runs."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from toolcards import backup


class Command(BaseCommand):
    """Makes a backup."""

    help = "Write the database and the audit trail's anchor into one file; the server may run."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the file and the options."""
        parser.add_argument("path", type=Path, help="the file to write; in a folder, a file named after the time")
        parser.add_argument(
            "--with-key", action="store_true", help="also write the secret key: the file alone then opens everything"
        )
        parser.add_argument("--check", action="store_true", help="only read the file, and compare its checksums")

    def handle(self, *, path: Path, with_key: bool, check: bool, **options: Any) -> None:
        """Make or check the backup, and describe it."""
        try:
            file = path if check else backup.make(path, with_key=with_key)
            manifest = backup.check(file)
        except backup.BackupError as error:
            raise CommandError(str(error)) from error
        if "secret_key" in manifest.parts:
            self.stderr.write("This file holds the secret key: anyone who reads it reads everything. Keep it apart.")
        size = file.stat().st_size
        self.stdout.write(f"{file}: {manifest.store}, Toolcards {manifest.version}, {size} bytes, checksums right.")
