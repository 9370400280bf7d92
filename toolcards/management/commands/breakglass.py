"""Break-glass from the command line: calls need no approval for a while, and each is recorded."""

import argparse

from django.core.management.base import BaseCommand, CommandError

from toolcards import gate
from toolcards.gate import RequestRefused


class Command(BaseCommand):
    """Turns break-glass on or off."""

    help = "Temporarily let calls through that would need approval (on), or stop that (off). Denials still apply."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("position", choices=("on", "off"))
        parser.add_argument("--reason", default="", help="the reason; required for on")
        parser.add_argument("--minutes", type=float, default=60, help="the duration, at most 480 (default: 60)")

    def handle(self, *, position: str, reason: str, minutes: float, **options: object) -> None:
        """Turn it on or off."""
        try:
            gate.break_glass("the command line", reason, minutes or -1 if position == "on" else 0, "command")
        except RequestRefused as refused:
            raise CommandError(refused.message) from refused
        self.stdout.write(f"Break-glass is {position}{f' for {minutes:g} minutes' if position == 'on' else ''}.")
