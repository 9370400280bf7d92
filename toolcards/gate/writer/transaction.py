"""One database transaction of the gate: runs are locked, facts recorded, and everything written at the end.

The rows of events, calls and runs are written raw and in bulk (they are the hot path); all else is the ORM's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from toolcards import doorbell
from toolcards.audit import anchor
from toolcards.audit.trail import Act, AuditRow, redactor
from toolcards.clocks import clock
from toolcards.core.calls.card import Card
from toolcards.core.calls.card_codec import dump_card
from toolcards.core.calls.facts import (
    AnyFact,
    ApprovalAsked,
    ApprovalRebound,
    Decided,
    InputDelta,
    Odd,
    RunEnded,
    RunStarted,
    StepFinished,
    dump,
)
from toolcards.core.calls.tool_events import matters
from toolcards.gate.decisions import tool_register
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.writer import approval_rows, audit_entries, call_trace, outbox_writer, timekeeping
from toolcards.gate.writer import run_cache as memories
from toolcards.gate.writer.bulk_sql import (
    CALL_GREW,
    append,
    ascii_text,
    found_by,
    moment,
    plain,
    write_calls,
    write_runs,
)
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.ids import new_id
from toolcards.models import Run

TEXT_GROWTH = 1.25  # a streaming text is written again only when it grew by this much (models.ToolCall)
TEXT_SMALL = 4_096
_WATCHED = {Decided, Odd}
_RUNS = {RunStarted, RunEnded, StepFinished}
_GONE = (-1, False, 0, None, False)  # what a run's row says that is not there any more


class Transaction:
    """What one group commit is made of. Use inside `atomic`; call `flush` last."""

    def __init__(self, now: float) -> None:
        self.now = now  # wall time
        self.steady, self.working = clock.steady(), clock.working()
        self.runs: dict[int, RunMemory] = {}
        self.extras: dict[str, dict[str, Any]] = {}  # approval id -> columns that the card does not know
        self.after: list[Callable[[], None]] = []  # what needs the written rows, still inside the transaction
        self.answered: set[int] = set()  # runs with an approval that changed
        self.skipping: set[int] = set()  # runs with frames of unknown kinds
        self.switched = False  # something that holds for every run has changed
        self.told = outbox_writer.Told()
        self.steps: list[tuple[str, call_trace.Step]] = []
        self.permits: dict[str, str] = {}  # approval id of a rule's permit -> its new state
        self.acts: list[Act] = []  # what the audit trail will say of this transaction

    # ------------------------------------------------------------ runs

    def lock(self, keys: Iterable[tuple[int, str]]) -> None:
        """Lock the runs among these (source, name) that we remember, in one query, and keep what is still true.

        The time is agreed on before: this process may have been stopped, or asleep, since it last wrote.
        """
        timekeeping.catch_up()
        self.steady, self.working = clock.steady(), clock.working()
        pks = sorted({pk for key in keys if (pk := memories.known(*key)) and pk not in self.runs})
        if not pks:
            return
        with connection.cursor() as cursor:
            marks = ", ".join(["%s"] * len(pks))
            lock = " ORDER BY id FOR UPDATE" if connection.features.has_select_for_update else ""
            columns = "id, seq, scrubbed_at IS NULL, skipped, alive_until, beats"
            cursor.execute(f"SELECT {columns} FROM toolcards_run WHERE id IN ({marks}){lock}", pks)  # noqa: S608
            now = {row[0]: row[1:] for row in cursor.fetchall()}
        for pk in pks:
            memory = memories.recall(pk)
            seq, raw, skipped, alive_until, beats = now.get(pk, _GONE)
            if memory is not None and (seq, bool(raw), skipped) == memory.written:
                memory.row.alive_until, memory.row.beats = alive_until, bool(beats)  # any process may renew a lease
                self.runs[pk] = memory
            else:
                memories.forget(pk)

    def run(self, source_id: int, name: str, **born: Any) -> RunMemory:
        """Return the run of that source and name, locked; made with `born` if it is new."""
        pk = memories.known(source_id, name)
        if pk in self.runs:
            return self.runs[pk]
        row = Run.objects.select_for_update().filter(source_id=source_id, name=name).first()
        if row is None:
            made, _ = Run.objects.get_or_create(source_id=source_id, name=name, defaults=born)
            row = Run.objects.select_for_update().get(pk=made.pk)  # another process may have made it, and written
        return self._enter(row)

    def existing(self, pk: int) -> RunMemory:
        """Return the run, locked; raises Run.DoesNotExist."""
        if pk in self.runs:
            return self.runs[pk]
        return self._enter(Run.objects.select_for_update().get(pk=pk))

    def _enter(self, row: Run) -> RunMemory:
        memory = memories.recall(row.pk)
        if memory is None or memory.written != (row.seq, row.scrubbed_at is None, row.skipped):
            memory = memories.load(row)
            memories.keep(memory)
        memory.row.alive_until, memory.row.beats = row.alive_until, row.beats
        self.runs[row.pk] = memory
        return memory

    # ------------------------------------------------------------ facts

    def tell(self, memory: RunMemory, fact: AnyFact, about: Card | None = None) -> list[Card]:
        """Write the fact down and apply it; return the cards it spoke of, as they are now.

        `about`: the very card, where the caller knows it. Without it the fact's call id finds the newest one.
        """
        board, spoken_of = memory.board, []
        for ordinal, routed in board.route(fact, about.ordinal if about else 0):
            if type(routed) is ApprovalAsked and not routed.id:
                object.__setattr__(routed, "id", new_id("apr"))
            if memory.narrator.unsettled is not None:
                self._settled(memory, ordinal, routed)
            memory.seq += 1
            before = board.cards.get(ordinal)
            _, applied = board.record(ordinal, routed, memory.seq)
            memory.events.append((memory.row.pk, memory.seq, routed.at, ordinal, dump(routed), applied))
            card = board.cards.get(ordinal)
            if card is not None:
                spoken_of.append(card)
                if card is not before:
                    memory.dirty.add(ordinal)
                    if type(routed) is not InputDelta:
                        self._noted(memory, before, card, routed)
                if (applied and type(routed) in _WATCHED) or card.approval is not (before and before.approval):
                    self.acts += audit_entries.seen(memory, routed, before, card)
                if card.permit is not (before and before.permit):
                    self._move_permit(memory, routed, card)
                if card.waiting and card.has_input and (before is None or card.input is not before.input):
                    self._rebind(memory, card, routed.at)
            elif type(routed) in _RUNS:
                self._noted_run(memory, routed)
        return spoken_of

    def _rebind(self, memory: RunMemory, card: Card, at: float) -> None:
        """Bind an agent's own open question to the input that the agent has changed, so that votes name it."""
        ask = card.approval
        assert ask is not None
        if ask.opener == "agent" and (sha256 := digest_input(card)) != ask.args_sha256:
            self.tell(memory, ApprovalRebound(card.call_id, sha256, ask.id, at), card)

    def _move_permit(self, memory: RunMemory, fact: AnyFact, card: Card) -> None:
        """Keep what became of a rule's permit, for its row and for the audit trail."""
        assert card.permit is not None
        if card.permit.state != "issued":
            self.permits[card.permit.id] = card.permit.state
            self.acts += audit_entries.permit_moved(memory, fact, card)

    def _settled(self, memory: RunMemory, ordinal: int, fact: AnyFact) -> None:
        """What others will be told of a call whose end had to wait for this fact."""
        held = memory.narrator.released(ordinal, fact)
        if held is not None and outbox_writer.anybody():
            self.told.settle(memory, held)

    def _noted(self, memory: RunMemory, before: Card | None, card: Card, fact: AnyFact) -> None:
        """What others will be told of it, and its line in the step log."""
        if matters(before, card):
            events = memory.narrator.told(card.ordinal, before, card, fact, memory.seq)
            if events and outbox_writer.anybody():
                self.told.note(memory, before, card, fact, events)
        step = call_trace.step_of(before, card, fact) if call_trace.wanted() else None
        if step is not None:
            self.steps.append((memory.row.name, step))

    def took(self, phase: str, memory: RunMemory, card: Card, seconds: float) -> None:
        """Keep how long a phase of ours took, for the step log."""
        self.steps.append((memory.row.name, call_trace.timed(phase, card, self.now, seconds)))

    def _noted_run(self, memory: RunMemory, fact: AnyFact) -> None:
        if isinstance(fact, RunEnded) and outbox_writer.anybody():
            self.told.ended(memory, fact)
        if isinstance(fact, RunStarted) and fact.tools:
            memory.offers = None
            self.after.append(lambda: tool_register.register_announced_tools(memory.row.source_id, fact.tools))
        if not call_trace.wanted():
            return
        whole = isinstance(fact, StepFinished)
        step = call_trace.step_finished(memory.board, fact) if whole else call_trace.step_of(None, None, fact)
        if step is not None:
            self.steps.append((memory.row.name, step))

    # ------------------------------------------------------------ writing

    def flush(self) -> None:
        """Write all that was told: the log, the calls, the runs, the approvals."""
        told = [memory for memory in self.runs.values() if memory.events or memory.touched]
        if told:
            self._write(told)
        self._finish()

    def _write(self, told: list[RunMemory]) -> None:
        with connection.cursor() as cursor:
            events = [row for memory in told for row in memory.events]
            if events:
                append(cursor, events)
            self._write_calls(cursor, told)
            asked = [(memory, card) for memory in told for card in approval_rows.changed(memory)]
            self.answered = {memory.row.pk for memory, _ in asked}
            write_runs(cursor, [self._run_row(memory) for memory in told])
        for memory, card in asked:
            approval_rows.write(memory, card, self.extras, clock.offset())
        approval_rows.move_permits(self.permits)

    def _finish(self) -> None:
        for afterwards in self.after:
            afterwards()
        self.told.write(self.now)
        if self.acts:  # last, since everybody's acts queue here: the end of the trail is locked until the commit
            end = AuditRow.objects.append(self.acts)
            transaction.on_commit(lambda: anchor.note(*end), robust=True)

    def forget(self) -> None:
        """After a rollback: nothing we have in mind about these runs is true."""
        for pk in self.runs:
            memories.forget(pk)

    def committed(self) -> list[int]:
        """After the commit: return the bells to ring, and begin anew."""
        news = [pk for pk, memory in self.runs.items() if memory.events or pk in self.skipping]
        for memory in self.runs.values():
            memory.events, memory.dirty, memory.touched = [], set(), False
        everybody = [doorbell.EVERY_RUN] if self.switched else []
        return [*everybody, *news, *map(doorbell.answers_of, self.answered)]

    def tell_steps(self) -> None:
        """Once the commit is done: write the step log's lines."""
        for run, step in self.steps:
            call_trace.tell(run, step)

    def _write_calls(self, cursor: Any, told: list[RunMemory]) -> None:
        whole, grew = [], []
        for memory in told:
            for ordinal in memory.dirty:
                card = memory.board.cards[ordinal]
                memory.count(card)
                stored = memory.text_sizes.get(ordinal, -1)
                streams = card.state == "input-streaming" and stored >= 0
                if streams and TEXT_SMALL < len(card.text) < stored * TEXT_GROWTH:
                    grew.append((card.rev, card.seq, memory.row.pk, ordinal))
                else:
                    memory.text_sizes[ordinal] = len(card.text)
                    whole.append(self._call_row(memory, card))
        if whole:
            write_calls(cursor, whole)
        if grew:
            cursor.executemany(CALL_GREW, grew)

    def _call_row(self, memory: RunMemory, card: Card) -> tuple[Any, ...]:
        whole = str(card.text)
        text = ascii_text(whole)  # what no column takes is kept in the card
        return (
            memory.row.pk, card.ordinal, *found_by(card),
            moment(card.times.started), moment(card.times.requested), moment(card.times.finished),
            dump_card(card, with_text=text != whole), text, card.seq,
        )  # fmt: skip

    def _run_row(self, memory: RunMemory) -> tuple[Any, ...]:
        row, context = memory.row, memory.board.context
        row.agent = plain(context.agent, 200) or row.agent
        row.title, row.reason = (redactor().text(said) if said else "" for said in (row.title, row.reason))
        status = memory.status
        if status not in ("running", "waiting"):
            row.ended_at = row.ended_at or datetime.fromtimestamp(self.now, UTC)
        else:
            row.ended_at = None
        row.status, row.seq, row.updated_at = status, memory.seq, timezone.now()
        row.calls = sum(memory.counts.values())
        row.counts = json.dumps({state: n for state, n in memory.counts.items() if n})
        if memory.skipped_more:
            row.skipped, row.skipped_kinds = memory.skipped.total, memory.skipped.dump_kinds()
            self.skipping.add(row.pk)
        if memory.events:
            row.scrubbed_at = None
        row.context, row.numbers = memories.context_json(memory.board), json.dumps(memory.numbers)
        adapt = connection.ops.adapt_datetimefield_value
        ended = adapt(row.ended_at) if row.ended_at else None
        return (
            row.agent, row.title, row.protocol, row.mode, row.status, row.reason, adapt(row.updated_at), ended,
            row.alive_until, row.seq, row.calls, row.counts, row.skipped, row.skipped_kinds, row.context, row.numbers,
            row.seq, row.pk,
        )  # fmt: skip
