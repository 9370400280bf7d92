"""Digests that bind an answer to an input, and a permit to a whole call."""

from __future__ import annotations

import json

from toolcards.client.common.canonical_json import NotCanonical, call_digest, digest
from toolcards.core.calls.card import Card


def digest_input(card: Card) -> str:
    """Return the digest of the input that the card shows.

    Lower-case hex SHA-256 over the RFC 8785 form. Input without a canonical form (integers beyond 2^53, lone
    surrogates) is hashed as JSON with sorted keys.
    """
    try:
        return digest(card.shown_input)
    except NotCanonical:
        return digest(json.dumps(card.shown_input, sort_keys=True))


def digest_call(card: Card) -> str:
    """Return the digest that binds a permit to a call.

    It covers tool, server, schema and input.
    Lower-case hex SHA-256 over the RFC 8785 form of `{"args", "schema_sha256", "tool": {"name", "source"}}`.
    """
    schema_sha256 = card.decision.schema_sha256 if card.decision else ""
    name, source = card.tool.name, card.tool.source
    try:
        return call_digest(card.shown_input, name=name, source=source, schema_sha256=schema_sha256)
    except NotCanonical:
        tool = {"name": name, "source": source}
        return digest(json.dumps([card.shown_input, schema_sha256, tool], sort_keys=True))
