"""Rebuild all cards from the log, or only compare them."""

import argparse

from django.core.management.base import BaseCommand, CommandError

from toolcards import gate


class Command(BaseCommand):
    """Compares the cards with the log and repairs differences."""

    help = "Rebuild the cards from the log; with --check only compare."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the option."""
        parser.add_argument("--check", action="store_true", help="only compare; exit with 1 if anything differs")

    def handle(self, *, check: bool, **options: object) -> None:
        """Compare, and print the differences."""
        faults = gate.rebuild(check=check)
        for fault in faults:
            self.stdout.write(fault)
        if check and faults:
            raise CommandError(f"{len(faults)} differences between the log and the stored cards.")
        self.stdout.write("The log and the cards agree." if not faults else f"Repaired: {len(faults)}.")
