"""Approvals of gated calls, their votes and reviews, and grants."""

from __future__ import annotations

import math
from typing import NamedTuple

from django.conf import settings
from django.db import connection, models

from toolcards.clocks import clock
from toolcards.encryption import SealedText
from toolcards.models.calls import ToolCall
from toolcards.models.runs import Run
from toolcards.models.sources import Source
from toolcards.models.write_guard import LogModel, LogQuerySet

ANSWERED_STATES = ("approved", "denied", "expired", "cancelled", "superseded", "revoked")


class ApprovalQuerySet(LogQuerySet["Approval"]):
    """Approvals by state."""

    def unanswered(self) -> ApprovalQuerySet:
        """Return the open approvals, attached ones too, oldest first."""
        return self.filter(state="pending", asked=True).order_by("requested_at", "id")

    def waiting(self) -> ApprovalQuerySet:
        """Return the approvals that people can answer, oldest first."""
        return self.unanswered().filter(twin="")

    def attached(self) -> ApprovalQuerySet:
        """Return the open approvals that wait for their twin, oldest first."""
        return self.unanswered().exclude(twin="")

    def answered_by_rule(self, rule: str, *, after: float) -> ApprovalQuerySet:
        """Return the questions that this rule has approved since then, oldest first."""
        answers = self.filter(asked=True, opener="gate", by_kind="rule", by_name=rule, decided_at__gte=after)
        return answers.exclude(state__in=("revoked", "cancelled", "superseded")).order_by("requested_at", "id")

    def overdue(self, steady: float) -> ApprovalQuerySet:
        """Return the approvals whose deadline has passed (steady time)."""
        return self.filter(expires_at__gt=0, expires_at__lte=models.F("clock_offset") + steady)

    def undelivered(self, *runs: Run | int, channel: str = "socket") -> ApprovalQuerySet:
        """Return the answers on this channel whose receipt is not known."""
        states = (*ANSWERED_STATES, "claimed")  # a connection has sent it, and waits for the receipt
        answers = self.filter(run__in=runs, channel=channel, delivered_at=None, state__in=states)
        return answers.order_by("decided_at", "id")

    def unsent(self, *runs: Run | int, channel: str = "socket") -> ApprovalQuerySet:
        """Return the undelivered answers that no connection waits to be received."""
        return self.undelivered(*runs, channel=channel).filter(held_until__lte=clock.working())


class Approval(LogModel):
    """The approval of a gated call: pending, answered once, delivered, claimed, and its outcome.

    `asked`: a person must decide (an allow over HTTP has a row only for its permit). `channel` is the way back to the
    agent: `http` or `poll` (it polls), `socket` (a gating connection), `watch` (a watching connection), `hook` (the
    request that waits), `none` (it takes no answers). Times are epoch seconds of wall time; `permit_expires_at` and
    `held_until` are working time (toolcards/clocks.py). `delivered_at` is when the agent had the answer; before that,
    the connection `claimed_by` that sent it waits for the receipt until `held_until`.
    """

    id = models.CharField(primary_key=True, max_length=40)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="approvals")
    call = models.ForeignKey(ToolCall, on_delete=models.CASCADE, related_name="approvals")
    attempt = models.IntegerField(default=1)
    asked = models.BooleanField(default=True)
    opener = models.CharField(max_length=10, default="gate")
    channel = models.CharField(max_length=10, default="http")
    state = models.CharField(max_length=20, default="pending", db_index=True)
    args_sha256 = models.CharField(max_length=64, blank=True)
    schema_sha256 = models.CharField(max_length=64, blank=True)
    idempotency_key = models.CharField(max_length=300, blank=True)
    decision_id = models.CharField(max_length=40, blank=True)
    terms = models.TextField(default="{}")  # AskTerms: voters, quorum, what can be edited
    rules = models.TextField(default="[]")  # ids of the rules that require it; a grant satisfies one of them
    version = models.IntegerField(default=0)  # the policy version that requires it
    edited = SealedText(blank=True)  # the input that a person edited, while more votes are required
    by_kind = models.CharField(max_length=20, blank=True)
    by_name = models.CharField(max_length=200, blank=True)
    reason = models.TextField(blank=True)  # redacted
    note = SealedText(blank=True)
    use_ttl = models.FloatField(default=300)
    requested_at = models.FloatField()
    expires_at = models.FloatField(default=0)
    clock_offset = models.FloatField(default=0)  # how far wall time was ahead of steady time when it was requested
    decided_at = models.FloatField(default=0)
    held_until = models.FloatField(default=0, db_default=0.0)  # working time; see holds.py and delivery.py
    delivered_at = models.FloatField(null=True, blank=True)
    permit = models.CharField(max_length=60, blank=True, db_index=True)
    permit_expires_at = models.FloatField(default=0)
    claimed_at = models.FloatField(default=0)
    twin = models.CharField(max_length=40, blank=True, default="", db_default="")  # see gate/twins/
    place = models.CharField(
        max_length=200, blank=True, default="", db_default=""
    )  # of the call, as its client names it
    claimed_by = models.CharField(max_length=200, blank=True)  # the client, so that a lost response can be repeated
    key_id = models.BigIntegerField(null=True, blank=True)  # the agent key of the request; a permit ends with its key
    objects = ApprovalQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["run", "channel", "delivered_at"]),
            models.Index(fields=["decided_at", "id"], condition=models.Q(asked=True), name="approval_answer_order"),
            models.Index(fields=["twin"], condition=~models.Q(twin=""), name="approval_twin"),
        ]
        permissions = [("vote", "Can answer approvals"), ("edit_policy", "Can edit and activate policy")]

    def __str__(self) -> str:
        return self.id

    def is_overdue(self, steady: float) -> bool:
        """Return whether its deadline has passed at this steady time (see clocks)."""
        return 0 < self.expires_at <= self.clock_offset + steady


class Vote(models.Model):
    """One person's vote."""

    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, related_name="votes")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    decision = models.CharField(max_length=10)
    reason = SealedText(blank=True)
    note = SealedText(blank=True)
    client_decision_id = models.CharField(max_length=100, blank=True)
    at = models.FloatField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["approval", "person"], name="one_vote_each")]

    def __str__(self) -> str:
        return f"{self.person}: {self.decision}"


class ReviewQuerySet(models.QuerySet["Review"]):
    """Reviews by state."""

    def unfinished(self) -> ReviewQuerySet:
        """Return the reviews that are open or under way, oldest first."""
        return self.filter(state__in=("open", "asking")).order_by("id")

    def take(self, pk: int, now: float) -> bool:
        """Begin an open review; False if another process did."""
        return bool(self.filter(pk=pk, state="open").update(state="asking", asked_at=now))

    def stalled(self, before: float) -> ReviewQuerySet:
        """Return the unfinished reviews that began before this time."""
        return self.filter(state="asking", asked_at__lt=before)


class Review(models.Model):
    """One question to a reviewer: open, asking, then done.

    `args_sha256` and `call_sha256` bind the answer to the call, `reviewer_sha256` to what was configured. `answer` is
    allow, ask, deny, or "" if there was none: then `note` tells why. `has_decided`: the answer settled the approval.
    `is_failure` counts for the circuit breaker.
    """

    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, related_name="reviews")
    reviewer = models.CharField(max_length=100)
    is_shadow = models.BooleanField(default=False)
    reviewer_sha256 = models.CharField(max_length=64)
    prompt_sha256 = models.CharField(max_length=64, blank=True)
    args_sha256 = models.CharField(max_length=64)
    call_sha256 = models.CharField(max_length=64)
    state = models.CharField(max_length=10, default="open", db_index=True)
    answer = models.CharField(max_length=10, blank=True)
    reason = models.TextField(blank=True)  # redacted
    note = models.CharField(max_length=300, blank=True)
    has_decided = models.BooleanField(default=False)
    is_failure = models.BooleanField(default=False)
    created_at = models.FloatField()
    asked_at = models.FloatField(default=0)
    answered_at = models.FloatField(default=0)
    objects = ReviewQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["approval"], name="one_review_each")]
        indexes = [models.Index(fields=["reviewer", "answered_at"])]

    def __str__(self) -> str:
        return f"{self.reviewer}: {self.answer or self.note or self.state}"


class GrantQuerySet(models.QuerySet["Grant"]):
    """Grants by validity."""

    def live(self, now: float) -> GrantQuerySet:
        """Return the grants that are valid at `now` (epoch seconds); see `Grant.is_live`."""
        limit = models.F("clock_offset") + clock.steady()
        is_within = models.Q(expires_at__gt=now) & (models.Q(clock_offset=None) | models.Q(expires_at__gt=limit))
        return self.filter(revoked_at=None).filter(models.Q(expires_at=0) | is_within)


class Grant(models.Model):
    """A person's approval in advance of one ask rule, for these arguments, in this scope, until `expires_at`."""

    id = models.CharField(primary_key=True, max_length=40)
    rule = models.CharField(max_length=100)
    rule_sha256 = models.CharField(max_length=64)
    tool = models.CharField(max_length=300, db_index=True)
    server = models.CharField(max_length=300, blank=True)  # where the tool comes from
    schema_sha256 = models.CharField(max_length=64, blank=True)  # of the tool, as it was evaluated
    args_sha256 = models.CharField(max_length=64, blank=True)
    pattern = models.TextField(blank=True)  # conditions like a rule's `args`
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, blank=True, related_name="grants")
    source = models.ForeignKey(Source, on_delete=models.CASCADE, null=True, blank=True, related_name="grants")
    agent = models.CharField(max_length=200, blank=True)
    approval = models.ForeignKey(Approval, on_delete=models.SET_NULL, null=True, related_name="grants")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.FloatField()
    expires_at = models.FloatField(default=0)
    clock_offset = models.FloatField(null=True, blank=True)  # how far wall time was ahead of steady time
    revoked_at = models.FloatField(null=True, blank=True)
    used = models.IntegerField(default=0)
    objects = GrantQuerySet.as_manager()

    def __str__(self) -> str:
        return self.id

    def is_live(self, now: float) -> bool:
        """Return whether it is valid at `now` (epoch seconds).

        Its time also ends in steady time (toolcards/clocks.py): setting the clock back prolongs nothing.
        """
        if self.revoked_at is not None or not self.expires_at:
            return self.revoked_at is None
        offset = -math.inf if self.clock_offset is None else self.clock_offset
        return self.expires_at > max(now, clock.steady() + offset)


class ApprovalStatus(NamedTuple):
    """The columns of an approval that show its status, and its source. Times are epoch seconds."""

    id: str
    run_id: int
    state: str
    decided_at: float
    by_kind: str
    asked: bool
    source_id: int


_SELECT_STATUSES = (
    "SELECT toolcards_approval.id, run_id, state, decided_at, by_kind, asked, source_id FROM toolcards_approval"
    " JOIN toolcards_run ON toolcards_run.id = run_id WHERE toolcards_approval.id IN "
)


def select_statuses(approvals: list[str]) -> list[ApprovalStatus]:
    """Return the statuses of these approvals, without those that do not exist."""
    if not approvals:
        return []
    with connection.cursor() as cursor:
        cursor.execute(f"{_SELECT_STATUSES}({', '.join(['%s'] * len(approvals))})", approvals)
        return [ApprovalStatus(*row) for row in cursor.fetchall()]
