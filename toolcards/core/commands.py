"""Shell commands, without understanding shell: a command is plain words joined by operators, or it is opaque.

Plain words are bare, single-quoted, or double-quoted without `$`, backtick, `\\` and `!`. Everything else may
run what we do not see, so it is never allowed by a rule and never below `ask` where a rule looks at commands.
Two readings of one segment: `fits` is narrow (for allow: exactly these first words, nothing that runs code),
`spells` is wide (for ask and deny: also behind sudo, env, sh -c, in another directory, with options between).
Both stand in this one file: what one lets through must be what the other sees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from toolcards.core import wrappers

MAX_BYTES = 8 * 1024
MAX_SEGMENTS = 100
_KEYWORDS = "if then else elif fi do done case esac while until for select function coproc in [[ ]] { } !"
KEYWORDS = frozenset(_KEYWORDS.split())  # `time` is one too, but it only goes before a plain command
_OPAQUE = frozenset("$`\\<>(){}")
_BARE = re.compile(r"[^\x00-\x20\x7f-\U0010ffff$`\\<>(){}'\";|&!]+")  # what stands for itself, up to what may not
_SIMPLE = re.compile(r"[^\x00-\x1f\x7f-\U0010ffff$`\\<>(){}'\";|&!#]+")  # one command of bare words
_ODD = re.compile(r"[\x00-\x1f\x7f]")  # inside single quotes
_ODD_IN_DOUBLE = re.compile(r"[\x00-\x1f\x7f-\U0010ffff$`\\!]")
_GLOB = re.compile(r"[*?\[~]")
_ENDS = frozenset(" \n;|&")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=")


class _Opaque(Exception):
    """The command is not plain; the message says why."""


@dataclass(frozen=True)
class Segment:
    """One command of a line. `text` is its exact spelling, `words` what the program is given.

    `opaque` says why the whole line could not be read; then `text` is the whole line.
    """

    text: str
    words: tuple[str, ...] = ()
    opaque: str = ""
    line: str = ""

    @cached_property
    def _peeled(self) -> wrappers.Peeled:
        return wrappers.peel(self.words, parse)

    @property
    def hidden(self) -> bool:
        """Whether it runs something we do not see: a shell that reads its input, or an opaque inner command."""
        return bool(self.opaque) or self._peeled.hidden

    @property
    def inline(self) -> bool:
        """Whether a flag or script makes it run other programs, which its text may spell."""
        return not self.opaque and self._peeled.inline

    @property
    def views(self) -> tuple[tuple[str, ...], ...]:
        """The words of every command that it runs, as far as we can see: its own, and those behind each wrapper."""
        return self._peeled.views

    def fits(self, wanted: Words) -> bool:
        """Return whether the segment begins with exactly these words (the narrow reading)."""
        return bool(wanted.words) and not self.opaque and self.words[: len(wanted.words)] == wanted.words

    def runs_only(self, wanted: Words) -> bool:
        """Return whether a fitting segment runs nothing but what the words name: no flag or wrapper runs more."""
        return not wrappers.runs_code(self.words) and wrappers.says_what_runs(self.words, len(wanted.words))

    def spells(self, wanted: Words) -> bool:
        """Return whether the segment runs these words in any way we can see (the wide reading)."""
        if not wanted.words:  # the rule names no single plain command: look for its text
            return wanted.occurs_in(self.line or self.text)
        if self.opaque:
            return wanted.occurs_in(self.text)
        if any(wanted.begin(view) for view in self._peeled.views):
            return True
        if self._peeled.hidden:
            return wanted.occurs_in(self.line or self.text)
        return self._peeled.inline and wanted.occurs_in(self.text)


@dataclass(frozen=True)
class Words:
    """The words that a rule asks for, such as `git push`. Empty `words`: the text is no single plain command."""

    text: str
    words: tuple[str, ...]

    @cached_property
    def _lower(self) -> tuple[str, ...]:
        return tuple(word.lower() for word in self.words or self.text.split())

    @cached_property
    def _spelling(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(rf"(?<![a-z0-9_]){re.escape(word)}(?![a-z0-9_])") for word in self._lower)

    @cached_property
    def head(self) -> tuple[str, ...]:
        """The bare name of the program and the words after it that are no options; the wide reading looks for these.

        Empty where the text is no single plain command.
        """
        rest = (word for word in self.words[1:] if not word.startswith("-"))
        return (program(self.words[0]), *rest) if self.words else ()

    @cached_property
    def _flags(self) -> tuple[str, ...]:
        return tuple(word for word in self.words[1:] if word.startswith("-"))

    def occurs_in(self, text: str) -> bool:
        """Return whether the words stand in the raw text in this order, quotes and backslashes aside."""
        return any(self._in_order(spelling) for spelling in _spellings(text))

    def _in_order(self, text: str) -> bool:
        for plain in self._lower:  # far cheaper than a pattern, and mostly the answer
            if plain not in text:
                return False
        at = 0
        for word in self._spelling:  # the earliest place each time: one pass, whatever the text
            found = word.search(text, at)
            if found is None:
                return False
            at = found.end()
        return True

    def begin(self, view: tuple[str, ...]) -> bool:
        """Return whether the program and its first words are these, options between them aside."""
        if not self.words or not view:
            return False
        head, rest = self.head, view[1:]
        return program(view[0]) == head[0] and _follow(rest, head[1:]) and all(_has(rest, flag) for flag in self._flags)


class Wanted:
    """The commands that one rule names, by what they begin with: a segment is held against those it could be."""

    def __init__(self, every: tuple[Words, ...]) -> None:
        self._every = every
        self._texts = [words for words in every if not words.words]
        self._first: dict[str, list[Words]] = {}
        self._programs: dict[str, list[Words]] = {}
        for words in every:
            if words.words:
                self._first.setdefault(words.words[0], []).append(words)
                self._programs.setdefault(words.head[0], []).append(words)

    def fitting(self, segment: Segment) -> list[Words]:
        """Return the words that the segment fits (the narrow reading)."""
        return [words for words in self._first.get(segment.words[0], ()) if segment.fits(words)]

    def spelled(self, segment: Segment) -> bool:
        """Return whether the segment spells any of the words (the wide reading)."""
        if segment.hidden or segment.inline:
            return any(segment.spells(words) for words in self._every)
        if any(segment.spells(words) for words in self._texts):
            return True
        found = ((view, words) for view in segment.views for words in self._programs.get(program(view[0]), ()))
        return any(words.begin(view) for view, words in found)


@lru_cache(maxsize=64)
def _spellings(text: str) -> tuple[str, ...]:
    """Return the raw text in lower case, as it stands and without quotes and backslashes."""
    text = text.lower()
    return tuple(dict.fromkeys((text, re.sub(r"\\\r?\n|['\"\\]", "", text))))


def wanted_words(given: str) -> Words:
    """Return the words that a rule names; raise ValueError if there are none."""
    if not given.strip():
        raise ValueError("expects the first words of a command, such as git push")
    found = parse(given.strip())
    return Words(given, found[0].words if len(found) == 1 and not found[0].opaque else ())


@lru_cache(maxsize=512)
def parse(line: str) -> tuple[Segment, ...]:
    """Return the segments of a command line; one opaque segment if it is not plain. Never empty."""
    try:
        size = len(line)
        if size > MAX_BYTES or (not line.isascii() and len(line.encode("utf-8", "surrogatepass")) > MAX_BYTES):
            raise _Opaque("it is longer than 8 KiB")
        found = tuple(Segment(text, words, line=line) for text, words in _read(line))
        if not found:
            raise _Opaque("it holds no command")
        if len(found) > MAX_SEGMENTS:
            raise _Opaque(f"it holds more than {MAX_SEGMENTS} commands")
    except _Opaque as why:
        return (Segment(line, opaque=str(why), line=line),)
    return found


def segments(value: object) -> tuple[Segment, ...] | None:
    """Return the segments of a command, given as a line or as a list of words; None if it is neither."""
    if type(value) is str:
        return parse(value)
    if type(value) is list and value and all(type(word) is str for word in value):
        return (_from_argv(value),)
    return None


def _from_argv(argv: list[str]) -> Segment:
    """Return the segment of a command that came as a list of words, which no shell reads."""
    text = " ".join(argv)
    if not argv[0] or len(text) > MAX_BYTES or "\0" in text:
        return Segment(text, opaque="it is no command", line=text)
    return Segment(text, tuple(argv), line=text)


# ---------------------------------------------------------------- reading


def _read(line: str) -> list[tuple[str, tuple[str, ...]]]:
    if _SIMPLE.fullmatch(line) and (simple := line.split()):
        _check_first(simple[0], simple[0])
        return [_segment(line, simple)]
    segments: list[tuple[str, tuple[str, ...]]] = []
    words: list[str] = []
    start = at = 0
    joined = False  # an operator is waiting for its right side
    while at < len(line):
        char = line[at]
        if char == " ":
            at += 1
        elif char in "\n;|&":
            size = 2 if line[at : at + 2] in ("&&", "||") else 1
            if char == "&" and size == 1:
                raise _Opaque("it runs something in the background")
            if words:
                segments.append(_segment(line[start:at], words))
            elif char != "\n":
                raise _Opaque("an operator has no command before it")
            joined = char in "|&" or (joined and not words)
            at += size
            start, words = at, []
        else:
            word, at = _word(line, at, first=not words)
            words.append(word)
    if words:
        segments.append(_segment(line[start:], words))
    elif joined:
        raise _Opaque("an operator has no command after it")
    return segments


def _word(line: str, at: int, *, first: bool) -> tuple[str, int]:
    if line[at] == "#":
        raise _Opaque("it holds a comment")
    start, pieces = at, []
    while at < len(line) and (char := line[at]) not in _ENDS:
        if char in "'\"":
            end = line.find(char, at + 1)
            if end < 0:
                raise _Opaque("a quote is not closed")
            pieces.append(_quoted(line[at + 1 : end], char))
            at = end + 1
            continue
        bare = _BARE.match(line, at)
        if bare is not None:
            pieces.append(bare[0])
            at = bare.end()
            continue
        if char in _OPAQUE:
            raise _Opaque(f"it holds {char} outside single quotes")
        if not " " < char < "\x7f":
            raise _Opaque(f"it holds {_shown(char)} outside single quotes")
        if char == "!" and line[at + 1 : at + 2] not in ("", " ", "\n"):
            raise _Opaque("it holds a history reference")
        pieces.append(char)
        at += 1
    word = pieces[0] if len(pieces) == 1 else "".join(pieces)
    if first:
        _check_first(line[start:at], word)
    return word, at


def _quoted(text: str, quote: str) -> str:
    odd = (_ODD_IN_DOUBLE if quote == '"' else _ODD).search(text)
    if odd is not None:
        quotes = "quotes" if _ODD.match(odd[0]) else "double quotes"
        raise _Opaque(f"it holds {_shown(odd[0])} inside {quotes}")
    return text


def _check_first(raw: str, word: str) -> None:
    if word in KEYWORDS:
        raise _Opaque(f"it begins with the keyword {word}")
    if _ASSIGNMENT.match(raw) or raw[0] in "=^!" or not word:
        raise _Opaque("it begins with an assignment or nothing")
    if _GLOB.search(raw):
        raise _Opaque("the name of its program is a pattern")


def _segment(text: str, words: list[str]) -> tuple[str, tuple[str, ...]]:
    return text.strip(), tuple(words)


def _shown(char: str) -> str:
    return char if " " < char < "\x7f" else f"U+{ord(char):04X}"


# ---------------------------------------------------------------- the wide reading


@lru_cache(maxsize=1_024)
def program(word: str) -> str:
    """Return the bare name: without directory, in lower case (disks that ignore case), without .exe."""
    name = word.rsplit("/", 1)[-1].rsplit("\\", 1)[-1].lower()
    return re.sub(r"\.(exe|cmd|bat|com)$", "", name)


def _follow(words: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Return whether the wanted words come in this order with nothing but options (and their values) between."""
    places = {0}
    for want in wanted:
        reached: set[int] = set()
        for place in reach(words, places):
            if place < len(words) and words[place] == want:
                reached.add(place + 1)
        if not reached:
            return False
        places = reached
    return True


def reach(words: tuple[str, ...], places: set[int]) -> set[int]:
    """Return every place that can be next: an option may be skipped, alone or with the word after it."""
    seen: set[int] = set()
    rest = list(places)
    while rest:
        place = rest.pop()
        if place in seen or place > len(words):
            continue
        seen.add(place)
        if place < len(words) and words[place].startswith("-"):
            rest += [place + 1, place + 2]
    return seen


def _has(words: tuple[str, ...], flag: str) -> bool:
    """Return whether the flag is given: alone, with a value, or its letters in any bundle of short ones."""
    if any(word == flag or word.startswith(flag + "=") for word in words):
        return True
    if flag.startswith("--") or not flag[1:].isalpha():
        return False
    given = "".join(word[1:] for word in words if re.fullmatch(r"-[A-Za-z]+", word))
    return bool(flag[1:]) and set(flag[1:]) <= set(given)
