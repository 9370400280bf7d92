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
    AnomalyRecorded,
    AnyFact,
    ApprovalInputChanged,
    ApprovalRequested,
    InputDelta,
    PolicyDecided,
    RunEnded,
    RunStarted,
    StepFinished,
    dump,
)
from toolcards.core.calls.tool_events import may_have_events
from toolcards.gate.decisions import tool_register
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.writer import approval_rows, audit_entries, call_trace, outbox_writer, timekeeping
from toolcards.gate.writer import run_cache as memories
from toolcards.gate.writer.bulk_sql import (
    UPDATE_CALL_POSITION,
    adapt_timestamp,
    clean_text,
    fit_text,
    get_search_values,
    insert_events,
    write_calls,
    write_runs,
)
from toolcards.gate.writer.run_cache import RunMemory
from toolcards.ids import new_id
from toolcards.models import Run
from toolcards.notifications import subscriptions

TEXT_GROWTH = 1.25  # a streaming text is written again only when it grew by this much (models.ToolCall)
SMALL_TEXT = 4_096
_AUDITED = {PolicyDecided, AnomalyRecorded}
_RUN_FACTS = {RunStarted, RunEnded, StepFinished}
_MISSING_ROW = (-1, False, 0, None, False)  # what a run's row says that is not there any more


class Transaction:
    """What one group commit is made of. Use inside `atomic`; call `flush` last."""

    def __init__(self, now: float) -> None:
        self.now = now  # wall time
        self.steady, self.working = clock.steady(), clock.working()
        self.runs: dict[int, RunMemory] = {}
        self.approval_columns: dict[str, dict[str, Any]] = {}  # approval id -> columns that the card does not know
        self.after_write: list[Callable[[], None]] = []  # what needs the written rows, still inside the transaction
        self.runs_with_answers: set[int] = set()  # runs with an approval that changed
        self.runs_with_skips: set[int] = set()  # runs with frames of unknown kinds
        self.affects_every_run = False  # something that holds for every run has changed
        self.outbox = outbox_writer.Outbox()
        self.trace_steps: list[tuple[str, call_trace.Step]] = []
        self.permit_states: dict[str, str] = {}  # approval id of a rule's permit -> its new state
        self.audit_acts: list[Act] = []  # what the audit trail will say of this transaction

    # ------------------------------------------------------------ runs

    def lock_runs(self, keys: Iterable[tuple[int, str]]) -> None:
        """Lock the runs among these (source, name) that we remember, in one query, and keep what is still true.

        The time is agreed on before: this process may have been stopped, or asleep, since it last wrote.
        """
        timekeeping.catch_up()
        self.steady, self.working = clock.steady(), clock.working()
        pks = sorted({pk for key in keys if (pk := memories.find_pk(*key)) and pk not in self.runs})
        if not pks:
            return
        with connection.cursor() as cursor:
            marks = ", ".join(["%s"] * len(pks))
            lock = " ORDER BY id FOR UPDATE" if connection.features.has_select_for_update else ""
            columns = "id, seq, scrubbed_at IS NULL, skipped, alive_until, beats"
            cursor.execute(f"SELECT {columns} FROM toolcards_run WHERE id IN ({marks}){lock}", pks)  # noqa: S608
            now = {row[0]: row[1:] for row in cursor.fetchall()}
        for pk in pks:
            memory = memories.get(pk)
            seq, raw, skipped, alive_until, beats = now.get(pk, _MISSING_ROW)
            if memory is not None and (seq, bool(raw), skipped) == memory.row_version:
                memory.row.alive_until, memory.row.beats = alive_until, bool(beats)  # any process may renew a lease
                self.runs[pk] = memory
            else:
                memories.discard(pk)

    def get_or_create_run(self, source_id: int, name: str, **defaults: Any) -> RunMemory:
        """Return the run of that source and name, locked; made with `defaults` if it is new."""
        pk = memories.find_pk(source_id, name)
        if pk in self.runs:
            return self.runs[pk]
        row = Run.objects.select_for_update().filter(source_id=source_id, name=name).first()
        if row is None:
            made, _ = Run.objects.get_or_create(source_id=source_id, name=name, defaults=defaults)
            row = Run.objects.select_for_update().get(pk=made.pk)  # another process may have made it, and written
        return self._enter(row)

    def load_run(self, pk: int) -> RunMemory:
        """Return the run, locked; raises Run.DoesNotExist."""
        if pk in self.runs:
            return self.runs[pk]
        return self._enter(Run.objects.select_for_update().get(pk=pk))

    def _enter(self, row: Run) -> RunMemory:
        memory = memories.get(row.pk)
        if memory is None or memory.row_version != (row.seq, row.scrubbed_at is None, row.skipped):
            memory = memories.load_memory(row)
            memories.put(memory)
        memory.row.alive_until, memory.row.beats = row.alive_until, row.beats
        self.runs[row.pk] = memory
        return memory

    # ------------------------------------------------------------ facts

    def record(self, memory: RunMemory, fact: AnyFact, about: Card | None = None) -> list[Card]:
        """Write the fact down and apply it; return the cards it spoke of, as they are now.

        `about`: the very card, where the caller knows it. Without it the fact's call id finds the newest one.
        """
        board, spoken_of = memory.board, []
        for ordinal, routed in board.route(fact, about.ordinal if about else 0):
            if type(routed) is ApprovalRequested and not routed.id:
                object.__setattr__(routed, "id", new_id("apr"))
            if memory.sequencer.pending is not None:
                self._notify_settled(memory, ordinal, routed)
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
                        self._notify_change(memory, before, card, routed)
                if (applied and type(routed) in _AUDITED) or card.approval is not (before and before.approval):
                    self.audit_acts += audit_entries.build_acts(memory, routed, before, card)
                if card.permit is not (before and before.permit):
                    self._move_permit(memory, routed, card)
                if card.waiting and card.has_input and (before is None or card.input is not before.input):
                    self._rebind(memory, card, routed.at)
            elif type(routed) in _RUN_FACTS:
                self._notify_run(memory, routed)
        return spoken_of

    def _rebind(self, memory: RunMemory, card: Card, at: float) -> None:
        """Bind an agent's own open question to the input that the agent has changed, so that votes name it."""
        ask = card.approval
        assert ask is not None
        if ask.opener == "agent" and (sha256 := digest_input(card)) != ask.args_sha256:
            self.record(memory, ApprovalInputChanged(card.call_id, sha256, ask.id, at), card)

    def _move_permit(self, memory: RunMemory, fact: AnyFact, card: Card) -> None:
        """Keep what became of a rule's permit, for its row and for the audit trail."""
        assert card.permit is not None
        if card.permit.state != "issued":
            self.permit_states[card.permit.id] = card.permit.state
            self.audit_acts += audit_entries.build_permit_acts(memory, fact, card)

    def _notify_settled(self, memory: RunMemory, ordinal: int, fact: AnyFact) -> None:
        """What others will be told of a call whose end had to wait for this fact."""
        held = memory.sequencer.release(ordinal, fact)
        if held is not None and subscriptions.has_listeners():
            self.outbox.settle(memory, held)

    def _notify_change(self, memory: RunMemory, before: Card | None, card: Card, fact: AnyFact) -> None:
        """What others will be told of it, and its line in the step log."""
        if may_have_events(before, card):
            events = memory.sequencer.list_events(card.ordinal, before, card, fact, memory.seq)
            if events and subscriptions.has_listeners():
                self.outbox.note(memory, before, card, fact, events)
        step = call_trace.build_step(before, card, fact) if call_trace.is_enabled() else None
        if step is not None:
            self.trace_steps.append((memory.row.name, step))

    def record_timing(self, phase: str, memory: RunMemory, card: Card, seconds: float) -> None:
        """Keep how long a phase of ours took, for the step log."""
        self.trace_steps.append((memory.row.name, call_trace.build_timed_step(phase, card, self.now, seconds)))

    def _notify_run(self, memory: RunMemory, fact: AnyFact) -> None:
        if isinstance(fact, RunEnded) and subscriptions.has_listeners():
            self.outbox.ended(memory, fact)
        if isinstance(fact, RunStarted) and fact.tools:
            memory.offers = None
            self.after_write.append(lambda: tool_register.register_announced_tools(memory.row.source_id, fact.tools))
        if not call_trace.is_enabled():
            return
        whole = isinstance(fact, StepFinished)
        step = call_trace.build_agent_step(memory.board, fact) if whole else call_trace.build_step(None, None, fact)
        if step is not None:
            self.trace_steps.append((memory.row.name, step))

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
                insert_events(cursor, events)
            self._write_calls(cursor, told)
            asked = [(memory, card) for memory in told for card in approval_rows.find_changed_cards(memory)]
            self.runs_with_answers = {memory.row.pk for memory, _ in asked}
            write_runs(cursor, [self._run_row(memory) for memory in told])
        for memory, card in asked:
            approval_rows.write_approval(memory, card, self.approval_columns, clock.offset())
        approval_rows.write_permit_states(self.permit_states)

    def _finish(self) -> None:
        for afterwards in self.after_write:
            afterwards()
        self.outbox.write(self.now)
        if self.audit_acts:  # last, since everybody's acts queue here: the end of the trail is locked until the commit
            end = AuditRow.objects.append(self.audit_acts)
            transaction.on_commit(lambda: anchor.note(*end), robust=True)

    def forget(self) -> None:
        """After a rollback: nothing we have in mind about these runs is true."""
        for pk in self.runs:
            memories.discard(pk)

    def finish_commit(self) -> list[int]:
        """After the commit: return the bells to ring, and begin anew."""
        news = [pk for pk, memory in self.runs.items() if memory.events or pk in self.runs_with_skips]
        for memory in self.runs.values():
            memory.events, memory.dirty, memory.touched = [], set(), False
        everybody = [doorbell.EVERY_RUN] if self.affects_every_run else []
        return [*everybody, *news, *map(doorbell.get_approvals_bell, self.runs_with_answers)]

    def log_steps(self) -> None:
        """Once the commit is done: write the step log's lines."""
        for run, step in self.trace_steps:
            call_trace.log_step(run, step)

    def _write_calls(self, cursor: Any, told: list[RunMemory]) -> None:
        whole, grew = [], []
        for memory in told:
            for ordinal in memory.dirty:
                card = memory.board.cards[ordinal]
                memory.count(card)
                stored = memory.text_sizes.get(ordinal, -1)
                streams = card.state == "input-streaming" and stored >= 0
                if streams and SMALL_TEXT < len(card.text) < stored * TEXT_GROWTH:
                    grew.append((card.rev, card.seq, memory.row.pk, ordinal))
                else:
                    memory.text_sizes[ordinal] = len(card.text)
                    whole.append(self._call_row(memory, card))
        if whole:
            write_calls(cursor, whole)
        if grew:
            cursor.executemany(UPDATE_CALL_POSITION, grew)

    def _call_row(self, memory: RunMemory, card: Card) -> tuple[Any, ...]:
        whole = str(card.text)
        text = clean_text(whole)  # what no column takes is kept in the card
        return (
            memory.row.pk, card.ordinal, *get_search_values(card),
            adapt_timestamp(card.times.started), adapt_timestamp(card.times.requested),
            adapt_timestamp(card.times.finished),
            dump_card(card, with_text=text != whole), text, card.seq,
        )  # fmt: skip

    def _run_row(self, memory: RunMemory) -> tuple[Any, ...]:
        row, context = memory.row, memory.board.context
        row.agent = fit_text(context.agent, 200) or row.agent
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
            self.runs_with_skips.add(row.pk)
        if memory.events:
            row.scrubbed_at = None
        row.context, row.numbers = memories.dump_context(memory.board), json.dumps(memory.numbers)
        adapt = connection.ops.adapt_datetimefield_value
        ended = adapt(row.ended_at) if row.ended_at else None
        return (
            row.agent, row.title, row.protocol, row.mode, row.status, row.reason, adapt(row.updated_at), ended,
            row.alive_until, row.seq, row.calls, row.counts, row.skipped, row.skipped_kinds, row.context, row.numbers,
            row.seq, row.pk,
        )  # fmt: skip
