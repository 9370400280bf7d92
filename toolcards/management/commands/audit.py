"""The audit trail from the command line: verify it, export it, anchor it anew."""

import argparse
import json

from django.core.management.base import BaseCommand, CommandError

from toolcards import anchor
from toolcards.records import Act, AuditHead, AuditRow, write
from toolcards.verify import check


class Command(BaseCommand):
    """Verifies and exports the audit trail."""

    help = "Verify or export the audit trail."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Take one of three actions."""
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("verify", help="check every row; exit 1 and name the first that is wrong")
        export = actions.add_parser("export", help="write the rows as JSON Lines")
        export.add_argument("--after", type=int, default=0, help="only rows after this number")
        actions.add_parser("reanchor", help="after the database was replaced on purpose: note its end as the true one")

    def handle(self, *, action: str, **options: object) -> None:
        """Do as asked."""
        getattr(self, f"_{action}")(**options)

    def _verify(self, **options: object) -> None:
        found = check()
        if found.fault:
            raise CommandError(f"The audit trail is broken: {found.fault}.", returncode=1)
        self.stdout.write(f"The audit trail is whole: {found.rows} rows.")

    def _export(self, *, after: int, **options: object) -> None:
        for row in AuditRow.objects.filter(seq__gt=after).order_by("seq").iterator(chunk_size=2_000):
            said = row.said | {"detail": row.details, "key": row.key, "prev": row.prev, "hash": row.hash}
            self.stdout.write(json.dumps(said, separators=(",", ":")))

    def _reanchor(self, **options: object) -> None:
        anchor.forget()
        write(Act("trail.reanchored"))
        anchor.write()
        self.stdout.write(f"The anchor is at row {AuditHead.objects.get(pk=1).seq}.")
