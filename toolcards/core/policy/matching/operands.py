"""The values that rules compare with: checked and prepared once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring as quoted
from typing import Any, TypeAlias

import re2

from toolcards.client.common.canonical_json import MAX_INTEGER, NotCanonical, canonicalize
from toolcards.core.policy.evaluation_context import UNREADABLE, Reader
from toolcards.core.policy.truth import UNDECIDED

# Readers: how the values of an input are converted before matchers compare them.
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


MAX_PATTERN = 1_000


@dataclass(frozen=True, slots=True)
class OperandType:
    """A type of values in rules: its input in the editor, and how a value is checked and prepared."""

    input: str  # text, lines, number, json, types, nothing
    prepare: Callable[[Any], Any]  # raises ValueError with a message for the author


def _read_texts(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError("expects text or a list of texts")
    return texts


def build_text_type(prepare: Callable[[str], Any], collect: Callable[[Any], Any] = tuple) -> OperandType:
    """Return the type for one text or several, each prepared separately."""
    return OperandType("lines", lambda value: collect([prepare(text) for text in _read_texts(value)]))


def _canonicalize(value: Any) -> bytes:
    try:
        return canonicalize(value)
    except NotCanonical as wrong:
        raise ValueError(str(wrong)) from None


def _canonicalize_list(value: Any) -> frozenset[bytes]:
    if not isinstance(value, list) or not value:
        raise ValueError("expects a list of values")
    return frozenset(_canonicalize(item) for item in value)


def _check_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("expects a number")
    return value


def _check_count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("expects a whole number, 0 or more")
    return value


def _check_no_value(value: Any) -> None:
    if value not in (None, True):
        raise ValueError("takes no value")


def _compile_pattern(pattern: str) -> Any:
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"is longer than {MAX_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except (re2.error, UnicodeError) as wrong:
        raise ValueError(f"is not valid in RE2 (which has no look-around and no back-references): {wrong}") from None


TYPES = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}


def _check_type_name(name: str) -> str:
    if name not in {*TYPES.values(), "integer", "null"}:
        raise ValueError("expects string, number, integer, boolean, object, array or null")
    return name


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Return the test for a pattern in which only `*` is special.

    It is anchored, case-sensitive and runs in linear time.
    """
    if "*" not in pattern:
        return pattern.__eq__
    first, *middle, last = pattern.split("*")

    def matches(text: str) -> bool:
        if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
            return False
        position, end = len(first), len(text) - len(last)
        for part in middle:
            position = text.find(part, position, end)
            if position < 0:
                return False
            position += len(part)
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


# The files that name the packages and the scripts of a project: protected, and part of ordinary work.
_MANIFESTS_TEXT = (
    "package.json pyproject.toml setup.py setup.cfg requirements.txt Cargo.toml go.mod pom.xml build.gradle "
    "build.gradle.kts settings.gradle settings.gradle.kts pubspec.yaml Gemfile composer.json mix.exs Makefile "
    "CMakeLists.txt tsconfig.json Package.swift justfile Taskfile.yml tox.ini noxfile.py conftest.py"
)
# Of these, the ones that are no programs and in which a change of packages runs nothing by itself.
PACKAGE_LISTS = (
    "Cargo.toml",
    "composer.json",
    "go.mod",
    "pom.xml",
    "pubspec.yaml",
    "pyproject.toml",
    "requirements.txt",
)
MANIFESTS = frozenset(_MANIFESTS_TEXT.split())


def _check_manifests(value: Any) -> frozenset[str]:
    """Return the manifests that a rule names, in lower case; raise ValueError for other files."""
    names = [] if value is None or value is True else value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) and name in MANIFESTS for name in names):
        raise ValueError(f"expects nothing, or names of {', '.join(sorted(MANIFESTS))}")
    return frozenset(name.lower() for name in names)


MANIFEST_NAMES = OperandType("lines", _check_manifests)
HARMS = ("system", "history", "unread-code", "agent-permissions", "gate")  # see changes/harms.py


def parse_harm(text: str) -> str:
    """Return the harm that a rule names; raise ValueError for other texts."""
    if text not in HARMS:
        raise ValueError(f"expects {', '.join(HARMS[:-1])} or {HARMS[-1]}")
    return text


TOOL_LIMITS = ("reads", "queries", "notes", "pages")  # see changes/limited_tools.py


def parse_tool_limit(text: str) -> str:
    """Return the limit that a rule names; raise ValueError for other texts."""
    if text not in TOOL_LIMITS:
        raise ValueError(f"expects {', '.join(TOOL_LIMITS[:-1])} or {TOOL_LIMITS[-1]}")
    return text
