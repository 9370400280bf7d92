"""Acts in other tables that must have a row in the audit trail.

They remain if the trail and its anchor are deleted: votes, policy versions and keys, which are written in one
transaction with a row of the trail, and the counters of their tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.models import Max, Min, Q
from django.utils import timezone

from toolcards.audit.rows import AuditRow
from toolcards.core.calls.facts import PolicyDecided

MAX_ROWS = 200  # of the oldest, and of the newest, of each kind
MAX_EVENTS = 20_000  # of the oldest, and of the newest
RECENT_SECONDS = 60.0  # seconds: rows of the transaction that writes the first act


@dataclass(frozen=True, slots=True)
class WitnessTable:
    """A table, its column with the time of the act (a date, or epoch seconds), the act's name and a word for people."""

    model: str
    moment: str
    act: str
    word: str


COUNTED_TABLES = (
    WitnessTable("AgentKey", "created_at", "key.created", "agent key"),
    WitnessTable("PolicyVersion", "created_at", "policy.activated", "policy version"),
    WitnessTable("KillSwitch", "at", "killswitch.", "kill switch change"),
    WitnessTable("BreakGlass", "at", "breakglass.on", "break-glass use"),
)
VOTES = WitnessTable("Vote", "at", "vote", "vote")


def find_earlier_use(recent: float) -> str:
    """Return evidence that the database was in use earlier, "" for none.

    `recent`: seconds before now that do not count.
    """
    return ", ".join(filter(None, (_count_earlier_use(kind, recent) for kind in (*COUNTED_TABLES, VOTES))))


def _count_earlier_use(kind: WitnessTable, recent: float) -> str:
    rows = _get_rows(kind)
    total = rows.count()
    new_rows = rows.filter(**_build_time_filter(kind, timezone.now().timestamp() - recent)).count()
    highest_number = _read_counter(rows.model)
    if total == new_rows and highest_number <= total:
        return ""
    return _format_count(max(total, highest_number), kind.word)


def find_unrecorded_acts(start: float) -> str:
    """Return the acts without a row, "" for none.

    `start` is in epoch seconds; earlier acts do not count.
    """
    return ", ".join(
        filter(
            None,
            (
                *(_count_missing_rows(kind, start) for kind in COUNTED_TABLES),
                _count_unrecorded_votes(start),
                _count_unrecorded_decisions(start),
            ),
        )
    )


def _count_missing_rows(kind: WitnessTable, start: float) -> str:
    """Compare numbers: each row of the table was created with a row in the trail, which is never deleted."""
    total = _get_rows(kind).filter(**_build_time_filter(kind, start)).count()
    recorded_rows = AuditRow.objects.filter(act__startswith=kind.act, at__gte=(start - 1) * 1000)
    return _format_count(max(0, total - recorded_rows.count()), kind.word) if total else ""


def _count_unrecorded_votes(start: float) -> str:
    votes = _get_rows(VOTES).filter(**_build_time_filter(VOTES, start)).order_by("id")
    expected_approvals = {approval for (approval,) in _list_both_ends(votes, "approval_id")}
    recorded_approvals = AuditRow.objects.filter(act="vote", approval__in=expected_approvals).values_list(
        "approval", flat=True
    )
    return _format_count(len(expected_approvals.difference(recorded_approvals)), "vote")


def _count_unrecorded_decisions(start: float) -> str:
    """Compare with calls that have a decision in the log, or an approval opened by the gate."""
    approvals = apps.get_model("toolcards", "Approval").objects.filter(opener="gate", requested_at__gte=start)
    decided_calls = chain(
        _list_both_ends(approvals.order_by("requested_at", "id"), "run_id", "call__ordinal"), _list_decided_calls(start)
    )
    expected_calls = {f"{run}-{ordinal}" for run, ordinal in decided_calls}
    recorded_calls = AuditRow.objects.filter(act="decision", call__in=expected_calls).values_list("call", flat=True)
    return _format_count(len(expected_calls.difference(recorded_calls)), "decision")


def _list_decided_calls(start: float) -> Iterator[tuple[int, int]]:
    """Yield decisions among the oldest and newest events only, since a log can be long."""
    events = apps.get_model("toolcards", "Event").objects
    ends = events.aggregate(first=Min("id"), last=Max("id"))
    if ends["last"] is None:
        return
    is_near_end = Q(id__lt=ends["first"] + MAX_EVENTS) | Q(id__gt=ends["last"] - MAX_EVENTS)
    decisions = events.of_type(PolicyDecided.type).filter(is_near_end, applied=True, at__gte=start).order_by("id")
    yield from _list_both_ends(decisions, "run_id", "ordinal")


def _list_both_ends(rows: Any, *columns: str) -> Iterator[tuple[Any, ...]]:
    return chain(rows.values_list(*columns)[:MAX_ROWS], rows.reverse().values_list(*columns)[:MAX_ROWS])


def _get_rows(kind: WitnessTable) -> Any:
    return apps.get_model("toolcards", kind.model).objects.all()


def _build_time_filter(kind: WitnessTable, moment: float) -> dict[str, Any]:
    has_datetime = kind.moment == "created_at"
    return {f"{kind.moment}__gte": datetime.fromtimestamp(moment, UTC) if has_datetime else moment}


def _read_counter(model: Any) -> int:
    """Return the highest id that the table has given out, including deleted rows."""
    table = model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [table])
        else:
            cursor.execute(
                "SELECT last_value FROM pg_sequences WHERE quote_ident(schemaname) || '.' || quote_ident(sequencename)"
                " = pg_get_serial_sequence(%s, 'id')",
                [table],
            )
        row = cursor.fetchone()
    return int(row[0]) if row and row[0] is not None else 0


def _format_count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}" if number else ""
