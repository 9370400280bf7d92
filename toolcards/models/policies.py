"""Policy versions, the draft, and the two switches that override them."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class KillSwitch(models.Model):
    """One row per change; the newest is the current state."""

    on = models.BooleanField()
    by = models.CharField(max_length=200)
    reason = models.TextField(blank=True)
    at = models.FloatField()

    class Meta:
        permissions = [("throw_killswitch", "Can stop every tool call"), ("break_glass", "Can lift asks for a while")]

    def __str__(self) -> str:
        return f"{'on' if self.on else 'off'}, by {self.by}"


class BreakGlass(models.Model):
    """A period in which calls need no approval; each call that it lets through is recorded."""

    by = models.CharField(max_length=200)
    reason = models.TextField()
    at = models.FloatField()
    until = models.FloatField()
    clock_offset = models.FloatField(null=True, blank=True)  # how far wall time was ahead of steady time
    ended_at = models.FloatField(null=True, blank=True)
    passed = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.by}: {self.reason}"


class PolicyVersion(models.Model):
    """An activated policy: numbered and immutable; at most one is active."""

    number = models.IntegerField(unique=True)
    document = models.TextField()
    # YAML as a person wrote it, with comments; it can be older than the document.
    text = models.TextField(default="", db_default="", blank=True)
    sha256 = models.CharField(max_length=64)
    author = models.CharField(max_length=200, blank=True)
    note = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    active = models.BooleanField(default=False, db_index=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["active"], condition=models.Q(active=True), name="one_active_policy")
        ]

    def __str__(self) -> str:
        return f"version {self.number}"


class DraftRule(models.Model):
    """A rule of the draft; `body` is the rule in the policy document, without the other columns."""

    rule_id = models.CharField(max_length=80, unique=True)
    effect = models.CharField(max_length=10)
    enabled = models.BooleanField(default=True)
    body = models.TextField(default="{}")
    updated_at = models.DateTimeField(auto_now=True)
    updated_by = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.rule_id


class Draft(models.Model):
    """The fields of the draft other than its rules; there is one row."""

    head = models.TextField(default="{}")  # the document without `rules`
    text = models.TextField(default="", db_default="", blank=True)  # as in PolicyVersion
    based_on = models.IntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)
    updated_by = models.CharField(max_length=200, blank=True)

    def __str__(self) -> str:
        return f"based on version {self.based_on}"
