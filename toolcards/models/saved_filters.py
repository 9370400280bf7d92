"""Filters of the Calls and Runs pages that people saved under a name."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

MAX_NAME_LENGTH = 60


class SavedFilter(models.Model):
    """A person's name for the query of a page."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    page = models.CharField(max_length=20)  # "calls" or "runs"
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    query = models.TextField()  # percent-encoded, as in the page's address
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()  # each person has their own
        constraints = [
            models.UniqueConstraint(fields=["person", "page", "name"], name="one_saved_filter_per_name"),
        ]

    def __str__(self) -> str:
        return self.name
