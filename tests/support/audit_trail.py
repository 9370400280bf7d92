"""An audit trail, and what an attacker does to it."""

from __future__ import annotations

from django.db import connection

from toolcards.audit import anchor
from toolcards.audit.rows import AuditHead, AuditRow
from toolcards.audit.trail import Act, write_acts


def sql(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def cut(keep: int) -> None:
    """Remove the rows after that one, and set the head back, as an attacker who knows the tables does."""
    sql(f"DELETE FROM toolcards_auditrow WHERE seq > {keep}")
    end = AuditRow.objects.filter(seq=keep).values_list("seq", "hash").first() or (0, anchor.GENESIS)
    AuditHead.objects.filter(pk=1).update(seq=end[0], hash=end[1])


def restarted() -> None:
    """Nothing that this process has seen is remembered, as after a start."""
    if anchor._process.timer is not None:
        anchor._process.timer.cancel()
    anchor._process = anchor._Process()


def committed() -> None:
    """What `on_commit` does, which never comes in a test's transaction."""
    head = AuditHead.objects.get(pk=1)
    anchor.note_end(head.seq, head.hash)


def write_five_acts() -> None:
    """Five rows, and the anchor at the fifth; the process has started again since."""
    for number in range(5):
        write_acts(Act(f"act {number}"))
    committed()
    anchor.write()
    restarted()


def acts() -> list[str]:
    return list(AuditRow.objects.values_list("act", flat=True))


def read_last(act: str) -> AuditRow:
    return AuditRow.objects.filter(act=act).latest("seq")
