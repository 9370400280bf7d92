"""Adds ended calls to the search index, in the background.

Signatures are computed outside of the writer. One command then writes the rows of the open segment, unless another
process has done so, and marks the calls as indexed, unless they have changed since they were read. A call that changes
later is added again; what the index had of it can only make it a candidate.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass
from itertools import islice

from django.db import connection
from django.db.models import QuerySet, TextField
from django.db.models.expressions import RawSQL

from toolcards.core.text.search_signature import BITS, build_call_text, compute_bits
from toolcards.gate.maintenance.pace import Pace
from toolcards.gate.writer import group_commit
from toolcards.gate.writer.command import Command
from toolcards.gate.writer.transaction import Transaction
from toolcards.models import ToolCall
from toolcards.models.search_index import BLOCKS, CAPACITY, ROWS, SearchBlock, SearchSegment, pack_rows, unpack_rows
from toolcards.models.write_guard import allow_log_writes

SMALLEST, BATCH = 256, 512  # calls that are added together
STEP = 64  # calls whose signatures are computed without a pause
SECONDS = 2.0  # of a round, with its pauses
BUSY = 250  # frames that wait to be written; the index waits for them
_UNCHANGED = "SELECT id FROM toolcards_toolcall WHERE id = %s AND card = %s"
_MARK_INDEXED = "UPDATE toolcards_toolcall SET indexed = TRUE WHERE id = ({unchanged})"


@dataclass(frozen=True, slots=True)
class CallSignature:
    """The bits of a call, a byte for each, and its card as stored: each write encrypts it with another nonce."""

    pk: int
    stored_card: str
    flags: bytes


def update_search_index(seconds: float = SECONDS, smallest: int = SMALLEST) -> int:
    """Add calls for at most so many seconds; return their number.

    Fewer than `smallest` calls wait for others.
    """
    pace, deadline, total = Pace(), time.monotonic() + seconds, 0
    if _has_empty_segment():
        group_commit.execute(DeleteEmptySegments())
    while time.monotonic() < deadline and group_commit.WRITER.backlog < BUSY:
        if len(find_waiting_calls(0, smallest).values_list("pk")) < smallest:
            break
        signatures = _compute_batch(pace)
        group_commit.execute(AddToIndex(signatures))
        pace.pause()
        total += len(signatures)
    return total


def find_waiting_calls(after: int, most: int) -> QuerySet[ToolCall]:
    """Return ended calls that are not indexed, oldest first.

    Behind this primary key. Without naming states: SQLite would take the index of states, and so read every ended call.
    """
    return ToolCall.objects.filter(indexed=False, finished_at__isnull=False, pk__gt=after).order_by("pk")[:most]


def _has_empty_segment() -> bool:
    oldest_call = ToolCall.objects.order_by("pk").values_list("pk", flat=True).first()
    segments = list(SearchSegment.objects.order_by("pk")[:2])
    return len(segments) == 2 and (oldest_call is None or max(segments[0].call_ids) < oldest_call)


def _compute_batch(pace: Pace) -> list[CallSignature]:
    signatures: list[CallSignature] = []
    while len(signatures) < BATCH:
        after = signatures[-1].pk if signatures else 0
        step = compute_signatures(find_waiting_calls(after, STEP))
        signatures += step
        pace.pause()
        if len(step) < STEP:
            break
    return signatures


def compute_signatures(calls: QuerySet[ToolCall]) -> list[CallSignature]:
    """Return the signatures of the calls."""
    stored_text = RawSQL("toolcards_toolcall.card", [], output_field=TextField())
    rows = calls.annotate(stored_card=stored_text).values_list(
        "pk", "stored_card", "card", "tool", "call_id", "agent", "run__name"
    )
    return [
        CallSignature(pk, stored_card, _build_flags(compute_bits(build_call_text(card, names))))
        for pk, stored_card, card, *names in rows
    ]


def _build_flags(bits: frozenset[int]) -> bytes:
    flags = bytearray(BITS)
    for bit in bits:
        flags[bit] = 1
    return bytes(flags)


class DeleteEmptySegments(Command):
    """Delete the oldest segments while none of their calls exists; the newest segment stays."""

    urgent = False

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        oldest_call = ToolCall.objects.order_by("pk").values_list("pk", flat=True).first()
        newest = SearchSegment.objects.order_by("-pk").values_list("pk", flat=True).first()
        for segment in SearchSegment.objects.filter(pk__lt=newest or 0).order_by("pk").iterator(chunk_size=1):
            if oldest_call is not None and max(segment.call_ids) >= oldest_call:
                break
            segment.delete()


class AddToIndex(Command):
    """Write signatures into the open segment and the next ones. The answer is the number of indexed calls."""

    urgent = False

    def __init__(self, signatures: list[CallSignature]) -> None:
        super().__init__()
        self.signatures = signatures

    def apply(self, tx: Transaction) -> None:
        """See group_commit.Work."""
        signatures = iter(self.signatures)
        while True:
            segment = SearchSegment.objects.select_for_update().order_by("-pk").first()
            if segment is None or segment.count >= CAPACITY:
                segment = SearchSegment(calls=b"", count=0)
            new_signatures = list(islice(signatures, CAPACITY - segment.count))
            if not new_signatures:
                break
            _append(segment, new_signatures)
        with allow_log_writes(), connection.cursor() as cursor:
            # A call that another process changes now is skipped: it is added again, and nothing waits for it.
            lock = " FOR UPDATE SKIP LOCKED" if connection.features.has_select_for_update_skip_locked else ""
            statement = _MARK_INDEXED.format(unchanged=_UNCHANGED + lock)
            cursor.executemany(statement, [(each.pk, each.stored_card) for each in self.signatures])
        self.answer = len(self.signatures)


def _append(segment: SearchSegment, signatures: list[CallSignature]) -> None:
    """Append the calls to the segment and write all of its blocks."""
    new_rows = [row << segment.count for row in _build_rows(signatures)]
    existing_rows = {block.number: block for block in segment.blocks.all()} if segment.pk else {}
    segment.calls = bytes(segment.calls) + array("q", (signature.pk for signature in signatures)).tobytes()
    segment.count += len(signatures)
    segment.save()
    blocks = []
    for number in range(BLOCKS):
        rows = new_rows[number * ROWS : (number + 1) * ROWS]
        block = existing_rows.get(number) or SearchBlock(segment=segment, number=number, rows="")
        if block.rows:
            rows = [row | earlier for row, earlier in zip(rows, unpack_rows(block.rows), strict=True)]
        block.rows = pack_rows(((row & (1 << segment.count) - 1) for row in rows), segment.count)
        blocks.append(block)
    SearchBlock.objects.bulk_create(
        blocks, update_conflicts=True, unique_fields=["segment", "number"], update_fields=["rows"]
    )


def _build_rows(signatures: list[CallSignature]) -> list[int]:
    """Return for each bit a number with one bit per call."""
    columns = []
    for start in range(0, len(signatures), 8):
        column = 0  # one byte per bit, for eight calls
        for position, signature in enumerate(signatures[start : start + 8]):
            column |= int.from_bytes(signature.flags, "little") << position
        columns.append(column.to_bytes(BITS, "little"))
    return [int.from_bytes(bytes(row), "little") for row in zip(*columns, strict=True)]
