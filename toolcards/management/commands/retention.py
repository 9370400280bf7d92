"""Mask secrets of ended runs and delete old runs now, as the server does once a minute."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand

from toolcards import gate
from toolcards.sources import capabilities


class Command(BaseCommand):
    """Runs retention until nothing is due."""

    help = "Mask the secrets of ended runs permanently, and delete old runs (see docs/operations.md)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """See Django."""
        parser.add_argument("--dry-run", action="store_true", help="only report what is due")

    def handle(self, *, dry_run: bool, **options: Any) -> None:
        """Run retention until nothing is due, and report totals."""
        masked_runs, refusals, deleted_rows, more = 0, 0, Counter[str](), True
        if not dry_run:
            capabilities.gather_expiring()
        while more:
            report = gate.run_retention(dry_run=dry_run)
            masked_runs, refusals = masked_runs + report.scrubbed, refusals + report.refusals
            deleted_rows, more = deleted_rows + report.deleted, report.more
            if more:
                self.stderr.write(f"{gate.count_due_runs()} runs are left.", self.style.SUCCESS)
        verb = "Would mask" if dry_run else "Masked"
        self.stdout.write(f"{verb} the secrets of {masked_runs} runs; {refusals} refused.")
        rows = ", ".join(
            f"{deleted_rows[name]} {name}" for name in ("runs", "calls", "approvals", "events", "receipts")
        )
        self.stdout.write(f"{'Would delete' if dry_run else 'Deleted'} {rows}.")
