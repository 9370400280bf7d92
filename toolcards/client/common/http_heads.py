"""Heads of HTTP messages that a proxy passes on: the others describe one connection or the body."""

from __future__ import annotations

import re
from collections.abc import Iterable

JSON, EVENTS, PLAIN = "application/json", "text/event-stream", "text/plain"
# About one connection (RFC 9110, 7.6.1), or about the body: its length, form, parts and proofs.
_NOT_PASSED = frozenset({
    "accept-charset", "accept-encoding", "connection", "digest", "expect", "host", "http2-settings", "keep-alive",
    "origin", "proxy-authenticate", "proxy-authorization", "proxy-connection", "repr-digest", "signature",
    "signature-input", "te", "trailer", "trailers", "transfer-encoding", "upgrade", "x-http-method",
    "x-http-method-override", "x-method-override",
})  # fmt: skip
_NAME = re.compile(r"[a-z0-9!#$%&'*+.^`|~-]+")  # without "_", which some servers read as "-"
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def is_clean(name: str, value: str) -> bool:
    """Return whether every program reads this head alike."""
    return _NAME.fullmatch(name.lower().replace("_", "-")) is not None and _CONTROL.search(value) is None


def choose_heads(heads: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the heads to pass on.

    Leaves out those of one connection, also the ones that `Connection` names, and all that describe the body.
    """
    heads = list(heads)
    options = ",".join(value for name, value in heads if name.lower() == "connection")
    not_passed = _NOT_PASSED | {option.strip().lower() for option in options.split(",")}
    return [(name, value) for name, value in heads if _passes(name.lower(), not_passed)]


def _passes(name: str, not_passed: frozenset[str]) -> bool:
    return name not in not_passed and not name.startswith("content-") and _NAME.fullmatch(name) is not None


def read_media_type(value: str) -> str:
    """Return the media type of a `Content-Type` without its parameters."""
    return value.partition(";")[0].strip(" \t").lower()
