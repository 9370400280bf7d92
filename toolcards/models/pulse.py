"""The pulse: when a process of this installation last wrote. In a gap of it, no agent could reach the server."""

from __future__ import annotations

from django.db import models


class Pulse(models.Model):
    """One row, with pk 1, that every server process moves on while it works."""

    at = models.FloatField()  # epoch seconds

    def __str__(self) -> str:
        return f"last written at {self.at:.1f}"
