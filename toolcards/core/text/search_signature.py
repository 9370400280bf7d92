"""Signatures of texts: bits set by their trigrams, which show that a text cannot contain what a search looks for.

A text contains a needle only if its signature has all bits of the needle. The converse does not hold, so a match has to
be checked in the text itself.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable

BITS = 2_048
SHORTEST = 3  # bytes of a needle: one trigram
LONGEST = 100_000  # bytes of a text; longer ones have all bits
EVERY_BIT = frozenset(range(BITS))
_LOW_FIRST = sys.byteorder == "little"


def _build_tables(position: int) -> tuple[bytes, bytes]:
    """Return the low and the high byte of a random number of 11 bits for each byte at that position of a trigram."""
    numbers = hashlib.shake_128(f"trigram {position}".encode()).digest(512)
    return numbers[:256], bytes(number & BITS - 1 >> 8 for number in numbers[256:])


_TABLES = [_build_tables(position) for position in range(3)]


def compute_bits(text: str) -> frozenset[int]:
    """Return the bits of the text's trigrams.

    The bit of a trigram is its tabulation hash. All trigrams are hashed at once: as bytes of two long numbers.
    """
    data = text.encode("utf-8", "surrogatepass")
    count = len(data) - 2
    if count < 1:
        return frozenset()
    if len(data) > LONGEST:
        return EVERY_BIT
    low = high = 0
    for position, (low_table, high_table) in enumerate(_TABLES):
        low ^= int.from_bytes(data.translate(low_table)[position : position + count], "little")
        high ^= int.from_bytes(data.translate(high_table)[position : position + count], "little")
    words = bytearray(2 * count)
    words[1 - _LOW_FIRST :: 2] = low.to_bytes(count, "little")
    words[_LOW_FIRST::2] = high.to_bytes(count, "little")
    return frozenset(memoryview(words).cast("H"))


def build_call_text(card_json: str, names: Iterable[str]) -> str:
    """Return the text that a search reads of a call.

    Its stored card and its names.
    """
    return "\n".join((card_json, *names)).casefold()


def list_needles(query: str) -> tuple[str, str]:
    """Return the query as in names, and as in stored cards."""
    return query.casefold(), json.dumps(query)[1:-1].casefold()


def list_needle_bits(query: str) -> list[frozenset[int]]:
    """Return the bits of each needle.

    Empty if a needle is too short for an index.
    """
    needles = set(list_needles(query))
    if any(len(needle.encode("utf-8", "surrogatepass")) < SHORTEST for needle in needles):
        return []
    return [compute_bits(needle) for needle in needles]
