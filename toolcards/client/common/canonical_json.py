"""RFC 8785 (JCS) form of a JSON value and its digest: one spelling per value, so that people approve bytes.

The server and the Python client share this module; `static/clients/toolcards.mjs` is the same in JavaScript, and
tests/client/common/test_digest_agreement.py checks both against one table.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from typing import Any

MAX_INTEGER = 2**53 - 1
MAX_DEPTH = 32
MAX_NODES = 10_000
_LONGEST_CACHED = 400  # characters of ordinary tools: name, server, digest of the schema


_encode_plain = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), sort_keys=True).encode


class NotCanonical(ValueError):
    """The value has no canonical form; `pointer` is the place, `why` the reason."""

    def __init__(self, pointer: str, why: str) -> None:
        super().__init__(f"{pointer or '(the whole value)'}: {why}")
        self.pointer = pointer
        self.why = why


def canonicalize(value: object, *, max_nodes: int = MAX_NODES, max_depth: int = MAX_DEPTH) -> bytes:
    """Return the value as RFC 8785 bytes; raises NotCanonical.

    Refused: NaN and infinities, integers beyond 2^53-1, lone surrogates, U+0000, more than 32 levels (`max_depth`) or
    10,000 values (`max_nodes`), and everything that is not plain JSON.
    """
    if not _is_plain(value, max_nodes, max_depth) and _check(value, max_nodes, max_depth):
        return "".join(_spell(value)).encode()
    return _encode_plain(value).encode()


def digest(value: object, *, max_nodes: int = MAX_NODES) -> str:
    """Return the lower-case hex SHA-256 over the canonical bytes."""
    return hashlib.sha256(canonicalize(value, max_nodes=max_nodes)).hexdigest()


def call_digest(args: object, *, name: str, source: str = "", schema_sha256: str = "") -> str:
    """Return `call_sha256`, the digest of arguments, tool, server and schema together.

    Lower-case hex SHA-256 over the RFC 8785 form of `{"args", "schema_sha256", "tool": {"name", "source"}}`. The
    limits apply to the arguments alone.
    """
    return digest_canonical_call(canonicalize(args), name=name, source=source, schema_sha256=schema_sha256)


def digest_canonical_call(args: bytes, *, name: str, source: str = "", schema_sha256: str = "") -> str:
    """Return `call_digest` of arguments that are canonical bytes already."""
    return hashlib.sha256(b'{"args":' + args + _spell_tool(name, source, schema_sha256)).hexdigest()


def _spell_tool(name: str, source: str, schema_sha256: str) -> bytes:
    """Return what follows the arguments in the canonical form of a call."""
    is_short = len(name) + len(source) + len(schema_sha256) <= _LONGEST_CACHED
    return (_spell_short_tool if is_short else _spell_short_tool.__wrapped__)(name, source, schema_sha256)


@lru_cache(maxsize=256)  # a run calls the same tools again and again
def _spell_short_tool(name: str, source: str, schema_sha256: str) -> bytes:
    tool = canonicalize({"name": name, "source": source})
    return b',"schema_sha256":' + canonicalize(schema_sha256) + b',"tool":' + tool + b"}"


def escape(token: str) -> str:
    """Return one step of a JSON Pointer, escaped."""
    return token.replace("~", "~0").replace("/", "~1")


def _is_plain(value: object, max_nodes: int, max_depth: int) -> bool:
    """Return whether the value is plain, as most are; otherwise `_check` decides."""
    nodes, depth = 1, 0
    level: list[Any] = [value]
    while level:
        depth += 1
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                if "\0" in item or not (item.isascii() or _has_utf8_form(item)):
                    return False
            elif kind is dict:
                for key in item:
                    if type(key) is not str or not key.isascii() or "\0" in key:
                        return False
                below += item.values()
            elif kind is list:
                below += item
            elif not (item is None or kind is bool or (kind is int and -MAX_INTEGER <= item <= MAX_INTEGER)):
                return False
        nodes += len(below)
        if nodes > max_nodes or depth >= max_depth:
            return False
        level = below
    return True


def _has_utf8_form(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _check(value: object, max_nodes: int, max_depth: int) -> bool:
    """Raise NotCanonical, or return True where json.dumps would spell it differently from RFC 8785."""
    special = False
    nodes = 0
    pending: list[tuple[Any, str, int]] = [(value, "", 1)]
    while pending:
        item, pointer, depth = pending.pop()
        nodes += 1
        if nodes > max_nodes:
            raise NotCanonical("", f"more than {max_nodes} values")
        kind = type(item)
        if kind is str:
            _check_text(item, pointer)
        elif kind is float:
            special = True
            if not math.isfinite(item):
                raise NotCanonical(pointer, "NaN and infinities are not JSON")
        elif kind is int:
            if not -MAX_INTEGER <= item <= MAX_INTEGER:
                raise NotCanonical(pointer, "integers beyond 2^53-1 lose digits; send them as strings")
        elif kind is dict or kind is list:
            if depth > max_depth:
                raise NotCanonical(pointer, f"more than {max_depth} levels deep")
            if kind is list:
                pending.extend((child, f"{pointer}/{index}", depth + 1) for index, child in enumerate(item))
                continue
            for key, child in item.items():
                if type(key) is not str:
                    raise NotCanonical(pointer, "object keys are strings")
                below = f"{pointer}/{escape(key)}"
                _check_text(key, below)
                special = special or not key.isascii()
                pending.append((child, below, depth + 1))
        elif item is not None and kind is not bool:
            raise NotCanonical(pointer, f"{kind.__name__} is not a JSON type")
    return special


def _check_text(text: str, pointer: str) -> None:
    if "\0" in text:
        raise NotCanonical(pointer, "U+0000 is not allowed in text")
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise NotCanonical(pointer, "half of a surrogate pair")


def _spell(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        # RFC 8785, 3.2.3: keys are sorted by their UTF-16 code units, not by code points
        for lead, key in zip(_leads("{"), sorted(value, key=lambda key: key.encode("utf-16-be")), strict=False):
            yield lead + quoted(key) + ":"
            yield from _spell(value[key])
        yield "}" if value else "{}"
    elif isinstance(value, list):
        for lead, item in zip(_leads("["), value, strict=False):
            yield lead
            yield from _spell(item)
        yield "]" if value else "[]"
    elif isinstance(value, float):
        yield _number(value)
    else:
        yield json.dumps(value, ensure_ascii=False)


def _leads(first: str) -> Iterator[str]:
    yield first
    while True:
        yield ","


def _number(value: float) -> str:
    """Return the number as ECMAScript's Number.prototype.toString writes it."""
    if value == 0:
        return "0"  # -0 too
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    integer, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (integer + fraction).lstrip("0")
    point = len(integer) + int(exponent or 0) - (len(integer + fraction) - len(digits))  # 0.digits × 10^point
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        return sign + (digits.ljust(point, "0") if len(digits) <= point else f"{digits[:point]}.{digits[point:]}")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = point - 1
    head = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{head}e{'+' if power >= 0 else '-'}{abs(power)}"
