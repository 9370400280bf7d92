"""What an input touches: secret places and private addresses, in its paths, commands and URLs.

Paths are compared as paths: a text that only mentions `~/.ssh` touches nothing. A value that is hidden, as that of `$f`
in a command, is judged by what is spelled around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from toolcards.core.policy.matching.private_addresses import is_web_url
from toolcards.core.policy.matching.secret_places import MAX_PATH, load_document, load_places
from toolcards.core.policy.matching.touched_commands import (
    NOTHING,
    Touched,
    combine,
    has_marker,
    is_rooted,
    touch_code,
    touch_command,
    touch_line,
    touch_path,
    touch_url,
)
from toolcards.core.policy.places.patches import read_patch
from toolcards.core.policy.shell.catalogs import find_tool
from toolcards.core.policy.truth import TRUE, UNKNOWN, Truth

SECRETS, PRIVATE_ADDRESS = "secrets", "private-address"
MAX_DEPTH = 4  # of JSON in texts
_URL = re.compile(r"(?:https?|wss?|ftps?):/*[^\s\"'<>]+", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FILE = re.compile(r"(?:view-source:)?file:", re.IGNORECASE)
_SEARCHES = re.compile(r"grep|search")
_LONGEST_JSON = 64 * 1024


@dataclass(frozen=True, slots=True)
class TouchHints:
    """What is known of the tool whose input is read: its name, and every kind that it may have.

    `step` counts the work.
    """

    tool: str = ""
    kinds: tuple[str, ...] = ()
    step: Callable[[int], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class _Keys:
    texts: frozenset[str]
    commands: frozenset[str]
    code: frozenset[str]
    bases: frozenset[str]
    addresses: frozenset[str]


@cache
def _load_keys() -> _Keys:
    document = load_document()["texts"]
    names = ("keys", "commands", "code", "bases", "addresses")
    return _Keys(*(frozenset(document[name].split()) for name in names))


def parse_touch(text: str) -> str:
    """Return what a rule names; raise ValueError for other texts."""
    if text not in {SECRETS, PRIVATE_ADDRESS}:
        raise ValueError(f"expects {SECRETS} or {PRIVATE_ADDRESS}")
    load_places()  # loaded now and not in the first decision
    return text


def read_touched(value: Any) -> Touched:
    """Return what a value touches, whatever its tool is."""
    return find_touched(value, TouchHints())


def match_touched(answer: Touched, names: frozenset[str]) -> Truth:
    """Return whether it touches one of these."""
    answers = {SECRETS: answer.secrets, PRIVATE_ADDRESS: answer.private}
    return max([answers[name] for name in names])


def find_touched(value: Any, hints: TouchHints, key: str = "") -> Touched:
    """Return what a value touches; `key` is the name of its argument."""
    return _InputReader(hints).read(value, key)


@dataclass(slots=True)
class _InputReader:
    hints: TouchHints
    bases: tuple[str, ...] = ()
    depth: int = 0
    keys: _Keys = field(default_factory=_load_keys)

    def read(self, value: Any, key: str) -> Touched:
        """Return what the value touches, and everything in it."""
        self.bases = (*self.bases, *_list_bases(value, self.keys.bases))
        return combine([self._touch(name, each) for name, each in _walk(value, key, self._takes_command)])

    def _takes_command(self, key: str) -> bool:
        return key.lower() in self.keys.commands and not find_tool(self.hints.tool).foreign

    def _touch(self, key: str, value: Any) -> Touched:
        name = key.lower()
        if isinstance(value, list):
            return self._touch_list(value)
        text: str = value
        self.hints.step(_count_steps(text))
        if self._takes_command(name):
            return touch_line(text, self.bases)
        if name in self.keys.commands | self.keys.code:
            return touch_line(text, self.bases).union(touch_code(text, self.bases))
        answer = self._touch_json(text, key)
        if "\n" in text or len(text) > MAX_PATH:
            answer = answer.union(combine(touch_path(path, self.bases) for path in read_patch(text).paths))
        elif is_web_url(text) and _SCHEME.match(text) and not _has_blank(text):
            return answer.union(touch_url(text))
        elif "fetch" in self.hints.kinds and name in self.keys.addresses and not _has_blank(text):
            answer = answer.union(_touch_address(text))
        else:
            answer = answer.union(self._touch_text(name, text))
        if "fetch" in self.hints.kinds:
            answer = answer.union(combine(touch_url(url) for url in _URL.findall(text)))
        return answer

    def _touch_list(self, words: list[str]) -> Touched:
        """Return what a command touches that is a list of words or lines."""
        self.hints.step(sum(map(_count_steps, words)))
        lines = combine(touch_line(line, self.bases) for line in words)
        return lines.union(touch_command(tuple(words), self.bases) if words and words[0] else NOTHING)

    def _touch_text(self, name: str, text: str) -> Touched:
        if _SCHEME.match(text) and not _FILE.match(text):
            return NOTHING
        if name in self.keys.texts:
            if name in {"pattern", "regex", "query"} and has_marker(text):
                return Touched(TRUE)
            return touch_path(text) if is_rooted(text) and not _has_blank(text) else NOTHING
        answer = touch_path(text, self.bases)
        if _SEARCHES.search(self.hints.tool.lower()) and load_places().is_above(text):
            answer = answer.union(Touched(UNKNOWN))
        return answer

    def _touch_json(self, text: str, key: str) -> Touched:
        """Return what arguments touch that are themselves JSON text."""
        if self.depth >= MAX_DEPTH or text[:1] not in {"{", "["} or len(text) > _LONGEST_JSON:
            return NOTHING
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return NOTHING
        return _InputReader(self.hints, self.bases, self.depth + 1).read(value, key)


def _count_steps(text: str) -> int:
    """Return the cost of a text: patterns are compared with every place."""
    signs = sum(map(text.count, "*?[{")) if len(text) <= MAX_PATH else 0
    return 4 + len(text) // 16 + 64 * signs + 8 * text.count("/")


def _touch_address(text: str) -> Touched:
    if _FILE.match(text):
        return touch_path(text)
    return touch_url(text) if _SCHEME.match(text) else touch_url(f"http://{text}").union(touch_path(text))


def _has_blank(text: str) -> bool:
    return len(text.split()) != 1


def _list_bases(value: Any, names: frozenset[str]) -> Iterator[str]:
    """Yield the folders to which relative paths of an object may belong."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key.lower() in names and isinstance(each, str) and len(each) < MAX_PATH:
                yield each


def _walk(value: Any, key: str, takes_command: Callable[[str], bool]) -> Iterator[tuple[str, Any]]:
    """Yield every text with the name of its argument.

    Lists of the words of a command are yielded as lists.
    """
    pending = [(key, value)]
    while pending:
        name, item = pending.pop()
        if isinstance(item, str):
            if item:
                yield name, item
        elif isinstance(item, dict):
            pending += [(str(key), each) for key, each in item.items()]
            pending += [("", str(key)) for key in item if "/" in str(key)]
        elif isinstance(item, list):
            if takes_command(name) and item and all(isinstance(each, str) for each in item):
                yield name, item
            else:
                pending += [(name, each) for each in item]
