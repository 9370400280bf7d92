"""Encrypt stored texts with the current key, or count those that do not use it."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from toolcards import gate

EVERY = 50  # batches between two lines of progress


class Command(BaseCommand):
    """Works in small batches while the server runs; an interrupted run continues where it stopped."""

    help = "Re-encrypt data that uses an older key or none. With --check, only count it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See Django."""
        parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if work is left")
        parser.add_argument(
            "--batch", type=int, default=gate.RESEAL_BATCH, help="texts per transaction (default: %(default)s)"
        )

    def handle(self, *, check: bool, batch: int, **options: Any) -> None:
        """Re-encrypt or count, and report progress."""
        if not 1 <= batch <= 10_000:
            raise CommandError("--batch must be from 1 to 10000.")
        self._batches: Counter[str] = Counter()
        total = gate.reseal(check=check, batch=batch, watch=self._progress)
        stale = total["old"] + total["plain"]
        counts = f"{total['old']} with older keys, {total['plain']} not encrypted, {total['new']} with the current key"
        self.stdout.write(f"Checked {sum(total.values())} texts: {counts}.")
        if total["closed"]:
            self.stdout.write(f"No key decrypts {total['closed']} texts; they are unchanged.")
        if check and (stale or total["closed"]):
            raise CommandError(f"{stale + total['closed']} texts are not encrypted with the current key.")
        if not check:
            self.stdout.write(f"Re-encrypted: {stale}.")

    def _progress(self, name: str, counts: Counter[str]) -> None:
        self._batches[name] += 1
        if self._batches[name] % EVERY == 1:
            self.stdout.write(
                f"{name}: {sum(counts.values())} checked, {counts['old'] + counts['plain']} of them stale"
            )
            self.stdout.flush()
