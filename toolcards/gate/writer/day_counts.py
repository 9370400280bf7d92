"""How many calls of each source were allowed, denied, refused or asked about on each day.

They are counted with the calls, in the same transaction, so that a page reads one row instead of all calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from django.db import connection

from toolcards.core.calls.permissions import WORDS

DayCount = tuple[int, int, str]  # the source, the day and the word (core/calls/permissions.py)
_ADD = (
    f"INSERT INTO toolcards_sourceday AS ours (source, day, {', '.join(WORDS)})"  # noqa: S608 - names of this code
    f" VALUES (%s, %s, {', '.join(['%s'] * len(WORDS))}) ON CONFLICT (source, day) DO UPDATE SET "
    + ", ".join(f"{word} = ours.{word} + excluded.{word}" for word in WORDS)
)


def add_day_counts(counts: Mapping[DayCount, int]) -> None:
    """Add to the stored counts, in the order of all writers."""
    rows: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    for (source, day, word), count in counts.items():
        if count:
            rows[source, day][word] = count
    if rows:
        with connection.cursor() as cursor:
            for key in sorted(rows):
                cursor.execute(_ADD, [*key, *[rows[key].get(word, 0) for word in WORDS]])
