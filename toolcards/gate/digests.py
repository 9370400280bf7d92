"""The hash that binds an answer to an input."""

from __future__ import annotations

import json

from toolcards.core.canonical import NotCanonical, digest
from toolcards.core.lifecycle import Card


def digest_of_input(card: Card) -> str:
    """Return the lower-case hex SHA-256 over the RFC 8785 form of what the call shows as its input.

    Input that has no canonical form (integers beyond 2^53, lone surrogates) is hashed as our own JSON text.
    """
    try:
        return digest(card.shown_input)
    except NotCanonical:
        return digest(json.dumps(card.shown_input, sort_keys=True))
