"""What the server processes of one installation tell each other: their newest group commit, and the pulse.

See `toolcards.gate.writer.attempt` and `toolcards.clocks`.
"""

from __future__ import annotations

from django.db import models

from toolcards.clocks import Beat


class GroupCommit(models.Model):
    """A process and the number of its latest commit."""

    process = models.CharField(max_length=32, primary_key=True)
    number = models.BigIntegerField()
    at = models.FloatField()  # epoch seconds

    class Meta:
        default_permissions = ()  # no one changes it by hand

    def __str__(self) -> str:
        return f"{self.process}: {self.number}"


class Pulse(models.Model):
    """One row, with pk 1, that server processes move on while they work. All columns are in seconds."""

    at = models.FloatField()  # wall time, epoch seconds
    steady = models.FloatField(default=0)  # 0: written by a release that had no steady time
    paused = models.FloatField(default=0)  # length of all pauses
    resumed = models.FloatField(default=0)  # working time as the last pause ended

    class Meta:
        default_permissions = ()  # no one changes it by hand

    def __str__(self) -> str:
        return f"last written at {self.at:.1f}"

    @property
    def beat(self) -> Beat:
        """Return the stored beat."""
        return Beat(self.at, self.steady or self.at, self.paused, self.resumed)
