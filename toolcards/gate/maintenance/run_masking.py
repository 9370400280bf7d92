"""Masks the secrets of an ended run permanently, in its log and in all texts that belong to it.

A run is read, masked and folded outside of a transaction. Then it is written in slices of whole calls, each of which
holds the lock only briefly. A run that changes in the meantime keeps its other calls until it is masked again: log and
cards agree after each slice.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from django.db import connection
from django.db.models import Model

from toolcards.audit.rows import AuditRow
from toolcards.audit.trail import Act
from toolcards.client.common.json_text import parse
from toolcards.core.calls.facts import dump
from toolcards.core.redaction.log_masking import LogMasker, find_difference, fold_facts
from toolcards.core.redaction.redactor import Redactor
from toolcards.core.runs.run_state import RunState
from toolcards.encryption import UnreadableText, get_redactor
from toolcards.gate.maintenance.pace import Pace
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.bulk_sql import FactUpdate, clean_text, update_facts
from toolcards.gate.writer.cache import run_cache, run_memory
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import Approval, Event, Receipt, ReceiptPart, Run, ToolCall, Vote
from toolcards.models.write_guard import allow_event_changes

log = logging.getLogger(__name__)
SLICE = 400  # events and cards that one transaction writes, unless a call has more
_refused_runs: dict[int, int] = {}  # run -> its seq when masking was refused; retried after new events


class MaskResult(Enum):
    """What became of a run: masked, refused with a reason in the log, or changed in the meantime."""

    MASKED = "masked"
    REFUSED = "refused"
    CHANGED = "changed"


def take_unrefused(runs: Any, count: int) -> list[Run]:
    """Return the first `count` runs, without those that were refused.

    A run that has changed since then counts again. If a key is lost, thousands are refused: too many for one query.
    """
    if not _refused_runs:
        return list(runs[:count])
    return list(runs.filter(pk__in=list(itertools.islice(_iterate_unrefused(runs), count))))


def count_unrefused(runs: Any) -> int:
    """Return the number of the runs, without those that were refused."""
    return sum(1 for _ in _iterate_unrefused(runs)) if _refused_runs else int(runs.count())


def _iterate_unrefused(runs: Any) -> Iterator[int]:
    versions = runs.values_list("pk", "seq").iterator(chunk_size=2_000)
    return (pk for pk, seq in versions if _refused_runs.get(pk) != seq)


def mask_run(run: Run, pace: Pace | None = None) -> MaskResult:
    """Mask the secrets of an ended run; without `pace` only predict it."""
    try:
        plan, fault = _plan_rewrite(run, get_redactor())
    except ValueError as error:  # a fact that is unknown to this version, or cannot be decrypted
        plan, fault = None, str(error)
    if plan is None:
        if not Run.objects.filter(pk=run.pk, seq=run.seq, status=run.status).exists():
            return MaskResult.CHANGED  # its agent came back while it was read
        if pace is not None:
            _refused_runs[run.pk] = run.seq
            log.error("retention: run %s stays as it is: %s", run.pk, fault)
            group_commit.execute(RecordRefusal(run, fault))
        return MaskResult.REFUSED
    if pace is None:
        return MaskResult.MASKED
    for step in plan:
        if not group_commit.execute(step):
            return MaskResult.CHANGED
        pace.pause()
    return MaskResult.MASKED


def _plan_rewrite(run: Run, hide: Redactor) -> tuple[list[RewriteCalls | FinishRewrite] | None, str]:
    """Read and mask the run's log; return the commands that write it, or the reason against it."""
    scrub, places, old = LogMasker(hide), [], []
    for event in Event.objects.after(run, 0).iterator(chunk_size=2_000):
        scrub.read(event.ordinal, event.decoded_fact, event.seq)
        places.append((event.ordinal, event.seq))
        old.append((event.fact, event.applied))
    if (places[-1][1] if places else 0) != run.seq:
        return None, "its log is incomplete"
    masked_facts = scrub.mask_facts()
    board, applied_facts = fold_facts(places, masked_facts)
    fault = find_difference(scrub.before, board) or _compare_stored(run, board)
    if fault:
        return None, fault
    new = ((dump(fact), is_applied) for fact, is_applied in zip(masked_facts, applied_facts, strict=True))
    triples = zip(new, old, places, strict=True)
    updates: dict[int, list[FactUpdate]] = {}
    for after, before, (ordinal, seq) in triples:
        if after != before:
            updates.setdefault(ordinal, []).append(FactUpdate(*after, run.pk, seq))
    event_count = sum(map(len, updates.values()))
    slices = _slice_calls(board, updates) if updates else []
    return [*(RewriteCalls(run, board, *part, hide) for part in slices), FinishRewrite(run, event_count, hide)], ""


def _slice_calls(board: RunState, updates: dict[int, list[FactUpdate]]) -> Iterator[tuple[set[int], list[FactUpdate]]]:
    """Split the calls into slices, with the events of each; the first one has those of the run itself."""
    ordinals, events = set[int](), updates.get(0, [])
    for ordinal in board.cards:
        ordinals.add(ordinal)
        events = events + updates.get(ordinal, [])
        if len(ordinals) + len(events) >= SLICE:
            yield ordinals, events
            ordinals, events = set(), []
    yield ordinals, events


def _compare_stored(run: Run, board: RunState) -> str:
    """Return "" if the stored calls match the board; `replay` repairs those that do not."""
    stored_states = dict(ToolCall.objects.filter(run=run).values_list("ordinal", "state"))
    states = {ordinal: str(card.state or "") for ordinal, card in board.cards.items()}
    return "" if stored_states == states and run.status == board.status else "its cards differ from its log"


class _Step(Command):
    """A step of masking a run. The answer is whether it was done: not if the run has changed, or is masked."""

    def __init__(self, run: Run, hide: Redactor) -> None:
        super().__init__()
        self.run, self.hide = run, hide

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        row: Any = Run.objects.select_for_update().filter(pk=self.run.pk).first()
        self.answer = (
            row is not None and row.seq == self.run.seq and row.ended_at is not None and row.scrubbed_at is None
        )
        if self.answer:
            run_cache.discard(row.pk)
            self.write(tx, row)

    def write(self, tx: Transaction, row: Any) -> None:
        """Write into the locked run."""
        raise NotImplementedError


class RewriteCalls(_Step):
    """Write the masked events and cards of these calls."""

    def __init__(
        self, run: Run, board: RunState, ordinals: set[int], updates: list[FactUpdate], hide: Redactor
    ) -> None:
        super().__init__(run, hide)
        self.board, self.ordinals, self.updates = board, ordinals, updates

    def write(self, tx: Transaction, row: Any) -> None:
        """See _Step."""
        with allow_event_changes(), connection.cursor() as cursor:
            update_facts(cursor, self.updates)
        row.agent = self.hide.text(row.agent)
        numbers, cards = json.loads(row.numbers), self.board.cards
        memory = run_memory.RunMemory(
            row=row, board=self.board, seq=row.seq, numbers=numbers, counts=Counter(), states={}, waiting=set(),
            asks={ordinal: card.approval for ordinal, card in cards.items() if card.approval}, touched=True,
            skipped=row.skipped_frames,
        )  # fmt: skip
        memory.dirty = set(self.ordinals)
        for card in cards.values():
            memory.update_counts(card)
        tx.runs[row.pk] = memory
        columns, pk = {"updated_at": row.updated_at}, row.pk
        tx.after_write.append(lambda: _keep_columns(pk, columns))


class FinishRewrite(_Step):
    """Write what else belongs to the run, and that it is masked."""

    def __init__(self, run: Run, event_count: int, hide: Redactor) -> None:
        super().__init__(run, hide)
        self.event_count = event_count

    def write(self, tx: Transaction, row: Any) -> None:
        """See _Step."""
        texts = self._write_texts(row)
        columns, pk = {"scrubbed_at": datetime.fromtimestamp(tx.now, UTC), "updated_at": row.updated_at}, row.pk
        tx.after_write.append(lambda: _keep_columns(pk, columns))
        if self.event_count or texts:
            detail = {"masked": {"events": self.event_count, "texts": texts}}
            tx.audit_acts.append(Act("retention", "timeout", run=row.name, detail=detail, at=tx.now))

    def _write_texts(self, row: Any) -> int:
        """Mask texts of people about the run's calls, and stored answers; return the number."""
        own = Receipt.objects.filter(source=row.source_id, created_at__gte=row.started_at, created_at__lte=row.ended_at)
        return sum(
            self._mask(text_row, names)
            for rows, names in (
                (Approval.objects.filter(run=row), ("edited", "reason", "note")),
                (Vote.objects.filter(approval__run=row), ("reason", "note")),
                (own.exclude(answer=""), ("answer",)),
                (ReceiptPart.objects.filter(receipt__in=own), ("body",)),
            )
            for text_row in rows.iterator()
        )

    def _mask(self, row: Model, names: Iterable[str]) -> int:
        texts = {name: getattr(row, name) for name in names}
        readable = {name: text for name, text in texts.items() if type(text) is not UnreadableText}
        changes = {name: new for name, text in readable.items() if (new := _mask_text(self.hide, text)) != text}
        if changes:
            type(row)._default_manager.filter(pk=row.pk).update(**changes)
        return len(changes)


class RecordRefusal(Command):
    """Record once in the audit trail that the run's secrets could not be masked without changing its outcome."""

    def __init__(self, run: Run, why: str) -> None:
        super().__init__()
        self.run, self.why = run, why

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        detail = {"refused": self.why, "seq": self.run.seq}
        before = AuditRow.objects.filter(act="retention", run=self.run.name).order_by("-seq").first()
        if before is None or before.details != detail:
            tx.audit_acts.append(Act("retention", "timeout", run=self.run.name, detail=detail, at=tx.now))


def _keep_columns(pk: int, columns: dict[str, Any]) -> None:
    """Write columns of the run after its row, which has other values of them."""
    run_cache.discard(pk)
    Run.objects.filter(pk=pk).update(**columns)


def _mask_text(hide: Redactor, text: str) -> str:
    """Mask a text that may be JSON."""
    is_json, value = parse(text)
    if not is_json or not isinstance(value, (dict, list)):
        return clean_text(hide.text(text))
    masked_value = hide.value(value)
    return text if masked_value is value else json.dumps(masked_value)
