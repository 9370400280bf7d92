"""Digests that bind an answer to an input, and a permit to a whole call."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from toolcards.client.common.canonical_json import NotCanonical, canonicalize, digest, digest_canonical_call
from toolcards.core.calls.card import Card

RECENT = 16  # values whose digests are kept: those of the calls of one commit


class _Canonical(NamedTuple):
    """A value with its canonical bytes and their digest. The value is kept, so that no other one gets its identity."""

    value: Any
    text: bytes
    sha256: str


_recent: tuple[_Canonical, ...] = ()


def digest_value(value: Any) -> str:
    """Return `canonical_json.digest` of an input.

    It is computed once for each object; raises NotCanonical.
    """
    return _canonicalize_once(value).sha256


def _canonicalize_once(value: Any) -> _Canonical:
    """Return the canonical form of the value. Inputs are never changed in place: an edit or a repair is a new one."""
    global _recent
    for entry in _recent:
        if entry.value is value:
            return entry
    text = canonicalize(value)
    canonical = _Canonical(value, text, hashlib.sha256(text).hexdigest())
    if type(value) is dict or type(value) is list:
        _recent = (canonical, *_recent[: RECENT - 1])  # one assignment, so threads can at worst lose an entry
    return canonical


def digest_input(card: Card) -> str:
    """Return the digest of the input that the card shows.

    Lower-case hex SHA-256 over the RFC 8785 form. Input without a canonical form (integers beyond 2^53, lone
    surrogates) is hashed as JSON with sorted keys.
    """
    try:
        return _canonicalize_once(card.shown_input).sha256
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
        args = _canonicalize_once(card.shown_input).text
        return digest_canonical_call(args, name=name, source=source, schema_sha256=schema_sha256)
    except NotCanonical:
        tool = {"name": name, "source": source}
        return digest(json.dumps([card.shown_input, schema_sha256, tool], sort_keys=True))
