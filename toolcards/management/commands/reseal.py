"""Seals anew, under today's key, what is kept under older keys or in the clear; or counts it."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from toolcards import gate

EVERY = 50  # batches between two lines of progress


class Command(BaseCommand):
    """Works in small batches beside a running server; interrupted, it goes on where it was."""

    help = "Re-encrypt with the current key what older keys encrypted; with --check only count it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See Django."""
        parser.add_argument(
            "--check", action="store_true", help="change nothing; exit with 1 if anything is left to do"
        )
        parser.add_argument("--batch", type=int, default=gate.RESEAL_BATCH, help="texts a transaction (%(default)s)")

    def handle(self, *, check: bool, batch: int, **options: Any) -> None:
        """Do so, with a line now and then."""
        if not 1 <= batch <= 10_000:
            raise CommandError("A batch has 1 to 10000 texts.")
        self._batches: Counter[str] = Counter()
        total = gate.reseal(check=check, batch=batch, watch=self._progress)
        left = total["old"] + total["plain"]
        said = f"{total['old']} under older keys, {total['plain']} in the clear, {total['new']} under today's key"
        self.stdout.write(f"Looked at {sum(total.values())} texts: {said}.")
        if total["closed"]:
            self.stdout.write(f"No key opens {total['closed']}: they stay as they are.")
        if check and (left or total["closed"]):
            raise CommandError(f"{left + total['closed']} texts are not sealed under today's key.")
        if not check:
            self.stdout.write(f"Re-encrypted: {left}.")

    def _progress(self, name: str, seen: Counter[str]) -> None:
        self._batches[name] += 1
        if self._batches[name] % EVERY == 1:
            self.stdout.write(f"{name}: {sum(seen.values())} looked at, {seen['old'] + seen['plain']} of them stale")
            self.stdout.flush()
