"""What the rest of the database knows of acts that the audit trail must have rows of.

Whoever empties the trail and removes its anchor leaves these behind: answers, policy versions and keys, whose
every row is written in one transaction with a row of the trail, and the counters that number them.
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

from toolcards.audit.trail import AuditRow
from toolcards.core.calls.facts import PolicyDecided

MAX_ROWS = 200  # of the oldest, and of the newest, of each kind
MAX_EVENTS = 20_000  # of the oldest, and of the newest
RECENT_SECONDS = 60.0  # seconds: rows of the transaction that writes the first act


@dataclass(frozen=True, slots=True)
class WitnessTable:
    """A table, where it keeps the time of an act (a date, or epoch seconds), the act's name and a word for people."""

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
    """Return what shows that the database was in use earlier than the last `recent` seconds, "" for nothing."""
    return ", ".join(filter(None, (_count_earlier_use(kind, recent) for kind in (*COUNTED_TABLES, VOTES))))


def _count_earlier_use(kind: WitnessTable, recent: float) -> str:
    rows = _get_rows(kind)
    here, young = rows.count(), rows.filter(**_build_time_filter(kind, timezone.now().timestamp() - recent)).count()
    numbered = _read_counter(rows.model)
    if here == young and numbered <= here:
        return ""
    return _format_count(max(here, numbered), kind.word)


def find_unrecorded_acts(since: float) -> str:
    """Return which acts since then (epoch seconds) have no row in the trail, "" if all have one."""
    return ", ".join(
        filter(
            None,
            (
                *(_count_missing_rows(kind, since) for kind in COUNTED_TABLES),
                _count_unrecorded_votes(since),
                _count_unrecorded_decisions(since),
            ),
        )
    )


def _count_missing_rows(kind: WitnessTable, since: float) -> str:
    """There are more of them than rows about them: none is made without a row, and rows are never deleted."""
    here = _get_rows(kind).filter(**_build_time_filter(kind, since)).count()
    recorded = AuditRow.objects.filter(act__startswith=kind.act, at__gte=(since - 1) * 1000)
    return _format_count(max(0, here - recorded.count()), kind.word) if here else ""


def _count_unrecorded_votes(since: float) -> str:
    voted = _get_rows(VOTES).filter(**_build_time_filter(VOTES, since)).order_by("id")
    wanted = {approval for (approval,) in _list_both_ends(voted, "approval_id")}
    recorded = AuditRow.objects.filter(act="vote", approval__in=wanted).values_list("approval", flat=True)
    return _format_count(len(wanted.difference(recorded)), "vote")


def _count_unrecorded_decisions(since: float) -> str:
    """Every call that the gate judged was decided: the log says so, and so does what the gate owes an answer for."""
    asked = apps.get_model("toolcards", "Approval").objects.filter(opener="gate", requested_at__gte=since)
    judged = chain(
        _list_both_ends(asked.order_by("requested_at", "id"), "run_id", "call__ordinal"), _list_decided_calls(since)
    )
    wanted = {f"{run}-{ordinal}" for run, ordinal in judged}
    recorded = AuditRow.objects.filter(act="decision", call__in=wanted).values_list("call", flat=True)
    return _format_count(len(wanted.difference(recorded)), "decision")


def _list_decided_calls(since: float) -> Iterator[tuple[int, int]]:
    """Decisions among the oldest and the newest events; all of a long log would take too long."""
    events = apps.get_model("toolcards", "Event").objects
    ends = events.aggregate(first=Min("id"), last=Max("id"))
    if ends["last"] is None:
        return
    at_an_end = Q(id__lt=ends["first"] + MAX_EVENTS) | Q(id__gt=ends["last"] - MAX_EVENTS)
    decided = events.of_type(PolicyDecided.type).filter(at_an_end, applied=True, at__gte=since).order_by("id")
    yield from _list_both_ends(decided, "run_id", "ordinal")


def _list_both_ends(rows: Any, *columns: str) -> Iterator[tuple[Any, ...]]:
    return chain(rows.values_list(*columns)[:MAX_ROWS], rows.reverse().values_list(*columns)[:MAX_ROWS])


def _get_rows(kind: WitnessTable) -> Any:
    return apps.get_model("toolcards", kind.model).objects.all()


def _build_time_filter(kind: WitnessTable, moment: float) -> dict[str, Any]:
    dated = kind.moment == "created_at"
    return {f"{kind.moment}__gte": datetime.fromtimestamp(moment, UTC) if dated else moment}


def _read_counter(model: Any) -> int:
    """Return the highest number that the table's counter has given out; rows that were deleted count too."""
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
