"""One command of a plain line: its words, the variables before it, and its redirections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from toolcards.core.policy.shell.catalogs import find_program
from toolcards.core.policy.shell.plain.globs import NO_GLOBS, Globs
from toolcards.core.policy.shell.plain.words import NotPlain, Word, quote_word, read_document, read_word, refuse_sign

# Variables of a line: the names that change nothing but the line itself, and those before a command.
_LOWER_NAME = re.compile(r"(?!.*proxy$|npm_|zsh_)[a-z][a-z0-9_]*", re.ASCII)
# Names that no shell and no program reads. Others may already be in the environment of the programs.
_UPPER_NAMES_TEXT = (
    "A B C D E F I J K N P Q R S T V W X Y Z FILE FILES DIR NAME ID URL BASE SRC DST DEST OUT PR ISSUE BRANCH TAG SHA "
    "COMMIT REF NS POD SERVICE QUERY DATE START END LIMIT COUNT RC STATUS RESULT BODY MSG MESSAGE TITLE SINCE"
)
_UPPER_NAMES = frozenset(_UPPER_NAMES_TEXT.split())
_ZSH_NAMES_TEXT = (
    "path cdpath fpath manpath mailpath module_path prompt psvar watch status signals argv fignore histchars options "
    "aliases functions commands parameters pipestatus keymap dirstack nameddirs userdirs builtins galiases saliases "
    "words auto_resume term user home shell cwd modules jobstates jobtexts jobdirs reswords patchars history "
    "historywords funcstack functrace errnos sysparams mapfile widgets langinfo terminfo termcap epochtime"
)
_ZSH_NAMES = frozenset(_ZSH_NAMES_TEXT.split())
# They can give a variable another value.
_SETTERS_TEXT = "read mapfile readarray getopts let source . eval trap builtin exec wait vared zparseopts print sched"
_SETTERS = frozenset(_SETTERS_TEXT.split())

# Their variables stay set, or are those of the shell.
_BUILTINS_TEXT = (
    "cd pushd popd chdir export declare typeset local readonly unset set shopt setopt command : times umask ulimit "
    "alias unalias hash enable type bg fg jobs kill test [ return exit break continue shift true false echo printf"
)
_BUILTINS = _SETTERS | frozenset(_BUILTINS_TEXT.split())
# They say which program runs, or what a shell does with words.
_SPECIAL_NAME = re.compile(
    r"(?:.*_)?PATH|LD_.*|DYLD_.*|IFS|ENV|HOME|SHELL.*|BASH.*|ZDOTDIR|ZSH.*|PS[0-9]|PROMPT.*|GLOBIGNORE|GCONV.*|POSIXLY.*|"
    r"OPT(?:IND|ARG|ERR)|PWD|OLDPWD|TERMCAP|TERMINFO|NULLCMD|READNULLCMD|FPATH|path|fpath|cdpath|argv|TMOUT|LC_.*|LANG.*"
)


def is_harmless_name(name: str) -> bool:
    """Return whether no shell and no program reads the variable."""
    return name in _UPPER_NAMES or (_LOWER_NAME.fullmatch(name) is not None and name not in _ZSH_NAMES)


def may_set_variables(words: tuple[str, ...]) -> bool:
    """Return whether the command may give variables other values."""
    return not _SETTERS.isdisjoint(words) or (words[0] == "printf" and "-v" in " ".join(words))


def spell_environment(assignments: list[tuple[str, Word]], program: str) -> tuple[str, ...]:
    """Return the words that set these variables for a program.

    `A=1 make` is `env A=1 make`; () if they change nothing, such as `CI=1`. Raise NotPlain if they may change what the
    words mean.
    """
    form = find_program("env")
    harmless = form.assign if form is not None else None
    texts = tuple(f"{name}={word.text}" for name, word in assignments)
    if harmless is not None and all(map(harmless.fullmatch, texts)) and not any(word.number for _, word in assignments):
        return ()
    is_plain = all(not word.number and not _SPECIAL_NAME.fullmatch(name) for name, word in assignments)
    if not is_plain or program in _BUILTINS or find_program(program) is form:
        raise NotPlain("it begins with an assignment or nothing")
    return ("env", *texts)


MAX_BYTES = 8 * 1024
MAX_EXPANDED = 4 * MAX_BYTES  # characters of all words, with the values of variables
# The grammar reads some of these as names of programs.
_KEYWORDS = (
    "if then else elif fi do done case esac while until for select function coproc in time noglob nocorrect "
    "foreach end repeat always - [[ ]] { } ! [ export declare typeset local readonly unset unsetenv"
)
KEYWORDS = frozenset(_KEYWORDS.split())
_STATUS_COMMANDS = frozenset({"echo", "printf", "exit", "return", "test", "true", ":"})  # to which a number is harmless
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=", re.ASCII)
_OTHER_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=")
_PATTERN_SIGNS = re.compile(r"[*?\[~]")
_REDIRECT = re.compile(r"([0-9]*)(>>|>\||>&|<<<|<<-|<<|<&|<>|>|<|&>>|&>)")
_HARMLESS = re.compile(r"[12]?>&[12](?=[ \n;|&]|$)")
_WRITES = frozenset({">", ">>", ">|", "&>", "&>>"})
_DELIMITER = re.compile(r"""(['"])([A-Za-z_][A-Za-z0-9_]*)\1(?=[ \n;|&]|$)""")
_DEVICE = re.compile(r"/[./]*dev/")


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """One command of a line: its exact spelling and its words.

    `globs`: its words that are patterns. `redirected`: its input or output is redirected. `targets`: files that
    redirections write; `inputs`: files that they read. `operator`: what joins it to the command before it. `apart`: it
    is timed or in the background.
    """

    text: str
    words: tuple[str, ...]
    globs: Globs = NO_GLOBS
    redirected: bool = False
    targets: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    operator: str = "\n"
    apart: bool = False


class CommandReader:
    """Reads the commands of a line, one after the other. `scope`: values of variables."""

    def __init__(self, source: str) -> None:
        self.source, self.position = source, 0
        self.scope: dict[str, Word] = {}
        self.assigned: list[str] = []  # by the last statement
        self.is_closed = False  # a command may have changed variables
        self.delimiter = ""  # of the here-document that begins on the next line
        self._size = 0

    def is_at(self, *signs: str) -> bool:
        """Return whether one of these signs is next."""
        return self.source.startswith(signs, self.position)

    def skip_blanks(self) -> None:
        """Skip spaces and continued lines."""
        while True:
            if self.source.startswith(" ", self.position):
                self.position += 1
            elif self.source.startswith("\\\n", self.position) and not self.delimiter:
                if self.position and self.source[self.position - 1] not in " \n;|&":
                    raise NotPlain("it contains a line continuation or text that is not understood")
                self.position += 2
            else:
                return

    def read_word(self) -> Word:
        """Return the next word."""
        word, end = read_word(self.source, self.position, {} if self.is_closed else self.scope)
        if self.delimiter and "\n" in self.source[self.position : end]:
            raise NotPlain("it contains a here-document")
        self.position = end
        self._size += len(word.text)
        if self._size > MAX_EXPANDED:
            raise NotPlain("it is longer than 8 KiB")
        return word

    def read_command(self, *, can_assign: bool) -> ParsedCommand | None:
        """Return the next command, None for assignments alone."""
        start = self.position
        assignments = list(self._read_assignments())
        words: list[Word] = []
        while not self._is_at_end() and not _REDIRECT.match(self.source, self.position):
            first = self.position
            word = self.read_word()
            if not words:
                _check_program_name(self.source[first : self.position], word)
            words.append(word)
            self.skip_blanks()
        if not words:
            self._assign(assignments, can_assign=can_assign)
            return None
        texts = tuple(word.text for word in words)
        environment = spell_environment(assignments, texts[0]) if assignments else ()
        if any(word.number for word in words) and texts[0] not in _STATUS_COMMANDS:
            raise NotPlain("it contains $ outside single quotes")
        self.is_closed = self.is_closed or may_set_variables(texts)
        every = frozenset(place for place, word in enumerate(words, len(environment)) if word.is_pattern)
        leading = frozenset(place for place, word in enumerate(words, len(environment)) if word.starts_with_pattern)
        globs = Globs(leading, every) if every else NO_GLOBS
        command = self.read_redirects(ParsedCommand("", (*environment, *texts), globs))
        return replace(command, text=self.source[start : self.position].rstrip(" ") + self._peek_document())

    def _peek_document(self) -> str:
        """Return the here-document of this command as it is spelled."""
        if not self.delimiter:
            return ""
        start = self.source.find("\n", self.position)
        _, end = read_document(self.source, start + 1, self.delimiter) if start >= 0 else (None, start)
        return self.source[start:end]

    def _is_at_end(self) -> bool:
        """Return whether a command ends here."""
        if self.position >= len(self.source):
            return True
        sign = self.source[self.position]
        return sign in "\n;|#" or (sign == "&" and not self.source.startswith("&>", self.position))

    def _read_assignments(self) -> Iterator[tuple[str, Word]]:
        while (match := _ASSIGNMENT.match(self.source, self.position)) is not None:
            self.position = match.end()
            is_empty = self.position >= len(self.source) or self.source[self.position] in " \n;"
            word = Word("", "") if is_empty else self.read_word()
            if "~" in word.mask or word.is_pattern:
                raise NotPlain("it begins with an assignment or nothing")
            yield match[1], quote_word(word)
            self.skip_blanks()

    def _assign(self, assignments: list[tuple[str, Word]], *, can_assign: bool) -> None:
        if not assignments or not can_assign or self.is_closed or not self._is_at_end():
            if assignments:
                raise NotPlain("it begins with an assignment or nothing")
            refuse_sign(self.source, self.position)
        for name, word in assignments:
            if not is_harmless_name(name):
                raise NotPlain("it begins with an assignment or nothing")
            self.scope[name] = word
        self.assigned = [name for name, _ in assignments]

    # ------------------------------------------------------------ redirections

    def read_redirects(self, command: ParsedCommand) -> ParsedCommand:
        """Return the command with the redirections after it."""
        targets, inputs, is_redirected = command.targets, command.inputs, False
        while True:
            self.skip_blanks()
            match = _REDIRECT.match(self.source, self.position)
            if match is None:
                break
            is_redirected = True
            if self.source[self.position - 1] not in " \n":
                raise NotPlain("it redirects input or output")
            if harmless := _HARMLESS.match(self.source, self.position):
                self.position = harmless.end()
                continue
            self.position = match.end()
            if match[2] == "<<":
                self._read_delimiter()
                continue
            target = self._read_target(match)
            if target == "/dev/null":
                continue
            if match[2] == "<":
                inputs = (*inputs, target)
            else:
                targets = (*targets, target)
        if not self._is_at_end():
            raise NotPlain("it redirects input or output")
        return replace(command, redirected=is_redirected, targets=targets, inputs=inputs)

    def _read_delimiter(self) -> None:
        self.skip_blanks()
        match = _DELIMITER.match(self.source, self.position)
        if match is None or self.delimiter:
            raise NotPlain("it contains a here-document")
        self.position, self.delimiter = match.end(), match[2]

    def _read_target(self, match: re.Match[str]) -> str:
        """Return the file that a redirection reads or writes."""
        descriptors = {"", "0"} if match[2] == "<" else {"", "1", "2"} if match[2] in _WRITES else frozenset()
        self.skip_blanks()
        if match[1] not in descriptors or self._is_at_end():
            raise NotPlain("it redirects input or output")
        word = self.read_word()
        if not word.text or word.is_pattern or word.number or "{}" in word.text:
            raise NotPlain("it redirects input or output")
        if _DEVICE.match(word.text) and word.text != "/dev/null":  # some are connections
            raise NotPlain("it redirects input or output")
        return word.text


def _check_program_name(raw: str, word: Word) -> None:
    if word.text in KEYWORDS:
        raise NotPlain(f"it begins with the keyword {word.text}")
    if _OTHER_ASSIGNMENT.match(raw) or raw[0] in "=^!" or not word.text:
        raise NotPlain("it begins with an assignment or nothing")
    if word.expanded:
        raise NotPlain("it contains $ outside single quotes")
    if word.is_pattern or _PATTERN_SIGNS.search(word.mask) or "{}" in word.text:
        raise NotPlain("the name of its program is a pattern")
    if not word.mask.isascii() or "\\" in raw or not word.text.isprintable():
        raise NotPlain("the name of its program is not plain")
