"""One database transaction of the gate: lock runs, record facts, then write everything at the end.

Events, calls and runs are the hot path and are written with bulk SQL; all other tables use the ORM.

Longer than most modules: it is one class, the only one that writes the log.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from toolcards import doorbell
from toolcards.audit.trail import Act, append_acts
from toolcards.clocks import clock
from toolcards.core.calls.card import Card
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
    revise,
)
from toolcards.core.calls.tool_events import may_have_events
from toolcards.gate import call_trace
from toolcards.gate.decisions import tool_register
from toolcards.gate.decisions.digests import digest_input
from toolcards.gate.writer import approval_rows, audit_entries, bulk_sql, outbox_writer
from toolcards.gate.writer.bulk_sql import CallPosition, EventRow
from toolcards.gate.writer.cache import committed_cards, run_cache, run_memory
from toolcards.gate.writer.cache.run_cache import RollbackLog
from toolcards.gate.writer.cache.run_memory import RunMemory
from toolcards.ids import new_id
from toolcards.models import Run
from toolcards.notifications import subscriptions

LONG, SHARE = 0.1, 16  # seconds after which a commit takes only so many frames of each stream
LARGE = 2 << 20  # characters of facts after which it takes only one
MAX_SHARE = 1_000  # frames of one stream in any commit; limits how long other streams wait for their acks
TEXT_GROWTH = 1.25  # a streaming text is written again only after growing by this factor (models.ToolCall)
SMALL_TEXT = 4_096  # characters up to which a streaming text is always written
_AUDITED = {PolicyDecided, AnomalyRecorded}
_RUN_FACTS = {RunStarted, RunEnded, StepFinished}
_MISSING_ROW = (-1, False, 0, None, False)  # the columns read by `lock_runs`, for a run that was deleted


class Transaction:
    """The changes of one group commit. Use it inside `atomic`, and call `flush` last."""

    def __init__(self, now: float) -> None:
        self.now = now  # wall time
        self.steady, self.working = clock.steady(), clock.working()
        self.runs: dict[int, RunMemory] = {}
        self.approval_columns: dict[str, dict[str, Any]] = {}  # approval id -> columns not in the card
        self.new_permits: list[Callable[[], approval_rows.NewApproval]] = []  # build rows of permits that rules issue
        self.after_write: list[Callable[[], None]] = []  # called in the transaction, after the rows
        self.runs_with_answers: set[int] = set()  # runs with an approval that changed
        self.changed_approvals: list[tuple[RunMemory, int]] = []  # by this work: of these ordinals
        self.runs_with_skips: set[int] = set()  # runs with frames of unknown kinds
        self.waiting_by_source: dict[int, int] = {}  # calls that wait for people, of the sources that ask here
        self.affects_every_run = False  # a kill switch or break-glass change affects all runs
        self.outbox = outbox_writer.PayloadOutbox()
        self.trace_steps: list[tuple[str, call_trace.TraceStep]] = []
        self.permit_states: dict[str, str] = {}  # approval id of a rule's permit -> its new state
        self.small_cards: list[tuple[int, Card]] = []  # written ones, each with its run
        self.uses: Counter[tuple[str, Any]] = Counter()  # of (table, pk): grants and break-glass
        self.day_counts: Counter[audit_entries.DayCount] = Counter()
        self.audit_acts: list[Act] = []  # written to the audit trail at the end
        self.rollback_log: RollbackLog | None = None  # of the present work, if it can be refused
        self._began, self.size = time.monotonic(), 0  # characters of the facts so far
        self._is_traced = call_trace.is_enabled()
        self._is_finished = False  # `finish_commit` has reset the cached runs

    @property
    def share(self) -> int:
        """Return how many frames of one stream this commit takes.

        The others wait for the next one.
        """
        if self.size > LARGE:
            return 1
        return SHARE if time.monotonic() - self._began > LONG else MAX_SHARE

    # ------------------------------------------------------------ runs

    def lock_runs(self, keys: Iterable[tuple[int, str]], list_approvals: Callable[[], Iterable[str]] = tuple) -> None:
        """Lock the runs of these works before all other rows.

        `keys`: (source pk, name). `list_approvals` returns ids of approvals or permits.
        """
        self.steady, self.working = clock.steady(), clock.working()
        cached_pks = {key: run_cache.find_pk(*key) for key in keys}
        pks = set(filter(None, cached_pks.values()))
        if connection.features.has_select_for_update:  # else there is one writer, which locks everything
            new_keys = [key for key, pk in cached_pks.items() if pk is None]
            pks |= approval_rows.find_runs(list_approvals())
            found_pks = bulk_sql.find_runs(new_keys) if len(new_keys) + len(pks) > 1 else set()
            if len(new_keys) - len(found_pks) > 1:  # two that add the same runs would wait in a circle
                bulk_sql.lock_new_runs(new_keys)
                found_pks = bulk_sql.find_runs(new_keys)
            pks |= found_pks
        self.lock_rows(pks)

    def lock_rows(self, pks: Iterable[int]) -> None:
        """Lock these runs in one query, in the order of all writers.

        Those that are cached are loaded, and dropped from the cache if they are stale.
        """
        pks = sorted(set(pks) - self.runs.keys())
        if not pks:
            return
        with connection.cursor() as cursor:
            marks = ", ".join(["%s"] * len(pks))
            lock = " ORDER BY id FOR UPDATE" if connection.features.has_select_for_update else ""
            names = "id, seq, scrubbed_at IS NULL, skipped, alive_until, beats"
            cursor.execute(f"SELECT {names} FROM toolcards_run WHERE id IN ({marks}){lock}", pks)  # noqa: S608
            rows = {pk: columns for pk, *columns in cursor.fetchall()}
        for pk in pks:
            memory = run_cache.get(pk)
            seq, is_unmasked, skip_count, alive_until, beats = rows.get(pk, _MISSING_ROW)
            if memory is not None and (seq, bool(is_unmasked), skip_count) == memory.row_version:
                memory.row.alive_until, memory.row.beats = alive_until, bool(beats)  # any process may renew a lease
                self.runs[pk] = memory
            else:
                run_cache.discard(pk)

    def has_run(self, source_id: int, name: str) -> bool:
        """Return whether the source has a run of that name."""
        pk = run_cache.find_pk(source_id, name)
        return pk in self.runs or Run.objects.filter(source_id=source_id, name=name).exists()

    def get_or_create_run(self, source_id: int, name: str, **defaults: Any) -> RunMemory:
        """Return the locked run of that source and name.

        A new one gets `defaults`.
        """
        pk = run_cache.find_pk(source_id, name)
        if pk in self.runs:
            return self.runs[pk]
        row = Run.objects.select_for_update().filter(source_id=source_id, name=name).first()
        return self._add_run(row) if row is not None else self._create_run(source_id, name, defaults)

    def _create_run(self, source_id: int, name: str, defaults: dict[str, Any]) -> RunMemory:
        try:
            with transaction.atomic():
                row = Run.objects.create(source_id=source_id, name=name, **defaults)
        except IntegrityError:  # another process has created it
            return self._add_run(Run.objects.select_for_update().get(source_id=source_id, name=name))
        memory = self.runs[row.pk] = run_memory.create_memory(row)
        run_cache.store(memory)
        if self.rollback_log is not None:
            self.rollback_log.note_creation(memory)
        return memory

    def load_run(self, pk: int) -> RunMemory:
        """Return the locked run; raises Run.DoesNotExist."""
        if pk not in self.runs and run_cache.get(pk) is not None:
            self.lock_rows([pk])
        if pk in self.runs:
            return self.runs[pk]
        return self._add_run(Run.objects.select_for_update().get(pk=pk))

    def _add_run(self, row: Run) -> RunMemory:
        if row.pk in self.runs:
            return self.runs[row.pk]  # it has unwritten facts, and the cache may have dropped it meanwhile
        memory = run_cache.get(row.pk)
        if memory is None or memory.row_version != (row.seq, row.scrubbed_at is None, row.skipped):
            memory = run_memory.load_memory(row)
            run_cache.store(memory)
        memory.row.alive_until, memory.row.beats = row.alive_until, row.beats
        self.runs[row.pk] = memory
        return memory

    # ------------------------------------------------------------ facts

    def record(self, memory: RunMemory, fact: AnyFact, about: Card | None = None) -> list[Card]:
        """Log the fact and apply it.

        Return its cards in their new state.
        `about`: the card, if the caller knows it. Otherwise the fact's call id selects the newest one.
        """
        board, cards = memory.board, []
        for ordinal, routed_fact in board.route(fact, about.ordinal if about else 0):
            if type(routed_fact) is ApprovalRequested and not routed_fact.id:
                routed_fact = revise(routed_fact, id=new_id("apr"))
            before = board.cards.get(ordinal)
            if self.rollback_log is not None:
                self.rollback_log.note_change(memory, ordinal, before)
            if memory.sequencer.pending is not None:
                self._notify_settled(memory, ordinal, routed_fact)
            memory.seq += 1
            _, is_applied = board.record(ordinal, routed_fact, memory.seq)
            text = dump(routed_fact)
            self.size += len(text)
            memory.events.append(EventRow(memory.row.pk, memory.seq, routed_fact.at, ordinal, text, is_applied))
            card = board.cards.get(ordinal)
            if card is not None:
                cards.append(card)
                if card is not before:
                    memory.dirty.add(ordinal)
                    if type(routed_fact) is not InputDelta:
                        self._notify_change(memory, before, card, routed_fact)
                if card.approval is not None or card.permit is not None:
                    memory.has_approvals = True
                has_new_approval = card.approval is not (before and before.approval)
                if has_new_approval:
                    self.changed_approvals.append((memory, ordinal))
                if (is_applied and type(routed_fact) in _AUDITED) or has_new_approval:
                    self.audit_acts += audit_entries.build_acts(memory, routed_fact, before, card)
                if card.permit is not (before and before.permit):
                    self._record_permit(memory, routed_fact, card)
                if card.has_input and (before is None or card.input is not before.input) and card.waiting:
                    self._rebind(memory, card, routed_fact.at)
            elif type(routed_fact) in _RUN_FACTS:
                self._notify_run(memory, routed_fact)
        return cards

    def _rebind(self, memory: RunMemory, card: Card, timestamp: float) -> None:
        """Bind an approval that the agent opened to its changed input, so that votes refer to that input."""
        ask = card.approval
        assert ask is not None
        if ask.opener == "agent" and (sha256 := digest_input(card)) != ask.args_sha256:
            self.record(memory, ApprovalInputChanged(card.call_id, sha256, ask.id, timestamp), card)

    def _record_permit(self, memory: RunMemory, fact: AnyFact, card: Card) -> None:
        """Keep the new state of a rule's permit for its row and the audit trail."""
        assert card.permit is not None
        if card.permit.state != "issued":
            self.permit_states[card.permit.id] = card.permit.state
            self.audit_acts += audit_entries.build_permit_acts(memory, fact, card)

    def _notify_settled(self, memory: RunMemory, ordinal: int, fact: AnyFact) -> None:
        """Queue the notification of a call whose end was held back until this fact."""
        unsettled_events = memory.sequencer.release(ordinal, fact)
        if unsettled_events is not None and subscriptions.has_listeners():
            self.outbox.add_settled(memory, unsettled_events)

    def _notify_change(self, memory: RunMemory, before: Card | None, card: Card, fact: AnyFact) -> None:
        """Queue the notification of a changed call and its line in the call trace."""
        if may_have_events(before, card):
            events = memory.sequencer.list_events(card.ordinal, before, card, fact, memory.seq)
            if events and subscriptions.has_listeners():
                self.outbox.add(memory, before, card, fact, events)
        step = call_trace.build_step(before, card, fact) if self._is_traced else None
        if step is not None:
            self.trace_steps.append((memory.row.name, step))

    def record_timing(self, phase: str, memory: RunMemory, card: Card, seconds: float) -> None:
        """Add the duration of a phase to the call trace."""
        self.trace_steps.append((memory.row.name, call_trace.build_timed_step(phase, card, self.now, seconds)))

    def _notify_run(self, memory: RunMemory, fact: AnyFact) -> None:
        if isinstance(fact, RunEnded) and subscriptions.has_listeners():
            self.outbox.add_run_end(memory, fact)
        if isinstance(fact, RunStarted) and fact.tools:
            memory.offers = None
            self.after_write.append(lambda: tool_register.register_announced_tools(memory.row.source_id, fact.tools))
        if not self._is_traced:
            return
        if isinstance(fact, StepFinished):
            step: call_trace.TraceStep | None = call_trace.build_agent_step(memory.board, fact)
        else:
            step = call_trace.build_step(None, None, fact)
        if step is not None:
            self.trace_steps.append((memory.row.name, step))

    # ------------------------------------------------------------ writing

    def write_known_approvals(self) -> None:
        """Write the approvals that this work changed, unless they are new.

        The next work of this commit reads their rows. New ones are written with their calls.
        """
        for memory, ordinal in self.changed_approvals:
            if approval_rows.write_known_approval(memory, memory.board.cards.get(ordinal), self.approval_columns):
                self.runs_with_answers.add(memory.row.pk)
        self.changed_approvals = []

    def flush(self) -> bool:
        """Write everything recorded: the log, the calls, the runs, the approvals.

        Return whether there was anything.
        """
        changed_runs = [memory for memory in self.runs.values() if memory.events or memory.touched]
        if changed_runs:
            self._write(changed_runs)
        has_more = bool(self.after_write or self.outbox.payloads or self.uses or self.day_counts or self.audit_acts)
        if has_more:
            self._finish()
        return bool(changed_runs) or has_more

    def _write(self, memories: list[RunMemory]) -> None:
        events: list[EventRow] = []
        approvals: list[tuple[RunMemory, Card]] = []
        rows, now = [], timezone.now()
        with connection.cursor() as cursor:
            for memory in memories:
                events += memory.events
            if events:
                bulk_sql.insert_events(cursor, events)
            self._write_calls(cursor, memories)
            for memory in memories:
                if memory.has_approvals and (cards := approval_rows.find_changed_cards(memory)):
                    approvals += zip(repeat(memory), cards)
                    self.runs_with_answers.add(memory.row.pk)
                if memory.has_new_skips:
                    self.runs_with_skips.add(memory.row.pk)
                rows.append(memory.build_row(self.now, now))
            bulk_sql.update_runs(cursor, rows)
        if approvals or self.new_permits:
            self._write_approvals(approvals)
        if self.permit_states:
            approval_rows.write_permit_states(self.permit_states)

    def _write_approvals(self, approvals: list[tuple[RunMemory, Card]]) -> None:
        offset = clock.offset()
        new_rows = [build_row() for build_row in self.new_permits]
        for memory, card in approvals:
            new_row = approval_rows.write_approval(memory, card, self.approval_columns, offset)
            new_rows += [new_row] if new_row else []
        if new_rows:
            approval_rows.insert_approvals(new_rows)

    def _finish(self) -> None:
        for callback in self.after_write:
            callback()
        if self.outbox.payloads:
            self.outbox.write(self.now)
        if self.uses:
            bulk_sql.add_uses(self.uses)
        if self.day_counts:
            audit_entries.add_day_counts(self.day_counts)
        if self.audit_acts:  # last, because this locks the end of the trail until the commit
            append_acts(self.audit_acts)

    def forget(self) -> None:
        """Drop the cached runs that changed, after a rollback.

        Runs without facts are dropped too: this transaction may have created their rows.
        """
        for pk, memory in self.runs.items():
            if memory.events or memory.dirty or memory.touched or memory.seq == 0 or self._is_finished:
                run_cache.discard(pk)

    def has_changes(self, keys: Iterable[tuple[int, str]]) -> bool:
        """Return whether one of these runs is to be written.

        `keys`: (source pk, name).
        """
        names = set(keys)
        memories = (memory for memory in self.runs.values() if (memory.row.source_id, memory.row.name) in names)
        return any(memory.events or memory.touched for memory in memories)

    def finish_commit(self) -> list[int]:
        """Reset the cached runs once everything is written.

        Return the bells to ring.
        """
        changed_runs = [pk for pk, memory in self.runs.items() if memory.events or pk in self.runs_with_skips]
        for memory in self.runs.values():
            memory.events, memory.dirty, memory.touched = [], set(), False
        run_cache.record_use(self.runs.values())
        self._is_finished = True
        transaction.on_commit(lambda: committed_cards.publish(self.small_cards), robust=True)
        every_run = [doorbell.EVERY_RUN] if self.affects_every_run else []
        return [*every_run, *changed_runs, *map(doorbell.get_approvals_bell, self.runs_with_answers)]

    def _write_calls(self, cursor: Any, memories: list[RunMemory]) -> None:
        rows, positions = [], []
        for memory in memories:
            for ordinal in memory.dirty:
                card = memory.board.cards[ordinal]
                if card.state != "input-streaming" and (text := card.text.join()) is not card.text:
                    card = memory.board.cards[ordinal] = card.replace(text=text)
                memory.update_counts(card)
                stored_size = memory.text_sizes.get(ordinal, -1)
                is_streaming = card.state == "input-streaming" and stored_size >= 0
                size = card.text.length
                if is_streaming and SMALL_TEXT < size < stored_size * TEXT_GROWTH:
                    positions.append(CallPosition(card.rev, card.seq, memory.row.pk, ordinal))
                else:
                    memory.text_sizes[ordinal] = size
                    rows.append(bulk_sql.build_call_row(memory.row.pk, card))
                    size += len(rows[-1].card)
                    memory.note_size(ordinal, size)
                if size <= committed_cards.MAX_SIZE:
                    self.small_cards.append((memory.row.pk, card))
            for (day, word), count in memory.permission_changes.items():
                self.day_counts[memory.row.source_id, day, word] += count
            memory.permission_changes.clear()
        if rows:
            bulk_sql.write_calls(cursor, rows)
        if positions:
            bulk_sql.update_positions(cursor, positions)
