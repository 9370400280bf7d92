"""How much each source has sent in the last hour: one amount for all processes, kept over a restart.

A message counts in this process at once. The commit that stores it adds it to the stored amount, in one statement, and
learns what other processes have added. So beyond its quota, a source can send at most what each other process takes
until its next commit.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field

from django.conf import settings
from django.db import connection, transaction

from toolcards.clocks import clock
from toolcards.models import SourceUsage

_HOUR = 3_600.0
_MEGABYTE = 1_000_000
_ADD = (
    "INSERT INTO toolcards_sourceusage AS ours (source, level, at) VALUES (%s, %s, %s) ON CONFLICT (source) DO UPDATE"
    " SET level = {most}(0, {most}(0, ours.level - %s * {most}(0, EXCLUDED.at - ours.at)) + EXCLUDED.level),"
    " at = {most}(ours.at, EXCLUDED.at) RETURNING level, at"
)


@dataclass(slots=True)
class _Usage:
    """The bytes of a source as of a steady time; `level` without those that are not stored yet.

    `unstored` was counted and `refund` given back since the last commit.
    """

    level: float = 0.0
    at: float = 0.0
    unstored: float = 0.0
    refund: float = 0.0

    @property
    def total(self) -> float:
        """Return the level with what is not stored yet."""
        return max(0.0, self.level + self.unstored - self.refund)

    def drain(self, now: float, rate: float) -> None:
        """Drain what is stored, then the rest.

        Of a body without a usable frame, nothing is ever stored.
        """
        outflow = rate * max(0.0, now - self.at)
        remaining = max(0.0, outflow - self.level)
        self.level, self.at = max(0.0, self.level - outflow), max(now, self.at)
        self.unstored = max(0.0, self.unstored - remaining)
        self.refund = min(self.refund, self.level + self.unstored)


@dataclass(slots=True)
class UsageBook:
    """What one process knows of the usage of sources. A level drains evenly; it would be empty after an hour."""

    _usages: dict[int, _Usage] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, source: int, size: int, *, follow_up: int = 0) -> int:
        """Count bytes of a source; return the seconds to wait, or 0.

        A message that is larger than the whole quota is only taken after an hour without others. `follow_up` bytes
        come next: after the wait there is room for them too.
        """
        quota = _get_quota()
        if not quota or not size:
            return 0
        with self._lock:
            usage = self._usages.setdefault(source, _Usage())
            rate = quota / _HOUR
            usage.drain(clock.steady(), rate)
            if usage.total + min(size, quota) > quota:
                return math.ceil((usage.total + min(size + follow_up, quota) - quota) / rate)
            usage.unstored += size
        return 0

    def give_back(self, source: int, size: int) -> None:
        """Uncount bytes of which nothing is stored after all."""
        with self._lock:
            if usage := self._usages.get(source):
                usage.drain(clock.steady(), _get_quota() / _HOUR)
                usage.refund = min(usage.refund + size, usage.level + usage.unstored)

    def learn(self, source: int, level: float, moment: float) -> None:
        """Learn the stored level, which other processes may have raised."""
        with self._lock:
            usage, stored_usage = self._usages.setdefault(source, _Usage()), _Usage(level, moment)
            latest = max(moment, usage.at)
            for each in (usage, stored_usage):
                each.drain(latest, _get_quota() / _HOUR)
            usage.level = max(usage.level, stored_usage.level)

    def read(self, source: int) -> None:
        """Read what is stored of a source."""
        for level, moment in SourceUsage.objects.filter(pk=source).values_list("level", "at"):
            self.learn(source, level, moment)

    def store(self) -> None:
        """Add the bytes not yet stored, as a part of the transaction."""
        with self._lock:
            sizes = {
                source: (usage.unstored, usage.refund)
                for source, usage in sorted(self._usages.items())
                if usage.unstored or usage.refund
            }
        if not sizes:
            return
        statement = _ADD.format(most="GREATEST" if connection.vendor == "postgresql" else "MAX")
        stored_levels: dict[int, tuple[float, float]] = {}
        with connection.cursor() as cursor:
            for source, (more, less) in sizes.items():  # in one order: two processes must not wait for each other
                cursor.execute(statement, [source, more - less, clock.steady(), _get_quota() / _HOUR])
                stored_levels[source] = cursor.fetchone()

        def settle() -> None:
            with self._lock:
                for source, (level, moment) in stored_levels.items():
                    usage = self._usages.setdefault(source, _Usage())
                    usage.level, usage.at = level, moment
                    more, less = sizes[source]
                    usage.unstored = max(0.0, usage.unstored - more)
                    usage.refund = max(0.0, usage.refund - less)

        transaction.on_commit(settle)

    def clear(self) -> None:
        """Forget everything, as a new process."""
        with self._lock:
            self._usages.clear()


def _get_quota() -> float:
    quota: float = settings.TOOLCARDS.source_quota * _MEGABYTE
    return quota


usage_book = UsageBook()
