"""Words of a command line, read exactly as every POSIX shell reads them, or refused with the reason.

A word has bare text, text in quotes, escaped signs, and variables whose value the line itself gives. The only command
in a word that is read is `"$(cat <<'EOF' … EOF)"`, which is the text of its here-document.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

QUOTED = "\0"  # in a mask: a character that the shell does not expand
DELIMITERS = " \n;|&"
_BARE = re.compile(r"(?:[^\x00-\x20\x7f-\U0010ffff$`\\<>(){}'\";|&!]|\{\})+")
_OTHER_LETTERS = re.compile("[\u00a1-\U0010ffff]+")
_BLANK_BYTES = re.compile(rb"[\x85\xa0]")  # which some systems take for blanks
_SINGLE = re.compile(r"'([^'\x00-\x09\x0b-\x1f\x7f]*)'")
_DOUBLE_TEXT = re.compile(r'[^"$`\\!\x00-\x09\x0b-\x1f\x7f]+')
_ESCAPED = re.compile(r"""\\([;()!*?\[\]|&<>$"'#~ {}\\])""")
_EXCLAMATION = re.compile(r"!=?(?=[ \n;]|$)")
_STATUS = re.compile(r"\$(?:[?!]|\{\?\}|\{(?:PIPESTATUS|pipestatus)\[(?:[0-9]|[@*])\]\})")
# zsh takes `$x[1]` and `$x:h` for parts of the value.
_VARIABLE = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]*)(?![A-Za-z0-9_\[]|:[A-Za-z&])|\{([A-Za-z_][A-Za-z0-9_]*)\})", re.ASCII
)
_DOCUMENT = re.compile(r"""\$\(cat <<(['"])([A-Za-z_]+)\1\n""")
_SPLITS = re.compile(r"[^!-~\u00a1-\U0010ffff]|[*?\[\\]|^$")
_GLOB = re.compile(r"[*?\[]")


class NotPlain(Exception):
    """The line is not plain; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the program receives it.

    `mask`: the text with `QUOTED` for each character that the shell does not expand. `scattered`: file names in it may
    become several words. `expanded`: it has a variable; `number`: it has an exit status, which is not known.
    """

    text: str
    mask: str
    scattered: bool = False
    expanded: bool = False
    number: bool = False

    @property
    def is_pattern(self) -> bool:
        """Whether it is a pattern, which may become several words."""
        return self.scattered or _GLOB.search(self.mask) is not None

    @property
    def starts_with_pattern(self) -> bool:
        """Whether it may become a word that begins with any character."""
        return self.scattered or _GLOB.match(self.mask) is not None


def quote_word(word: Word) -> Word:
    """Return the word as a value, which is not expanded."""
    return Word(word.text, QUOTED * len(word.text), expanded=word.expanded, number=word.number)


def refuse_sign(source: str, position: int) -> NoReturn:
    """Raise NotPlain with the reason for what is at this position."""
    sign = source[position : position + 1]
    if source.startswith(("$(", "`"), position):
        raise NotPlain("it contains a command substitution")
    if sign in {"<", ">"} and not source.startswith(("<(", ">("), position):
        raise NotPlain("it redirects input or output")
    if sign == "&":
        raise NotPlain("it runs something in the background")
    description = sign if " " < sign < "\x7f" else f"U+{ord(sign):04X}" if sign else "an open quote"
    raise NotPlain(f"it contains {description} outside single quotes")


def read_whole_word(text: str) -> str | None:
    """Return the word without variables that the text spells, or None."""
    try:
        word, end = read_word(text, 0, {})
    except NotPlain:
        return None
    return word.text if end == len(text) and not word.number else None


def read_word(source: str, start: int, scope: Mapping[str, Word]) -> tuple[Word, int]:
    """Return the word that begins here, and the position after it.

    `scope`: values of variables. Raises NotPlain.
    """
    reader = _WordReader(source, start, scope)
    reader.read()
    return reader.build(), reader.position


class _WordReader:
    def __init__(self, source: str, start: int, scope: Mapping[str, Word]) -> None:
        self.source, self.start, self.position, self.scope = source, start, start, scope
        self._text: list[str] = []
        self._mask: list[str] = []
        self._scattered = self._expanded = self._number = False

    def build(self) -> Word:
        """Return the word."""
        text, mask = "".join(self._text), "".join(self._mask)
        return Word(text, mask, self._scattered, self._expanded, self._number)

    def read(self) -> None:
        """Read all pieces up to a delimiter."""
        source = self.source
        while self.position < len(source) and source[self.position] not in DELIMITERS:
            sign = source[self.position]
            if sign == "'":
                self._add_match(_SINGLE, group=1)
            elif sign == '"':
                self._read_double_quotes()
            elif sign == "\\":
                self._add_match(_ESCAPED, group=1)
            elif sign == "$":
                self._read_variable(is_quoted=False)
            elif sign == "!" and self.position == self.start:
                self._add_match(_EXCLAMATION)
            elif sign >= "\x7f":
                self._read_other_letters()
            else:
                self._add_match(_BARE, is_quoted=False)
        if self.position == self.start:
            refuse_sign(source, self.position)

    def _add(self, text: str, *, is_quoted: bool = True) -> None:
        self._text.append(text)
        self._mask.append(QUOTED * len(text) if is_quoted else text)

    def _add_match(self, pattern: re.Pattern[str], *, group: int = 0, is_quoted: bool = True) -> None:
        match = pattern.match(self.source, self.position)
        if match is None:
            refuse_sign(self.source, self.position)
        self._add(match[group], is_quoted=is_quoted)
        self.position = match.end()

    def _read_other_letters(self) -> None:
        match = _OTHER_LETTERS.match(self.source, self.position)
        if match is None or not match[0].isprintable() or _BLANK_BYTES.search(match[0].encode()):
            refuse_sign(self.source, self.position)
        self._add(match[0], is_quoted=False)
        self.position = match.end()

    def _read_double_quotes(self) -> None:
        source = self.source
        self.position += 1
        while not source.startswith('"', self.position):
            sign = source[self.position : self.position + 1]
            if sign == "\\":
                self._read_quoted_backslash()
            elif sign == "$" and source.startswith('"', self.position - 1) and _DOCUMENT.match(source, self.position):
                self._read_document()
            elif sign == "$":
                self._read_variable(is_quoted=True)
            else:
                self._add_match(_DOUBLE_TEXT)
        self.position += 1

    def _read_quoted_backslash(self) -> None:
        """Read an escaped sign, a continued line, or a backslash that the shell keeps."""
        after = self.source[self.position + 1 : self.position + 2]
        if not after or after == "!" or not (" " <= after <= "~" or after == "\n"):
            refuse_sign(self.source, self.position)
        self._add("" if after == "\n" else after if after in '$`"\\' else "\\" + after)
        self.position += 2

    def _read_variable(self, *, is_quoted: bool) -> None:
        status = _STATUS.match(self.source, self.position)
        if status is not None:
            self._add("0")
            self._number = self._expanded = True
            self.position = status.end()
            return
        match = _VARIABLE.match(self.source, self.position)
        value = self.scope.get(match[1] or match[2]) if match is not None else None
        if match is None or value is None or (not is_quoted and not value.is_pattern and _SPLITS.search(value.text)):
            refuse_sign(self.source, self.position)
        self._text.append(value.text)
        self._mask.append(value.mask)
        self._expanded, self._number = True, self._number or value.number
        self._scattered = self._scattered or value.scattered or (value.is_pattern and not is_quoted)
        self.position = match.end()

    def _read_document(self) -> None:
        """Read `$(cat <<'EOF' … EOF)`, whose value is the text of the document."""
        source, start = self.source, self.position
        match = _DOCUMENT.match(source, start)
        body, end = read_document(source, match.end(), match[2]) if match is not None else (None, 0)
        closing = re.compile(r'[ \n]*\)(?=")').match(source, end)
        if body is None or closing is None:
            refuse_sign(source, start)
        if _find_old_end(source, start + 2) not in {closing.end(), None}:  # shells of before 2009 end it elsewhere
            refuse_sign(source, start)
        self._add(body.rstrip("\n"))
        self.position = closing.end()


def read_document(source: str, start: int, delimiter: str) -> tuple[str | None, int]:
    """Return the text of the here-document here, and its end.

    The text is None if its end is missing.
    """
    position = start
    while position < len(source):
        end = source.find("\n", position)
        end = len(source) if end < 0 else end
        if source[position:end] == delimiter:
            return source[start:position], end
        position = end + 1
    return None, start


_QUOTES = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\[\s\S])*\"|`(?:[^`\\]|\\[\s\S])*`|\\[\s\S]")


def _find_old_end(source: str, start: int) -> int | None:
    """Return where a shell that does not know here-documents ends a command substitution.

    None if it finds no end, and so runs nothing.
    """
    depth, position = 1, start
    while position < len(source):
        quotes = _QUOTES.match(source, position)
        if quotes is not None:
            position = quotes.end()
            continue
        sign = source[position]
        if sign in "'\"`\\":
            return None
        depth += (sign == "(") - (sign == ")")
        position += 1
        if depth == 0:
            return position
    return None
