"""The pulse: the last beat that the server processes of this installation agreed on (toolcards/clocks.py)."""

from __future__ import annotations

from django.db import models

from toolcards.clocks import Beat


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
