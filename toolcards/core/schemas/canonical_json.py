"""RFC 8785 bytes and digests, shared with the client: see `toolcards.client.common.canonical_json`."""

from __future__ import annotations

from toolcards.client.common.canonical_json import (
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_NODES,
    NotCanonical,
    call_digest,
    canonical,
    digest,
    escape,
)

__all__ = ["MAX_DEPTH", "MAX_INTEGER", "MAX_NODES", "NotCanonical", "call_digest", "canonical", "digest", "escape"]
