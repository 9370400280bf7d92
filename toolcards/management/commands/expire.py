"""Does once what the server does by the clock: expires approvals and permits, gives up lost runs."""

from django.core.management.base import BaseCommand

from toolcards import gate


class Command(BaseCommand):
    """One sweep."""

    help = "Expire what is due and give up lost runs, once; a running server does so by itself."

    def handle(self, **options: object) -> None:
        """Sweep, and say how much that was."""
        self.stdout.write(f"Due: {gate.sweep()}.")
