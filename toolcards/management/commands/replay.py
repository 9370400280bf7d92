"""Rebuilds all cards from the log, or only compares."""

import argparse

from django.core.management.base import BaseCommand, CommandError

from toolcards import gate


class Command(BaseCommand):
    """Folds every run's log and puts right what is stored otherwise."""

    help = "Rebuild the cards from the log; with --check only compare."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take the one choice there is."""
        parser.add_argument("--check", action="store_true", help="only compare; exit with 1 if anything differs")

    def handle(self, *, check: bool, **options: object) -> None:
        """Do so, and say what differed."""
        faults = gate.rebuild(check=check)
        for fault in faults:
            self.stdout.write(fault)
        if check and faults:
            raise CommandError(f"{len(faults)} differences between the log and what is stored.")
        self.stdout.write("The log and the cards say the same." if not faults else f"Put right: {len(faults)}.")
