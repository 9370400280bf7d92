"""What a rule's author may write as the value to compare with: checked, and prepared once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import re2

from toolcards.client.common.canonical_json import NotCanonical, canonicalize

MAX_PATTERN = 1_000


@dataclass(frozen=True, slots=True)
class OperandType:
    """The value a rule's author writes: which input the editor shows, and how it is checked and prepared."""

    input: str  # text, lines, number, json, types, nothing
    prepare: Callable[[Any], Any]  # raises ValueError with a message for the author


def _read_texts(given: Any) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError("expects a text or a list of texts")
    return texts


def build_text_type(prepare: Callable[[str], Any], collect: Callable[[Any], Any] = tuple) -> OperandType:
    """Return the shape of one text or several, each prepared on its own."""
    return OperandType("lines", lambda given: collect([prepare(text) for text in _read_texts(given)]))


def _canonicalize(given: Any) -> bytes:
    try:
        return canonicalize(given)
    except NotCanonical as wrong:
        raise ValueError(str(wrong)) from None


def _canonicalize_list(given: Any) -> frozenset[bytes]:
    if not isinstance(given, list) or not given:
        raise ValueError("expects a list of values")
    return frozenset(_canonicalize(item) for item in given)


def _check_number(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError("expects a number")
    return given


def _check_count(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError("expects a whole number, 0 or more")
    return given


def _check_no_value(given: Any) -> None:
    if given not in (None, True):
        raise ValueError("takes no value")


def _compile_pattern(given: str) -> Any:
    if len(given) > MAX_PATTERN:
        raise ValueError(f"is longer than {MAX_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(given, options=options)
    except (re2.error, UnicodeError) as wrong:
        raise ValueError(f"is refused by RE2 (it has no look-around and no back-references): {wrong}") from None


TYPES = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}


def _check_type_name(given: str) -> str:
    if given not in {*TYPES.values(), "integer", "null"}:
        raise ValueError("expects string, number, integer, boolean, object, array or null")
    return given


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Return the test for a pattern in which only `*` is special; anchored, case-sensitive, never slow."""
    if "*" not in pattern:
        return pattern.__eq__
    first, *middle, last = pattern.split("*")

    def matches(text: str) -> bool:
        if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

    return matches


TEXTS = build_text_type(str)
GLOBS = build_text_type(compile_glob)
PATTERNS = build_text_type(_compile_pattern)
JSON = OperandType("json", _canonicalize)
JSON_LIST = OperandType("json", _canonicalize_list)
NUMBER = OperandType("number", _check_number)
COUNT = OperandType("number", _check_count)
NOTHING = OperandType("nothing", _check_no_value)
TYPE_NAMES = OperandType("types", build_text_type(_check_type_name, frozenset).prepare)
