"""Heads of a client's request: those that pass, and those that refuse it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from email.message import Message as Headers
from typing import Any
from urllib.parse import urlsplit

from toolcards.client.common.http_heads import JSON, choose_heads, is_clean, read_media_type
from toolcards.mcp.messages import CALL, get_object, get_text, is_request

_UNIQUE = frozenset({
    "authorization", "content-encoding", "content-length", "content-type", "host", "origin", "transfer-encoding",
})  # fmt: skip
_SEPARATORS = {"cookie": "; "}
_NOT_ALLOWED = (403, "This host or origin is not allowed.")


def join_heads(heads: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the heads for the server, joining values of one name."""
    values: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for name, value in choose_heads(heads):
        values.setdefault(names.setdefault(name.lower(), name), []).append(value)
    return {name: _SEPARATORS.get(name.lower(), ", ").join(each) for name, each in values.items()}


def find_fault(headers: Headers, hosts: set[str], *, has_body: bool) -> tuple[int, str] | None:
    """Return the status and text of a refusal, None for no fault.

    Refuses heads that two programs could read differently, and web pages that found this address (DNS rebinding).
    """
    names = [name.lower() for name in headers]
    for name in names:
        if names.count(name) > 1 and (name in _UNIQUE or name.startswith("mcp-")):
            return 400, f"The header {name} was sent twice."
    if headers.defects or not all(is_clean(name, value) for name, value in headers.items()):
        return 400, "A header cannot be read."
    if not _is_from_here(headers, hosts):
        return _NOT_ALLOWED
    if not has_body:
        sends_body = headers.get("Content-Length", "0").strip() != "0" or "transfer-encoding" in names
        return (400, "A request of this method has no body.") if sends_body else None
    if read_media_type(headers.get("Content-Type", "")) != JSON:
        return 415, f"The Content-Type must be {JSON}."
    if headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        return 415, "The body must not be encoded."
    return None


def _is_from_here(headers: Headers, hosts: set[str]) -> bool:
    """Return whether the request is for this gateway, and from no page of another origin."""
    host, origin = headers.get("Host", "").lower(), headers.get("Origin")
    try:
        host_name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    is_own_origin = origin is None or origin.lower() == f"http://{host}"
    return host_name in hosts and is_own_origin and headers.get("Sec-Fetch-Site", "none") in {"none", "same-origin"}


def contradicts(headers: Headers, message: Any) -> bool:
    """Return whether `Mcp-Method` or `Mcp-Name` differ from the message."""
    if not is_request(message):
        return False
    params, name = get_object(message, "params"), headers.get("Mcp-Name")
    return headers.get("Mcp-Method", message["method"]).strip() != message["method"] or (
        name is not None and message["method"] == CALL and _decode(name.strip()) != get_text(params, "name")
    )


def _decode(value: str) -> str:
    """Return the text of a head that may be in Base64 (protocol 2026-07-28)."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return value
