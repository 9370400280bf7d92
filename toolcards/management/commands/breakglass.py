"""Break-glass from the command line: asked calls pass for a while, and every one of them is written down."""

import argparse

from django.core.management.base import BaseCommand, CommandError

from toolcards import gate
from toolcards.gate import RequestRefused


class Command(BaseCommand):
    """Breaks the glass, or puts it back."""

    help = "Let calls pass that would be asked about, for a while (on), or end that (off). Denials stay."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take the position, the reason and the time."""
        parser.add_argument("position", choices=("on", "off"))
        parser.add_argument("--reason", default="", help="why; needed for on")
        parser.add_argument("--minutes", type=float, default=60, help="how long, at most 480 (60)")

    def handle(self, *, position: str, reason: str, minutes: float, **options: object) -> None:
        """Do as asked."""
        try:
            gate.break_glass("the command line", reason, minutes or -1 if position == "on" else 0, "command")
        except RequestRefused as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(f"Break-glass is {position}{f' for {minutes:g} minutes' if position == 'on' else ''}.")
