"""The newest group commit of each server process on PostgreSQL: see `toolcards.gate.writer.commit_marks`."""

from __future__ import annotations

from django.db import models


class GroupCommit(models.Model):
    """A process and the number of its latest commit."""

    process = models.CharField(max_length=32, primary_key=True)
    number = models.BigIntegerField()
    at = models.FloatField()  # epoch seconds

    class Meta:
        default_permissions = ()  # no one changes it by hand

    def __str__(self) -> str:
        return f"{self.process}: {self.number}"
