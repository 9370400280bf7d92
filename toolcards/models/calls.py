"""The latest state of each tool call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.db import models

from toolcards.core.calls.card import Card, CardTool, Milestones, ToolCallState
from toolcards.core.calls.card_codec import load_card, measure_card
from toolcards.core.calls.facts import InputDelta
from toolcards.core.text.text_rope import Rope
from toolcards.encryption import SealedText, UnreadableText, get_redactor
from toolcards.models.runs import CANNOT_BE_OPENED, UNREADABLE, Event, Run
from toolcards.models.write_guard import LogModel, LogQuerySet

_shown_cards: dict[tuple[int, int, int, int], Card] = {}
MAX_SHOWN_CARDS = 2_000
LARGE = 20_000  # characters of a stored card; larger ones are masked again each time they are shown
BEYOND_CONTROL = frozenset({"ungoverned", "ran-without-approval"})


def forget_shown_cards() -> None:
    """Empty the cache of masked cards."""
    _shown_cards.clear()


class ToolCallQuerySet(LogQuerySet["ToolCall"]):
    """Calls by state."""

    def not_removed(self) -> ToolCallQuerySet:
        """Return the calls that were not removed by a step reset."""
        return self.filter(removed=False)

    def waiting(self) -> ToolCallQuerySet:
        """Return the calls that wait for a person, oldest first.

        The inbox shows them in another order (dashboard/inbox/order.py).
        """
        return self.not_removed().filter(waiting=True).order_by("requested_at", "id")


class ToolCall(LogModel):
    """The latest state of a tool call: `card` is all of it, encrypted; the other columns are for queries.

    While input streams, `text` can lag behind the log (it is rewritten only after it has grown by a quarter);
    `as_card` adds the missing deltas.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tool_calls")
    ordinal = models.IntegerField()
    call_id = models.CharField(max_length=300)
    tool = models.CharField(max_length=300)
    tool_key = models.CharField(max_length=300, db_default="")  # all spellings of the tool have one
    kind = models.CharField(max_length=20)
    agent = models.CharField(max_length=300, blank=True)
    state = models.CharField(max_length=30, db_index=True)
    soft = models.BooleanField(default=False)
    waiting = models.BooleanField(default=False)
    removed = models.BooleanField(default=False)
    rev = models.IntegerField(default=0)
    seq = models.BigIntegerField(default=0)
    first_seq = models.BigIntegerField(default=0)
    started_at = models.DateTimeField(null=True)
    requested_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    beyond_control = models.BooleanField(default=False, db_default=False)  # it has an anomaly of BEYOND_CONTROL
    indexed = models.BooleanField(default=False, db_default=False)  # in the search index as it is
    card = SealedText()
    text = SealedText(blank=True)
    text_seq = models.BigIntegerField(default=0)
    written_card: Card | None = None  # the whole card of this version, if the caller has it: the columns stay closed
    objects = ToolCallQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "ordinal"], name="call_ordinal")]
        indexes = [
            models.Index(fields=["run", "seq"]),
            models.Index(fields=["call_id"]),
            models.Index(fields=["tool"]),
            models.Index(fields=["tool_key", "started_at"], name="call_tool_key"),
            models.Index(fields=["finished_at"], condition=models.Q(beyond_control=True), name="call_beyond_control"),
            # SQLite does not use the index of a boolean column for a bare `AND waiting`, as Django writes it.
            models.Index(fields=["requested_at", "id"], condition=models.Q(waiting=True), name="call_waiting_order"),
            models.Index(fields=["id"], condition=models.Q(indexed=False), name="call_not_indexed"),
            models.Index(fields=["run", "state"], condition=models.Q(soft=True), name="call_soft_of_run"),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.call_id}"

    @classmethod
    def from_card(cls, run: Run, pk: int, card: Card) -> ToolCall:
        """Return the call that shows this card, without reading its row."""
        call = cls(
            pk=pk, run=run, ordinal=card.ordinal, state=str(card.state or ""), removed=card.removed, rev=card.rev,
            seq=card.seq, text_seq=card.seq,
        )  # fmt: skip
        call.written_card = card
        return call

    @property
    def public_id(self) -> str:
        """The id in the API and on pages, unique across all runs."""
        return f"{self.run_id}-{self.ordinal}"

    @property
    def agent_name(self) -> str:
        """The agent path, or the agent of its run."""
        return self.agent or self.run.agent_name

    @property
    def is_unreadable(self) -> bool:
        """Whether only the columns are readable, not the card.

        Its key is missing, or this version cannot read it.
        """
        return self._load_card() is None

    def as_card(self, late: Iterable[str] | None = None) -> Card:
        """Return the card, with the text that only the log has.

        `late`: that text if the caller has it. The card of an unreadable row is made from its columns, with an
        anomaly that says so.
        """
        if self.written_card is not None:
            return self.written_card
        card = self._load_card()
        if card is None:
            return self._build_from_columns()
        text = str(card.text) or self.text  # a text that no database column takes is in the card itself
        text += "".join(self._read_late_text() if late is None else late)
        return card.replace(text=Rope(text), rev=self.rev, seq=self.seq)

    def _load_card(self) -> Card | None:
        if self.written_card is not None:
            return self.written_card
        if type(self.card) is UnreadableText or type(self.text) is UnreadableText:
            return None
        try:
            return load_card(self.card)
        except UNREADABLE:
            return None

    def _read_late_text(self) -> Iterator[str]:
        if self.text_seq < self.seq and self.state == "input-streaming":
            events = Event.objects.after(self.run_id, self.text_seq).filter(ordinal=self.ordinal, seq__lte=self.seq)
            for event in events.of_type(InputDelta.type):
                if isinstance(fact := event.readable_fact, InputDelta):
                    yield fact.text

    def _build_from_columns(self) -> Card:
        started_at, requested_at, finished_at = (
            moment.timestamp() if moment else 0.0 for moment in (self.started_at, self.requested_at, self.finished_at)
        )
        return Card(
            self.call_id, self.ordinal, state=ToolCallState(self.state) if self.state else None, rev=self.rev,
            seq=self.seq, first_seq=self.first_seq, tool=CardTool(self.tool, self.kind), soft=self.soft,
            agent_path=tuple(self.agent.split(" › ")) if self.agent else (), removed=self.removed,
            anomalies=((CANNOT_BE_OPENED, started_at),),
            times=Milestones(started=started_at, requested=requested_at, finished=finished_at),
        )  # fmt: skip

    def _measure(self) -> int:
        return measure_card(self.written_card) if self.written_card is not None else len(self.card) + len(self.text)

    def as_shown_card(self) -> Card:
        """Return the card with masked secrets, cached per revision."""
        key = (self.run_id, self.ordinal, self.rev, self.seq)
        card = _shown_cards.get(key)
        if card is None:
            card = get_redactor().card(self.as_card())
            if len(_shown_cards) >= MAX_SHOWN_CARDS:
                _shown_cards.clear()
            if self._measure() < LARGE:
                _shown_cards[key] = card
        return card


class SourceDay(models.Model):
    """How many calls of a source were allowed, denied, refused or asked about on a day (days since 1970, UTC).

    See core/calls/permissions.py. The counts outlive the calls.
    """

    source = models.BigIntegerField()  # no foreign key: a deleted source must not fail a commit
    day = models.IntegerField()
    allowed = models.IntegerField(default=0)
    denied = models.IntegerField(default=0)
    refused = models.IntegerField(default=0)
    asked = models.IntegerField(default=0)

    class Meta:
        default_permissions = ()  # no one changes it by hand
        constraints = [models.UniqueConstraint(fields=["source", "day"], name="source_day")]

    def __str__(self) -> str:
        return f"source {self.source}, day {self.day}"
