"""Streams of work and the log of what happened in them.

The log is never changed, but for secrets in it, which `gate/maintenance/retention.py` masks after a run has ended.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from django.db import models
from django.utils import timezone

from toolcards.core.calls.facts import AnomalyRecorded, AnyFact, load
from toolcards.core.runs import skipped_frames
from toolcards.core.runs.skipped_frames import SkippedFrames
from toolcards.encryption import DecryptionError, SealedText, UnreadableText
from toolcards.models.sources import Source
from toolcards.models.write_guard import LogModel, LogQuerySet

CLOSED = "cannot-be-opened"  # the oddity of what no key of ours opens, or this version cannot read
# What reading a text of another release, or a damaged one, may raise.
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class AmbiguousRun(Exception):
    """Several sources have a run of this name. `runs`: all of them, each with its source, newest first."""

    def __init__(self, runs: list[Run]) -> None:
        super().__init__(f"{len(runs)} sources have a run named {runs[0].name}")
        self.runs = runs

    @property
    def sources(self) -> list[str]:
        """The names of the sources, in order."""
        return sorted(run.source.name for run in self.runs)


class RunQuerySet(LogQuerySet["Run"]):
    """Runs, by what they are called and how they are."""

    def only_one(self, name: str, source: str = "") -> Run:
        """Return the run of that name, of that source where one is given.

        Raises Run.DoesNotExist; AmbiguousRun where no source is given and several have the name.
        """
        runs = self.select_related("source").filter(name=name).order_by("-id")
        matches = list(runs.filter(source__name=source) if source else runs)
        if len(matches) > 1:
            raise AmbiguousRun(matches)
        if not matches:
            raise Run.DoesNotExist(name)
        return matches[0]

    def active(self) -> RunQuerySet:
        """Runs that may still say something."""
        return self.filter(status__in=("running", "waiting"))


class Run(LogModel):
    """One stream of work by one agent. `name` is the sender's own id, unique per source."""

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="runs")
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
    alive_until = models.FloatField(
        null=True, blank=True, db_index=True
    )  # working time (clocks.py); later it counts as lost
    beats = models.BooleanField(default=False)  # its agent sends heartbeats: without them it is gone for good
    seq = models.BigIntegerField(default=0)
    calls = models.IntegerField(default=0)
    counts = models.TextField(default="{}")  # state -> number of calls
    skipped = models.BigIntegerField(default=0)  # frames of kinds that the adapter does not know
    skipped_kinds = models.TextField(default="{}")  # kind -> number of frames (core/runs/skipped_frames.py)
    context = SealedText(default="{}")  # RunContext, as JSON
    scrubbed_at = models.DateTimeField(null=True, blank=True)  # secrets masked for good; whatever is written unsets it
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
        """The path of the run's page, for which `source` must be loaded."""
        return get_run_path(self.name, self.source.name)

    @property
    def count_by_state(self) -> dict[str, int]:
        """How many calls are in which state."""
        try:
            return {str(state): int(count) for state, count in json.loads(self.counts).items()}
        except UNREADABLE:  # a damaged row must not hide the others; `replay --check` names it, `replay` counts again
            return {}

    @property
    def skipped_frames(self) -> SkippedFrames:
        """The frames of kinds that the adapter does not know."""
        return skipped_frames.load(self.skipped, self.skipped_kinds)


def get_run_path(name: str, source: str, **query: str | int) -> str:
    """Return the path of a run's page: a name belongs to its source, so both are in it.

    Without a source the page asks for one where several have the name. A `/` in the name is encoded, so that `..` in
    it means nothing.
    """
    asked = urlencode(({"source": source} if source else {}) | query)
    return f"/runs/{quote(name, safe='')}/" + (f"?{asked}" if asked else "")


class LogIsFinal(Exception):
    """The event log is append-only."""


FACT_HEAD = '{"type":"'  # how `core.calls.facts.dump` begins


class EventQuerySet(LogQuerySet["Event"]):
    """The log: read in order, never changed."""

    def after(self, run: Run | int, seq: int) -> EventQuerySet:
        """Events of the run later than that position, in order."""
        return self.filter(run=run, seq__gt=seq).order_by("seq")

    def of_type(self, kind: str) -> EventQuerySet:
        """Events with a fact of that type."""
        return self.filter(fact__startswith=f'{FACT_HEAD}{kind}"')

    def but_type(self, kind: str) -> EventQuerySet:
        """Events with a fact of another type."""
        return self.exclude(fact__startswith=f'{FACT_HEAD}{kind}"')

    def update(self, **kwargs: Any) -> int:
        """Refuse."""
        raise LogIsFinal("events are never changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        """Refuse."""
        raise LogIsFinal("events are never deleted; retention has its own door")


class Event(LogModel):
    """A fact written down. `ordinal` is its call's in the run, 0 for the run's own facts; `at` epoch seconds.

    Of a fact only its type stands in the clear, so that some kinds can be read without the others (`of_type`).
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
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
        """The fact itself; raises DecryptionError where its key is not here, or this version cannot read it."""
        if type(self.fact) is UnreadableText:
            raise DecryptionError(f"no key of ours opens position {self.seq} of the log")
        try:
            return load(self.fact, self.at)
        except UNREADABLE as error:
            raise DecryptionError(f"this version cannot read position {self.seq} of the log") from error

    @property
    def readable_fact(self) -> AnyFact:
        """The fact for readers; one that cannot be opened is an oddity that says so."""
        try:
            return self.decoded_fact
        except DecryptionError:
            return AnomalyRecorded("", CLOSED, at=self.at)
