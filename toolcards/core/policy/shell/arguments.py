"""Options of a command line, read as the program itself reads them.

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
_ASKS = frozenset({"-ok", "-okdir"})  # find's, whose commands end with `;` alone


def read_specification(text: str) -> dict[str, int]:
    """Return each option's name with its kind; raise ValueError for what is no option."""
    kinds: dict[str, int] = {}
    for token in text.split():
        group = _GROUP.fullmatch(token)
        if group is not None:
            kinds.update({f"-{letter}": _KINDS[group[2]] for letter in group[1]})
            continue
        name = token.rstrip(":=?~!")
        if name[:1] not in {"-", "/"} or name in kinds or len(token) - len(name) > 1:
            raise ValueError(f"{token} is no option, or is listed twice")
        kinds[name] = _KINDS[token[len(name) :]]
    return kinds


@dataclass(slots=True)
class Arguments:
    """The arguments of a program: options with their values, operands with their positions, and what is not known.

    `commands`: where each command begins, and ends, that stands after an option such as `-exec`. `varies`: a word among
    the unknown ones may expand to options. `taken`: values that look like options, which some versions read as such.
    """

    options: list[tuple[str, str]] = field(default_factory=list)
    operands: list[tuple[int, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    commands: list[tuple[int, int]] = field(default_factory=list)
    varies: bool = False
    taken: list[str] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """Return the names of the options."""
        return {name for name, _ in self.options}


def read_arguments(
    words: tuple[str, ...],
    start: int,
    kinds: Mapping[str, int],
    style: str,
    rest: frozenset[str] = frozenset(),
    patterns: frozenset[int] = frozenset(),
) -> Arguments:
    """Return the arguments from `start` on. `rest`: options after which a command stands.

    `patterns`: positions of words that may expand to options; before `--` they are not known.
    """
    reader = _ArgumentReader(words, start, kinds, style, rest, patterns)
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
        rest: frozenset[str],
        patterns: frozenset[int],
    ) -> None:
        self.words, self.at, self.kinds, self.style = words, start, kinds, style
        self.rest, self.patterns = rest, patterns
        self.arguments = Arguments()

    def read(self) -> None:
        """Read options and operands, in any order or up to the first operand."""
        if self.style == "tar" and self.at < len(self.words) and not self.words[self.at].startswith("-"):
            self._letters_without_dash()
        while self.at < len(self.words):
            word, place = self.words[self.at], self.at
            self.at += 1
            if word == "--":
                self._operands(self.at)
                return
            if place in self.patterns:
                self._vary(word)
            elif word in self.rest:
                self._command(word)
            elif word == "-" or not word.startswith("-"):
                if self.style == "posix":
                    self._operands(place)
                    return
                self.arguments.operands.append((place, word))
            else:
                self._option(word)

    def _operands(self, start: int) -> None:
        self.arguments.operands += list(enumerate(self.words))[start:]
        self.at = len(self.words)

    def _option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        if self.style == "long" and name.startswith("--") and name not in self.kinds:
            name = name[1:]
        if name.startswith("--") or self.style == "long":
            self._long(word, name, value if equals else None)
        elif word[1:].isdigit() and "-#" in self.kinds:
            self.arguments.options.append(("-#", word[1:]))
        else:
            self._bundle(word)

    def _long(self, word: str, name: str, value: str | None) -> None:
        kind = self.kinds.get(name)
        if kind is None or (kind == NONE and value is not None):
            self.arguments.unknown.append(word)
        elif kind in {VALUE, NEXT} and value is None:
            self._value(word, name)
        elif kind == OPTIONAL and value is None:
            self._optional(name)
        else:
            self.arguments.options.append((name, value or ""))

    def _bundle(self, word: str) -> None:
        for place, letter in enumerate(word[1:], 2):
            name = f"-{letter}"
            kind = self.kinds.get(name)
            if kind is None:
                self.arguments.unknown.append(word)
                return
            if kind == NEXT:
                self._value(word, name)
                continue
            if kind == NONE:
                self.arguments.options.append((name, ""))
                continue
            if kind == VALUE and place == len(word):
                self._value(word, name)
            elif kind == OPTIONAL and place == len(word):
                self._optional(name)
            else:
                self.arguments.options.append((name, word[place:]))
            return

    def _value(self, word: str, name: str) -> None:
        if self.at in self.patterns:
            self._vary(word)
            return
        if self.at >= len(self.words):
            self.arguments.unknown.append(word)
            return
        value = self.words[self.at]
        if self.style != "find" and len(value) > 1 and value[0] == "-":
            self.arguments.taken.append(value)
        self.arguments.options.append((name, value))
        self.at += 1

    def _vary(self, word: str) -> None:
        self.arguments.unknown.append(word)
        self.arguments.varies = True

    def _optional(self, name: str) -> None:
        """Note an option that takes the next word unless that is an option too."""
        if self.at < len(self.words) and self.at not in self.patterns and not self.words[self.at].startswith("-"):
            self.arguments.options.append((name, self.words[self.at]))
            self.at += 1
        else:
            self.arguments.options.append((name, ""))

    def _letters_without_dash(self) -> None:
        """Read the first word of tar, whose letters take their values from the words after it, in order."""
        word = self.words[self.at]
        self.at += 1
        for letter in word:
            kind = self.kinds.get(f"-{letter}")
            if kind is None:
                self.arguments.unknown.append(word)
            elif kind == VALUE:
                self._value(word, f"-{letter}")
            else:
                self.arguments.options.append((f"-{letter}", ""))

    def _command(self, option: str) -> None:
        """Note the command after an option, up to `;` or `{} +`, or to the end; any other `+` is not understood."""
        ends = (place for place in range(self.at, len(self.words)) if self.words[place] in {";", "+"})
        end = next(ends, len(self.words))
        braced = self.style == "find" and option not in _ASKS and self.words[end - 1] == "{}"
        if end < len(self.words) and self.words[end] == "+" and not braced:
            self.arguments.unknown.append("+")
        self.arguments.commands.append((self.at, end))
        self.at = end + 1

    def read_expression(self) -> None:
        """Read the arguments of find: places, then tests and actions, each with a fixed number of values."""
        while self.at < len(self.words):
            word, place = self.words[self.at], self.at
            self.at += 1
            if place in self.patterns:
                self._vary(word)
            elif word in self.rest:
                self._command(word)
            elif word in {"(", ")", "!", ","}:
                continue
            elif not word.startswith("-"):
                self.arguments.operands.append((place, word))
            elif word not in self.kinds:
                self.arguments.unknown.append(word)
            elif self.kinds[word] == VALUE:
                self._value(word, word)
            else:
                self.arguments.options.append((word, ""))


def may_mean_option(word: str, option: str, style: str) -> bool:
    """Return whether the word may be this option: abbreviated, in a bundle, or with its value attached."""
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
