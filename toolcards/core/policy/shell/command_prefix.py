"""The first words of a command in a rule, such as `git push`, and two ways to find them in a command.

A text with slots, such as `gh pr comment {number}`, is a whole command that leaves something open; see
`work/templates.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from toolcards.core.policy.shell.catalogs import (
    EFFECTS,
    ProgramForm,
    list_names,
    load_programs,
    strip_program_name,
)
from toolcards.core.policy.shell.plain.globs import may_expand_to
from toolcards.core.policy.shell.plain.parser import parse_line
from toolcards.core.policy.shell.program_match import match_program
from toolcards.core.policy.shell.work.templates import SLOT, has_slots

_MARK = "toolcards-slot-"
_SLOT_MARK = re.compile(_MARK + r"(path|number|text|rest)")
_TOKEN = re.compile(r"[a-z0-9_.+-]+")


@dataclass(frozen=True)
class CommandPrefix:
    """The first words of a command, such as `git push`; `words` is empty if the text is not one plain command."""

    text: str
    words: tuple[str, ...]

    @cached_property
    def is_template(self) -> bool:
        """Whether it is a whole command that leaves something open."""
        return has_slots(self.words)

    @cached_property
    def _lower(self) -> tuple[str, ...]:
        return tuple(SLOT.sub("", word).lower() for word in self.words or self.text.split() if not SLOT.fullmatch(word))

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(rf"(?<![a-z0-9_]){re.escape(word)}(?![a-z0-9_])") for word in self._lower)

    @cached_property
    def head(self) -> tuple[str, ...]:
        """The program and the words after it, without options.

        The wide reading compares these. Empty if the text is not one plain command.
        """
        operands = (word for word in self.words[1:] if not word.startswith("-") and not SLOT.search(word))
        return (strip_program_name(self.words[0]), *operands) if self.words else ()

    @cached_property
    def _flags(self) -> tuple[str, ...]:
        return tuple(word for word in self.words[1:] if word.startswith("-"))

    def occurs_in(self, text: str) -> bool:
        """Return whether the raw text contains the words in this order.

        Quotes and backslashes are ignored.
        """
        return any(self._in_order(spelling) for spelling in list_spellings(text))

    def _in_order(self, text: str) -> bool:
        for plain in self._lower:  # cheaper than a pattern, and usually decisive
            if plain not in text:
                return False
        position = 0
        for pattern in self._patterns:  # the earliest position each time, so one pass is enough
            match = pattern.search(text, position)
            if match is None:
                return False
            position = match.end()
        return True

    def has_arguments_in(self, text: str) -> bool:
        """Return whether the text contains the words after the program."""
        return all(word in text for word in self.head[1:])

    def matches(self, view: tuple[str, ...]) -> bool:
        """Return whether these are the program and first words, ignoring options between."""
        if not self.words or not view:
            return False
        head, arguments = self.head, view[1:]
        if head[0] not in list_names(view[0]):
            return False
        return _occurs_in_order(arguments, head[1:]) and all(_has_flag(arguments, flag) for flag in self._flags)


@lru_cache(maxsize=512)
def parse_prefix(text: str) -> CommandPrefix:
    """Return the words of a rule; raise ValueError without words."""
    if not text.strip():
        raise ValueError("expects the first words of a command, such as git push")
    load_programs()  # loaded now and not in the first decision
    line = SLOT.sub(_MARK + r"\1", text.strip())  # braces are not plain
    commands = parse_line(line).commands
    plain = len(commands) == 1 and commands[0].text == line and not commands[0].redirected
    words = tuple(_SLOT_MARK.sub(r"{\1}", word) for word in commands[0].words) if plain else ()
    return CommandPrefix(text, () if words and SLOT.search(words[0]) else words)


@lru_cache(maxsize=64)
def list_spellings(text: str) -> tuple[str, ...]:
    """Return the text in lower case, with and without quotes and backslashes."""
    text = text.lower()
    return tuple(dict.fromkeys((text, re.sub(r"\\\r?\n|['\"\\]", "", text))))


@lru_cache(maxsize=256)
def find_program_names(text: str) -> frozenset[str]:
    """Return the names of all programs that are words in the text.

    `rm.py` is not `rm`.
    """
    names: set[str] = set()
    for spelling in list_spellings(text):
        for token in _TOKEN.findall(spelling):
            names.update(list_names(token))
            if token[0] == "-" and token[1:2].isalpha():  # a value attached to a short option
                names.update(list_names(token[2:]))
    return frozenset(names)


def _occurs_in_order(words: tuple[str, ...], targets: tuple[str, ...]) -> bool:
    """Return whether the targets are in the words in this order, with only options and their values between."""
    places = {0}
    for target in targets:
        reached_positions = {
            place + 1
            for place in list_reachable_positions(words, places)
            if place < len(words) and may_expand_to(words[place], target)
        }
        if not reached_positions:
            return False
        places = reached_positions
    return True


def list_reachable_positions(words: tuple[str, ...], places: set[int]) -> set[int]:
    """Return every position that can be next.

    An option may be skipped, alone or with the word after it.
    """
    visited_places: set[int] = set()
    pending = list(places)
    while pending:
        place = pending.pop()
        if place in visited_places or place > len(words):
            continue
        visited_places.add(place)
        if place < len(words) and words[place].startswith("-"):
            pending += [place + 1, place + 2]
    return visited_places


def _may_be_option(name: str, flag: str) -> bool:
    """Return whether some programs read the name as this option."""
    if name == flag or (len(name) > 2 and name.startswith("--") and flag.startswith(name)):
        return True
    word = flag.lstrip("-")  # programs in Go read -word and --word alike
    return len(word) > 1 and name.startswith("-") and name.lstrip("-") == word


def _has_flag(words: tuple[str, ...], flag: str) -> bool:
    """Return whether the words have the flag: alone, with a value, or in bundles of short flags."""
    if any(may_expand_to(word, flag) or _may_be_option(word.partition("=")[0], flag) for word in words):
        return True
    if flag.startswith("--") or not flag[1:].isalpha():
        return False
    letters = "".join(word[1:] for word in words if re.fullmatch(r"-[A-Za-z]+", word))
    return bool(flag[1:]) and set(flag[1:]) <= set(letters)


_VERBS = {"runs": "run other programs", "deletes": "delete", "writes": "change things", "sends": "send data"}


def explain_partial_allow(words: tuple[str, ...]) -> str:
    """Return why a rule does not allow all arguments, or ""."""
    place = match_program(words)
    if place is None:
        return "the catalog does not know this program, so a rule allows only the exact command"
    effects = _list_effects(place.form)
    if not effects:
        return ""
    verb = next(_VERBS[effect] for effect in _VERBS if effect in effects)
    return f"{place.form.name} can {verb}; a rule allows only its harmless forms or the exact command"


def _list_effects(form: ProgramForm) -> frozenset[str]:
    """Return the effects that the program can have in any form, including its sub-commands."""
    effects: set[str] = set()
    for variant in form.all_forms():
        effects |= variant.does | variant.may | {*variant.effects} | {*variant.marks}
        if variant.wraps or variant.rest or variant.lines or variant.code or variant.stdin:
            effects.add("runs")
    return frozenset(effect for effect in EFFECTS if effect in effects)
