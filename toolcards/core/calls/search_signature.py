"""Signatures of texts: bits set by their trigrams, which show that a text cannot contain what a search looks for.

A text contains a needle only if its signature has all bits of the needle. The converse does not hold, so a match has to
be checked in the text itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

BITS = 2_048
SHORTEST = 3  # bytes of a needle: one trigram
LONGEST = 100_000  # bytes of a text; longer ones have all bits
EVERY_BIT = frozenset(range(BITS))
_FACTOR, _SHIFT = 2_654_435_761, 32 - 11  # a multiplicative hash of 24 bits to 11 bits (Knuth)


def compute_bits(text: str) -> frozenset[int]:
    """Return the bits of the text's trigrams."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > LONGEST:
        return EVERY_BIT
    trigrams = set(zip(data, data[1:], data[2:], strict=False))
    return frozenset(
        ((first << 16 | second << 8 | third) * _FACTOR & 0xFFFFFFFF) >> _SHIFT for first, second, third in trigrams
    )


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
