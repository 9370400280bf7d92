"""Expire approvals and permits, and end lost runs, once."""

from django.core.management.base import BaseCommand

from toolcards import gate


class Command(BaseCommand):
    """One sweep."""

    help = "Expire overdue approvals and permits and end lost runs, once. A running server does this by itself."

    def handle(self, **options: object) -> None:
        """Sweep, and report the number."""
        self.stdout.write(f"Expired or ended: {gate.sweep()}.")
