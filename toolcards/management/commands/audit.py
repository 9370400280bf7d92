"""The audit trail from the command line: verify, export, print the anchor, accept the current end."""

import argparse
import json
import sys
from contextlib import suppress
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from toolcards.audit import anchor, copies, verification
from toolcards.audit.anchor import InvalidAnchor
from toolcards.audit.rows import AuditRow
from toolcards.audit.trail import Act, repair_head, write_acts


class Command(BaseCommand):
    """Verifies and exports the audit trail."""

    help = "Verify or export the audit trail."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the four actions."""
        actions = parser.add_subparsers(dest="action", required=True)
        check = actions.add_parser("verify", help="verify every row; report the first invalid one and exit with 1")
        check.add_argument(
            "--against", metavar="COPY", help="also compare with an external copy (- for standard input)"
        )
        export = actions.add_parser("export", help="write the rows as JSON Lines")
        export.add_argument("--after", type=int, default=0, help="only rows after this number")
        actions.add_parser("anchor", help="print the anchor, so that you can store it elsewhere")
        actions.add_parser(
            "reanchor", help="accept the current end of the trail after you replaced the database on purpose"
        )

    def handle(self, *, action: str, **options: object) -> None:
        """Run the action."""
        getattr(self, f"_{action}")(**options)

    def _verify(self, *, against: str | None = None, **options: object) -> None:
        finding = verification.verify_and_store()
        if finding.fault:
            raise CommandError(f"{finding.title}: {finding.fault}.", returncode=1)
        self.stdout.write(f"{finding.title}: {finding.rows} rows.")
        if against is not None:
            self._compare(against)

    def _compare(self, against: str) -> None:
        try:
            lines = (sys.stdin.read() if against == "-" else Path(against).read_text(errors="replace")).splitlines()
        except OSError as error:
            raise CommandError(f"The copy {against} cannot be read: {error.strerror}.", returncode=2) from error
        outcome = copies.compare_copies(lines)
        if outcome.faults:
            raise CommandError("The copy and the audit trail differ: " + "; ".join(outcome.faults) + ".", returncode=1)
        if not outcome.copies:
            raise CommandError(f"The copy {against} has no anchor and no row of an audit trail.", returncode=2)
        self.stdout.write(f"{outcome.copies} copies agree with it, the newest with row {outcome.newest}.")
        if outcome.earlier:
            self.stdout.write(f"{outcome.earlier} older copies do not: the trail was reanchored after them.")

    def _export(self, *, after: int, **options: object) -> None:
        for row in AuditRow.objects.filter(seq__gt=after).order_by("seq").iterator(chunk_size=2_000):
            content = row.content | {"detail": row.details, "key": row.key, "prev": row.prev, "hash": row.hash}
            self.stdout.write(json.dumps(content, separators=(",", ":")))

    def _anchor(self, **options: object) -> None:
        try:
            current = anchor.read()
        except InvalidAnchor as wrong:
            raise CommandError(f"The anchor {anchor.get_path()} {wrong}.", returncode=1) from wrong
        if current is None or not current.signed:
            raise CommandError("There is no signed anchor yet.", returncode=1)
        self.stdout.write(anchor.serialize_anchor(current))

    def _reanchor(self, **options: object) -> None:
        """Accept the current end; a new row records what was accepted."""
        finding, was = verification.verify(), {}
        with suppress(InvalidAnchor):
            before = anchor.read()
            was = {"seq": before.seq, "hash": before.hash, "line": before.line} if before else {}
        with transaction.atomic():
            row = repair_head()
            write_acts(Act("trail.reanchored", detail={"fault": finding.fault, "row": row, "anchor_was": was}))
        anchor.accept_end(AuditRow.objects.order_by("-seq").values_list("seq", "hash")[0])
        finding = verification.verify_and_store()
        if finding.fault:
            raise CommandError(f"Accepted, but {finding.title.lower()}: {finding.fault}.", returncode=1)
        self.stdout.write(f"The anchor is at row {finding.rows}.")
