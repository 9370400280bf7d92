"""What a permission request of the Agent Client Protocol asks about: what is judged, shown and bound by a digest.

Agents may send the raw input of the call. Some send only what they show to their user: title, kind, content and
places. Of those, only an edit with its difference says all that would happen.
"""

from __future__ import annotations

from typing import Any

__all__ = ["describe_request", "is_exact"]

_PARTS = ("title", "kind", "content", "locations")
_UNREPORTED = "rawInput"  # null in a described input that does not say everything


def describe_request(call: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the request shows of its call, None with raw input."""
    if call.get("rawInput") not in (None, {}):
        return None
    parts = {name: call[name] for name in _PARTS if call.get(name) not in (None, "", [], {})}
    return parts if _has_difference(parts.get("content")) else parts | {_UNREPORTED: None}


def is_exact(value: Any) -> bool:
    """Return whether an equal input means the same call."""
    is_incomplete = isinstance(value, dict) and _UNREPORTED in value and value[_UNREPORTED] is None
    return not (is_incomplete and value.keys() <= {*_PARTS, _UNREPORTED})


def _has_difference(content: Any) -> bool:
    blocks = content if isinstance(content, list) else []
    return any(isinstance(block, dict) and block.get("type") == "diff" for block in blocks)
