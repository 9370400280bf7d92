"""The kill switch from the command line: on, off, or how it stands."""

import argparse

from django.core.management.base import BaseCommand

from toolcards import gate
from toolcards.gate import emergency


class Command(BaseCommand):
    """Stops every tool call, or lets the policy judge again."""

    help = "Stop every tool call (on), or let the policy judge calls again (off)."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take the position."""
        parser.add_argument("position", choices=("on", "off", "status"))
        parser.add_argument("--reason", default="", help="why, for the audit trail")

    def handle(self, *, position: str, reason: str, **options: object) -> None:
        """Throw it."""
        if position != "status":
            said = gate.set_kill_switch("the command line", position == "on", reason, "command")
            count = said.get("stopped", 0)
            stopped = f" {count} open {'call was' if count == 1 else 'calls were'} denied." if said["on"] else ""
            self.stdout.write(f"The kill switch is {position}.{stopped}")
            return
        row = emergency.get_active_kill_switch()
        self.stdout.write(f"The kill switch is on: {row.reason}" if row else "The kill switch is off.")
