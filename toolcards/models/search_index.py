"""The search index: signatures of calls, stored by bit and encrypted, so that a search reads only the bits it needs.

A segment holds up to CAPACITY calls, each at one position. For each bit it has a row of one bit per call; ROWS rows are
one encrypted text. A search decrypts the rows of the needle's bits and combines them with AND: the remaining positions
are the calls that may match. Calls outside the index, or changed after they were added, have `ToolCall.indexed` False;
a search reads them one by one.
"""

from __future__ import annotations

import binascii
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator

from django.db import models

from toolcards.core.text.search_signature import BITS
from toolcards.encryption import SealedText, UnreadableText

CAPACITY = 4_096  # calls of a segment
ROWS = 16  # bits whose rows are encrypted together
BLOCKS = BITS // ROWS
BROAD, SMALL = 4, 4_096  # of a small index the candidates are always listed


class SearchSegment(models.Model):
    """Some calls of the index, in the order of their positions."""

    calls = models.BinaryField()  # primary keys of ToolCall, 8 bytes each
    count = models.IntegerField()

    class Meta:
        default_permissions = ()  # no one changes it by hand

    def __str__(self) -> str:
        return f"{self.count} calls"

    @property
    def call_ids(self) -> array[int]:
        """The primary keys of the calls, by position."""
        return array("q", bytes(self.calls))


class SearchBlock(models.Model):
    """The rows of ROWS bits of a segment, each with one bit per call."""

    segment = models.ForeignKey(SearchSegment, on_delete=models.CASCADE, related_name="blocks", db_index=False)
    number = models.SmallIntegerField()
    rows = SealedText()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["segment", "number"], name="search_block_number")]

    def __str__(self) -> str:
        return f"block {self.number} of segment {self.segment_id}"


def pack_rows(rows: Iterable[int], count: int) -> str:
    """Return the rows of a block as text.

    `count` is the number of bits in each.
    """
    width = (count + 7) // 8
    return binascii.b2a_base64(b"".join(row.to_bytes(width, "little") for row in rows), newline=False).decode()


def unpack_rows(text: str) -> list[int]:
    """Return the rows of a block.

    Without the key, every call may match.
    """
    if type(text) is UnreadableText:
        return [-1] * ROWS
    data = binascii.a2b_base64(text)
    width = len(data) // ROWS
    return [int.from_bytes(data[row * width : (row + 1) * width], "little") for row in range(ROWS)]


def find_candidates(needles: list[frozenset[int]], before: int = 0) -> list[int] | None:
    """Return the indexed calls that may match, newest first.

    None if they are more than a BROAD-th of all: then it is faster to read the calls in order. `needles`: the bits of
    each text, of which a call contains one. `before`: only calls with a smaller primary key, 0 for all.
    """
    numbers = {bit // ROWS for bits in needles for bit in bits}
    blocks: dict[int, dict[int, list[int]]] = defaultdict(dict)
    texts = SearchBlock.objects.filter(number__in=numbers).values_list("segment_id", "number", "rows")
    for segment, number, text in texts.iterator(chunk_size=500):
        blocks[segment][number] = unpack_rows(text)
    positions: list[tuple[array[int], int]] = []
    for row in SearchSegment.objects.filter(pk__in=blocks).iterator(chunk_size=100):
        matches = 0
        for bits in needles:
            matches |= _intersect_rows(blocks[row.pk], bits, row.count)
        positions.append((row.call_ids, matches))
    total = sum(len(call_ids) for call_ids, _ in positions)
    if total > SMALL and sum(matches.bit_count() for _, matches in positions) > total / BROAD:
        return None
    candidates = {call_ids[position] for call_ids, matches in positions for position in _iterate_positions(matches)}
    return sorted((pk for pk in candidates if not before or pk < before), reverse=True)


def _intersect_rows(blocks: dict[int, list[int]], bits: Iterable[int], count: int) -> int:
    matches = (1 << count) - 1
    for bit in bits:
        matches &= blocks[bit // ROWS][bit % ROWS]
        if not matches:
            break
    return matches


def _iterate_positions(row: int) -> Iterator[int]:
    while row:
        lowest = row & -row
        yield lowest.bit_length() - 1
        row ^= lowest
