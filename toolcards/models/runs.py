"""Runs and their event log.

The log is append-only, except that `gate/maintenance/run_masking.py` masks secrets in it after a run has ended.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from django.db import models
from django.utils import timezone

from toolcards.core.calls.facts import AnomalyRecorded, AnyFact, load
from toolcards.core.runs import run_context
from toolcards.core.runs.run_context import SkippedFrames
from toolcards.encryption import DecryptionError, SealedText, UnreadableText
from toolcards.models.sources import Source
from toolcards.models.write_guard import LogModel, LogQuerySet

CANNOT_BE_OPENED = "cannot-be-opened"  # the anomaly of data without its key, or that this version cannot read
# How the name of a run begins while retention deletes it. No sender can use the first character.
BEING_DELETED = "\x7f being deleted "
# What parsing a damaged text, or one of another release, can raise.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class AmbiguousRun(Exception):
    """Several sources have a run with this name. `runs`: all of them, newest first."""

    def __init__(self, runs: list[Run]) -> None:
        super().__init__(f"{len(runs)} sources have a run named {runs[0].name}")
        self.runs = runs

    @property
    def sources(self) -> list[str]:
        """The sorted names of the sources."""
        return sorted(run.source.name for run in self.runs)


class RunQuerySet(LogQuerySet["Run"]):
    """Runs by name and state."""

    def only_one(self, name: str, source: str = "") -> Run:
        """Return the run with this name, of this source if given.

        Raises Run.DoesNotExist, or AmbiguousRun if several sources have the name and none is given.
        """
        runs = self.select_related("source").filter(name=name).order_by("-id")
        matches = list(runs.filter(source__name=source) if source else runs)
        if len(matches) > 1:
            raise AmbiguousRun(matches)
        if not matches:
            raise Run.DoesNotExist(name)
        return matches[0]

    def active(self) -> RunQuerySet:
        """Return the runs that have not ended."""
        return self.filter(status__in=("running", "waiting"))


class Run(LogModel):
    """A stream of work by one agent. `name` is the sender's own id, unique per source."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="runs", db_index=False)
    name = models.CharField(max_length=200)
    agent = models.CharField(max_length=200, blank=True)
    title = models.CharField(max_length=500, blank=True)
    protocol = models.CharField(max_length=40, blank=True)
    mode = models.CharField(max_length=10, default="observe")
    status = models.CharField(max_length=20, default="running", db_index=True)
    reason = models.TextField(blank=True)
    started_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now, db_index=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    alive_until = models.FloatField(null=True, blank=True, db_index=True)  # working time (clocks.py) of its lease's end
    beats = models.BooleanField(default=False)  # its agent sends heartbeats; without them the run is lost
    seq = models.BigIntegerField(default=0)
    calls = models.IntegerField(default=0)
    counts = models.TextField(default="{}")  # state -> number of calls
    skipped = models.BigIntegerField(default=0)  # frames of kinds that the adapter does not know
    skipped_kinds = models.TextField(default="{}")  # kind -> number of frames (core/runs/run_context.py)
    context = SealedText(default="{}")  # RunContext, as JSON
    scrubbed_at = models.DateTimeField(null=True, blank=True)  # secrets are masked permanently; each write resets it
    # Frame numbers of the sender: the highest without a gap, then ranges ahead of it (core/runs/sequence_set.py).
    numbers = models.TextField(default="[0]")
    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "name"], name="run_per_source")]
        indexes = [
            models.Index(fields=["name"]),
            models.Index(fields=["ended_at"], condition=models.Q(scrubbed_at=None), name="run_to_scrub"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def url(self) -> str:
        """The path of the run's page; `source` must be loaded."""
        return get_run_path(self.name, self.source.name)

    @property
    def agent_name(self) -> str:
        """The agent, or the source where no agent is named."""
        return self.agent or self.source.name

    @property
    def is_being_deleted(self) -> bool:
        """Whether retention has begun to delete the run."""
        return self.name.startswith(BEING_DELETED)

    @property
    def count_by_state(self) -> dict[str, int]:
        """The number of calls per state."""
        try:
            return {str(state): int(count) for state, count in json.loads(self.counts).items()}
        except UNREADABLE:  # a damaged row must not hide the others; `replay --check` reports it, `replay` repairs it
            return {}

    @property
    def skipped_frames(self) -> SkippedFrames:
        """Frames of kinds that are unknown to the adapter."""
        return run_context.load(self.skipped, self.skipped_kinds)


_DOTS = frozenset({".", ".."})  # as a part of a path, also percent-encoded, programs resolve them
_DOTS_MARK = "\u00ad"  # follows them in a path; no name has it, because it is not printable


def encode_run_name(name: str) -> str:
    """Return the name as one part of a path."""
    return quote(name + _DOTS_MARK if name in _DOTS else name, safe="")


def decode_run_name(part: str) -> str:
    """Return the name that this percent-decoded part of a path means."""
    return part[:-1] if part[:-1] in _DOTS and part.endswith(_DOTS_MARK) else part


def get_run_path(name: str, source: str, **query: str | int) -> str:
    """Return the path of a run's page, with its name and source.

    Without a source, the page asks for one if several have the name. A `/` in the name is encoded, so that `..` in it
    has no effect.
    """
    query_string = urlencode(({"source": source} if source else {}) | query)
    return f"/runs/{encode_run_name(name)}/" + (f"?{query_string}" if query_string else "")


class LogIsFinal(Exception):
    """The event log is append-only."""


FACT_HEAD = '{"type":"'  # the beginning of every text of `core.calls.facts.dump`


class EventQuerySet(LogQuerySet["Event"]):
    """The log, which is append-only."""

    def after(self, run: Run | int, seq: int) -> EventQuerySet:
        """Return the run's events after that position, in order."""
        return self.filter(run=run, seq__gt=seq).order_by("seq")

    def of_type(self, kind: str) -> EventQuerySet:
        """Return the events with a fact of that type."""
        return self.filter(fact__startswith=f'{FACT_HEAD}{kind}"')

    def but_type(self, kind: str) -> EventQuerySet:
        """Return the events with a fact of another type."""
        return self.exclude(fact__startswith=f'{FACT_HEAD}{kind}"')

    def update(self, **kwargs: Any) -> int:
        """Refuse."""
        raise LogIsFinal("events are never changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        """Refuse."""
        raise LogIsFinal("events are never deleted; retention has its own door")


class Event(LogModel):
    """A recorded fact. `ordinal`: of its call in the run, 0 for facts about the run; `at`: epoch seconds.

    Only the type of a fact is not encrypted, so that queries can select by it (`of_type`).
    """

    # No index of its own: the unique constraint begins with the run, and the log has ten rows for each call.
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.BigIntegerField()
    at = models.FloatField()
    ordinal = models.IntegerField(default=0)
    fact = SealedText(head=FACT_HEAD)
    applied = models.BooleanField(default=True)
    objects = EventQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="event_seq")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.seq}"

    @property
    def decoded_fact(self) -> AnyFact:
        """The fact; raises DecryptionError.

        Its key is missing, or this version cannot read it.
        """
        if type(self.fact) is UnreadableText:
            raise DecryptionError(f"position {self.seq} of the log cannot be decrypted: its key is missing")
        try:
            return load(self.fact, self.at)
        except UNREADABLE as error:
            raise DecryptionError(f"this version cannot read position {self.seq} of the log") from error

    @property
    def readable_fact(self) -> AnyFact:
        """The fact, or an anomaly if it is unreadable."""
        try:
            return self.decoded_fact
        except DecryptionError:
            return AnomalyRecorded("", CANNOT_BE_OPENED, at=self.at)
