"""Anchors: where the audit trail ends, as one line of JSON that only a holder of the server's secret can sign.

Pure: keys come from outside, by name. Version 1 was `{"seq", "hash"}` without a signature.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from toolcards.client.common.canonical_json import canonicalize

TYPE = "toolcards.audit.anchor"
VERSION = 2
GENESIS = "0" * 64
End = tuple[int, str]  # number and hash of a row


class InvalidAnchor(ValueError):
    """The anchor is unreadable, or signed by an unknown key; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The end of the trail: `seq` rows, the last one with this hash.

    `number` counts anchors; `line` counts beginnings (a new trail, or one that an operator accepted as it was).
    `at` and `since` are milliseconds since 1970: when it was made, and the time from which every act has its row.
    `doubts` explains why the start of the trail may be missing; `signed` is False for version 1.
    """

    seq: int = 0
    hash: str = GENESIS
    number: int = 1
    line: int = 1
    at: int = 0
    since: int = 0
    doubts: str = ""
    signed: bool = True

    @property
    def end(self) -> End:
        """The number and hash of its row."""
        return self.seq, self.hash

    def advance_to(self, end: End, moment: int) -> Anchor:
        """Return the next anchor of this line, made at this moment (milliseconds)."""
        return replace(self, seq=end[0], hash=end[1], number=self.number + 1, at=moment)

    def text(self, name: str, key: bytes) -> str:
        """Return the anchor as a line of JSON, signed with this key."""
        values = {field: value for field, value in asdict(self).items() if field in _SIGNED_FIELDS}
        content = {"type": TYPE, "v": VERSION} | values | {"key": name}
        return json.dumps(content | {"sig": _sign(key, content)}, separators=(",", ":"))


_SIGNED_FIELDS = ("seq", "hash", "number", "line", "at", "since", "doubts")


def parse_anchor(text: str, keys: Mapping[str, bytes]) -> Anchor:
    """Return the anchor that the text holds; raises InvalidAnchor."""
    try:
        content = json.loads(text)
        if content.keys() == {"seq", "hash"}:
            return _read_first_version(**content)
        signature, name = content.pop("sig"), content["key"]
        values = {field: content[field] for field in _SIGNED_FIELDS}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidAnchor("cannot be read") from None
    key = keys.get(name) if isinstance(name, str) else None
    if key is None:
        raise InvalidAnchor("was signed with a key that this server does not have (see SECRET_KEY_FALLBACKS)")
    if not _is_valid_signature(key, content, signature):
        raise InvalidAnchor("was not signed by this server, or was changed")
    return Anchor(**values)


def _read_first_version(seq: Any, hash: Any) -> Anchor:  # noqa: A002 - the word of the line
    if type(seq) is not int or not isinstance(hash, str):
        raise TypeError("a number and a hash")
    return Anchor(seq, hash, 0, 0, signed=False)


def _is_valid_signature(key: bytes, content: dict[str, Any], signature: object) -> bool:
    try:
        return isinstance(signature, str) and hmac.compare_digest(
            _sign(key, content).encode(), signature.encode("utf-8", "replace")
        )
    except ValueError:  # content without one canonical spelling was never signed
        return False


def _sign(key: bytes, content: dict[str, Any]) -> str:
    return hmac.digest(key, canonicalize(content), "sha256").hex()
