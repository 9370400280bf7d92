"""Reads the options of a command line as the program does.

A specification is one text of words: `-x` an option, `-x:` one with a value (`-xv` or `-x v`), `-x?` one whose value
must be attached, `-x!` one whose value is always the next word (`-xab v` is `-x v -ab`), `-[abc]` and `-[abc]:` several
letters at once, `--long`, `--long=` (`--long=v` or `--long v`), `--long?` (`--long=v` or alone), `--long~` (all three),
`-#` a number such as `-20`, `-long` and `-long:` for programs with one dash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

NONE, VALUE, ATTACHED, OPTIONAL, NEXT = 0, 1, 2, 3, 4
STYLES = ("gnu", "posix", "long", "find", "tar", "bare")
_GROUP = re.compile(r"-\[(.+)\]([:?~!]?)")
_KINDS = {"": NONE, ":": VALUE, "=": VALUE, "?": ATTACHED, "~": OPTIONAL, "!": NEXT}
_CONFIRMED_COMMANDS = frozenset({"-ok", "-okdir"})  # of find; their commands end only with `;`


def read_specification(text: str) -> dict[str, int]:
    """Return each option's name with its kind; raise ValueError for other words."""
    kinds: dict[str, int] = {}
    for token in text.split():
        group = _GROUP.fullmatch(token)
        if group is not None:
            kinds.update({f"-{letter}": _KINDS[group[2]] for letter in group[1]})
            continue
        name = token.rstrip(":=?~!")
        if name[:1] not in {"-", "/"} or name in kinds or len(token) - len(name) > 1:
            raise ValueError(f"{token} is not an option, or is listed twice")
        kinds[name] = _KINDS[token[len(name) :]]
    return kinds


@dataclass(slots=True)
class Arguments:
    """The arguments of a program: options with their values, operands with their positions, and unknown words.

    `commands`: where each command after an option such as `-exec` begins and ends. `varies`: one of the unknown words
    may expand to options. `option_values`: values that look like options; some versions of the
    program read them as options.
    """

    options: list[tuple[str, str]] = field(default_factory=list)
    operands: list[tuple[int, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    commands: list[tuple[int, int]] = field(default_factory=list)
    varies: bool = False
    option_values: list[str] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """Return the names of the options."""
        return {name for name, _ in self.options}


def read_arguments(
    words: tuple[str, ...],
    start: int,
    kinds: Mapping[str, int],
    style: str,
    command_options: frozenset[str] = frozenset(),
    patterns: frozenset[int] = frozenset(),
) -> Arguments:
    """Return the arguments from `start` on.

    `command_options`: options that a command follows. `patterns`: positions of words that may expand to options; before
    `--` they are unknown.
    """
    reader = _ArgumentReader(words, start, kinds, style, command_options, patterns)
    if style == "find":
        reader.read_expression()
    elif style == "bare":
        reader.arguments.operands = list(enumerate(words))[start:]
    else:
        reader.read()
    return reader.arguments


class _ArgumentReader:
    def __init__(
        self,
        words: tuple[str, ...],
        start: int,
        kinds: Mapping[str, int],
        style: str,
        command_options: frozenset[str],
        patterns: frozenset[int],
    ) -> None:
        self.words, self.position, self.kinds, self.style = words, start, kinds, style
        self.command_options, self.patterns = command_options, patterns
        self.arguments = Arguments()

    def read(self) -> None:
        """Read options and operands, in any order or until the first operand."""
        if self.style == "tar" and self.position < len(self.words) and not self.words[self.position].startswith("-"):
            self._read_letters()
        while self.position < len(self.words):
            word, place = self.words[self.position], self.position
            self.position += 1
            if word == "--":
                self._add_operands(self.position)
                return
            if place in self.patterns:
                self._mark_unknown(word)
            elif word in self.command_options:
                self._read_command(word)
            elif word == "-" or not word.startswith("-"):
                if self.style == "posix":
                    self._add_operands(place)
                    return
                self.arguments.operands.append((place, word))
            else:
                self._read_option(word)

    def _add_operands(self, start: int) -> None:
        self.arguments.operands += list(enumerate(self.words))[start:]
        self.position = len(self.words)

    def _read_option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        if self.style == "long" and name.startswith("--") and name not in self.kinds:
            name = name[1:]
        if name.startswith("--") or self.style == "long":
            self._read_long_option(word, name, value if equals else None)
        elif word[1:].isdigit() and "-#" in self.kinds:
            self.arguments.options.append(("-#", word[1:]))
        else:
            self._read_bundle(word)

    def _read_long_option(self, word: str, name: str, value: str | None) -> None:
        kind = self.kinds.get(name)
        if kind is None or (kind == NONE and value is not None):
            self.arguments.unknown.append(word)
        elif kind in {VALUE, NEXT} and value is None:
            self._read_value(word, name)
        elif kind == OPTIONAL and value is None:
            self._read_optional_value(name)
        else:
            self.arguments.options.append((name, value or ""))

    def _read_bundle(self, word: str) -> None:
        for place, letter in enumerate(word[1:], 2):
            name = f"-{letter}"
            kind = self.kinds.get(name)
            if kind is None:
                self.arguments.unknown.append(word)
                return
            if kind == NEXT:
                self._read_value(word, name)
                continue
            if kind == NONE:
                self.arguments.options.append((name, ""))
                continue
            if kind == VALUE and place == len(word):
                self._read_value(word, name)
            elif kind == OPTIONAL and place == len(word):
                self._read_optional_value(name)
            else:
                self.arguments.options.append((name, word[place:]))
            return

    def _read_value(self, word: str, name: str) -> None:
        if self.position in self.patterns:
            self._mark_unknown(word)
            return
        if self.position >= len(self.words):
            self.arguments.unknown.append(word)
            return
        value = self.words[self.position]
        if self.style != "find" and len(value) > 1 and value[0] == "-" and value[1] != " ":  # `- a list` is no option
            self.arguments.option_values.append(value)
        self.arguments.options.append((name, value))
        self.position += 1

    def _mark_unknown(self, word: str) -> None:
        self.arguments.unknown.append(word)
        self.arguments.varies = True

    def _read_optional_value(self, name: str) -> None:
        """Add an option whose value is the next word, unless that is an option."""
        if (
            self.position < len(self.words)
            and self.position not in self.patterns
            and not self.words[self.position].startswith("-")
        ):
            self.arguments.options.append((name, self.words[self.position]))
            self.position += 1
        else:
            self.arguments.options.append((name, ""))

    def _read_letters(self) -> None:
        """Read tar's first word, whose letters take their values from the next words."""
        word = self.words[self.position]
        self.position += 1
        for letter in word:
            kind = self.kinds.get(f"-{letter}")
            if kind is None:
                self.arguments.unknown.append(word)
            elif kind == VALUE:
                self._read_value(word, f"-{letter}")
            else:
                self.arguments.options.append((f"-{letter}", ""))

    def _read_command(self, option: str) -> None:
        """Add the command after an option, which ends at `;`, `{} +` or the end.

        Any other `+` is unknown.
        """
        ends = (place for place in range(self.position, len(self.words)) if self.words[place] in {";", "+"})
        end = next(ends, len(self.words))
        is_braced = self.style == "find" and option not in _CONFIRMED_COMMANDS and self.words[end - 1] == "{}"
        if end < len(self.words) and self.words[end] == "+" and not is_braced:
            self.arguments.unknown.append("+")
        self.arguments.commands.append((self.position, end))
        self.position = end + 1

    def read_expression(self) -> None:
        """Read the arguments of find: places, then tests and actions.

        Each test and action has a fixed number of values.
        """
        while self.position < len(self.words):
            word, place = self.words[self.position], self.position
            self.position += 1
            if place in self.patterns:
                self._mark_unknown(word)
            elif word in self.command_options:
                self._read_command(word)
            elif word in {"(", ")", "!", ","}:
                continue
            elif not word.startswith("-"):
                self.arguments.operands.append((place, word))
            elif word not in self.kinds:
                self.arguments.unknown.append(word)
            elif self.kinds[word] == VALUE:
                self._read_value(word, word)
            else:
                self.arguments.options.append((word, ""))


def may_mean_option(word: str, option: str, style: str) -> bool:
    """Return whether the word may be this option.

    It may be abbreviated, in a bundle, or with its value attached.
    """
    name = word.partition("=")[0]
    if style in {"long", "find"}:
        return name == option or (style == "long" and name[1:] == option)
    if name.startswith("--"):
        return len(name) > 2 and option.startswith(name)
    if style == "tar" and not name.startswith("-"):
        return len(option) == 2 and option[1] in name
    if name == option:
        return True
    return name.startswith("-") and len(option) == 2 and option[0] == "-" and option[1] in name[1:]
