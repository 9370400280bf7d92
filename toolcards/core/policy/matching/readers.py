"""Readers: how the values of an input are converted before matchers compare them."""

from __future__ import annotations

from collections.abc import Callable
from json.encoder import encode_basestring as quoted
from typing import Any, TypeAlias

from toolcards.client.common.canonical_json import MAX_INTEGER, NotCanonical, canonicalize
from toolcards.core.policy.evaluation_context import UNREADABLE, Reader
from toolcards.core.policy.truth import UNDECIDED

Value: TypeAlias = Any  # JSON from the agent

MAX_TEXT = 64 * 1024


def read_unchanged(value: Value) -> Any:
    """Return the value."""
    return value


def read_text(value: Value) -> Any:
    """Return a text of bounded length and valid Unicode."""
    if type(value) is not str or len(value) > MAX_TEXT:
        return UNREADABLE
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return UNREADABLE
    return value


def read_canonical(value: Value) -> Any:
    """Return the RFC 8785 bytes of the value."""
    # Shortcuts for inputs with thousands of plain texts and integers.
    if type(value) is str and value.isascii() and "\0" not in value:
        return quoted(value).encode()
    if type(value) is int and -MAX_INTEGER <= value <= MAX_INTEGER:
        return b"%d" % value
    try:
        return canonicalize(value)
    except NotCanonical:
        return UNREADABLE


def make_text_reader(parse_text: Callable[[str], Any]) -> Reader:
    """Return a reader that parses texts with `parse_text`."""

    def read(value: Value) -> Any:
        text = read_text(value)
        parsed_value = UNDECIDED if text is UNREADABLE else parse_text(text)
        return UNREADABLE if parsed_value is UNDECIDED else parsed_value

    return read
