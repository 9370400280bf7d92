"""Does now what the server does once a minute: masks secrets of runs long ended for good, deletes what is too old."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand

from toolcards import gate
from toolcards.sources import capabilities


class Command(BaseCommand):
    """Rounds of retention until nothing is due."""

    help = "Mask the secrets of runs long ended for good, and delete runs that are too old (see docs/operations.md)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See Django."""
        parser.add_argument("--dry-run", action="store_true", help="say what is due, change nothing")

    def handle(self, *, dry_run: bool, **options: Any) -> None:
        """Go on round by round, and say how much that was."""
        scrubbed, refused, deleted, more = 0, 0, Counter[str](), True
        if not dry_run:
            capabilities.gather_expiring()
        while more:
            done = gate.run_retention(dry_run=dry_run)
            scrubbed, refused, deleted = scrubbed + done.scrubbed, refused + done.refused, deleted + done.deleted
            more = done.more and not dry_run
        would = "Would mask" if dry_run else "Masked"
        self.stdout.write(f"{would} the secrets of {scrubbed} runs; {refused} refused.")
        gone = ", ".join(f"{deleted[name]} {name}" for name in ("runs", "calls", "approvals", "events", "receipts"))
        self.stdout.write(f"{'Would delete' if dry_run else 'Deleted'} {gone}.")
        if dry_run and done.more:
            self.stdout.write("There is more; this is the first round.")
