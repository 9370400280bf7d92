"""The kill switch from the command line: on, off, or status."""

import argparse

from django.core.management.base import BaseCommand

from toolcards import gate
from toolcards.gate import emergency


class Command(BaseCommand):
    """Stops every tool call, or lets the policy decide again."""

    help = "Stop every tool call (on), or let the policy decide again (off)."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("position", choices=("on", "off", "status"))
        parser.add_argument("--reason", default="", help="the reason, for the audit trail")

    def handle(self, *, position: str, reason: str, **options: object) -> None:
        """Set the switch, or print its state."""
        if position != "status":
            result = gate.set_kill_switch("the command line", position == "on", reason, "command")
            number = result.get("stopped", 0)
            denial_note = (
                f" {number} open {'call was' if number == 1 else 'calls were'} denied." if result["on"] else ""
            )
            self.stdout.write(f"The kill switch is {position}.{denial_note}")
            return
        row = emergency.get_active_kill_switch()
        reason = f": {row.reason}" if row and row.reason else "."
        self.stdout.write(f"The kill switch is {'on' if row else 'off'}{reason}")
