"""Commands of a plain line, in order, with the loops among them.

`for` yields its commands once for each word. A variable has a value only where the line certainly gives it one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from toolcards.core.policy.shell.plain.command_reader import CommandReader, ParsedCommand, is_harmless_name
from toolcards.core.policy.shell.plain.words import NotPlain, Word, read_document, refuse_sign

MAX_COMMANDS = 100
MAX_LOOPS = 3  # inside each other
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ENDS = frozenset({";", "\n", "&"})  # of an and-or list
_OPERATOR = re.compile(r"&&|\|\|(?!\|)|;(?![;&|])|\|(?![|&])|&(?![&>|;!])")
_TIMED = re.compile(r"time +(?![A-Za-z_][A-Za-z0-9_]*\+?=|(?:for|time)\s)[\w./]")  # it says how long the command took
# Some shells read a comment as words, so it has no signs, and at the end of a command no options and paths either.
_OWN_COMMENT = re.compile(r"#[^\n;&|<>()$`\\!'\"\x00-\x1f\x7f]*(?=\n|$)")
_END_COMMENT = re.compile(r"#(?: +[A-Za-z0-9,.:]+)* *(?=\n|$)")


def read_commands(source: str) -> tuple[ParsedCommand, ...]:
    """Return the commands of a plain line; raise NotPlain for others."""
    reader = _LineReader(source)
    commands = list(reader.read_list(""))
    if not commands:
        raise NotPlain("it contains no command")
    return tuple(commands)


class _LineReader(CommandReader):
    def __init__(self, source: str) -> None:
        super().__init__(source)
        self._depth = self._count = 0

    # ------------------------------------------------------------ lists of commands

    def read_list(self, ending: str) -> Iterator[ParsedCommand]:
        """Yield the commands up to the keyword `ending`, or all."""
        operator: str | None = "\n"
        uncertain: list[str] = []  # variables that only a part of the and-or list sets
        has_and = has_or = was_assignment = has_command = has_assignment = False
        while True:
            self.skip_blanks()
            if self.position >= len(self.source):
                break
            sign = self.source[self.position]
            if sign == "\n":
                self._end_line()
                operator = operator or "\n"
            elif sign == "#":
                self._skip_comment(operator)
                continue
            elif operator is None:
                operator = self._read_operator()
                if was_assignment and operator == "|":
                    raise NotPlain("it begins with an assignment or nothing")
                if operator == "&" and (has_assignment or self._depth or self.delimiter):  # it is not set afterwards
                    raise NotPlain("it runs something in the background")
            elif operator in {";", "\n"} and ending and has_command and self._takes_keyword(ending):
                if self.delimiter:
                    raise NotPlain("it contains a here-document")
                self._forget(uncertain)
                return
            else:
                is_certain = not has_or and operator != "|" and not self._depth
                commands = list(self._read_statement(can_assign=is_certain))
                if commands:
                    commands[0] = replace(commands[0], operator=operator)
                was_assignment, has_command, operator = not commands, True, None
                has_assignment = has_assignment or was_assignment
                if has_and and was_assignment:
                    uncertain += self.assigned
                yield from commands
            if operator == "||":
                self._forget(uncertain)
            has_and, has_or = has_and or operator == "&&", has_or or operator == "||"
            if operator in _ENDS:
                self._forget(uncertain)
                has_and = has_or = has_assignment = False
        if operator in {"&&", "||", "|"}:
            raise NotPlain("an operator has no command after it")
        if ending or self.delimiter:
            raise NotPlain("its syntax is not understood")

    def _forget(self, names: list[str]) -> None:
        for name in names:
            self.scope.pop(name, None)
        names.clear()

    def _read_operator(self) -> str:
        match = _OPERATOR.match(self.source, self.position)
        if match is None:
            refuse_sign(self.source, self.position)
        self.position = match.end()
        return match[0]

    def _end_line(self) -> None:
        self.position += 1
        if not self.delimiter:
            return
        body, self.position = read_document(self.source, self.position, self.delimiter)
        if body is None:
            raise NotPlain("it contains a here-document")
        self.delimiter = ""

    def _skip_comment(self, operator: str | None) -> None:
        match = (_END_COMMENT if operator is None else _OWN_COMMENT).match(self.source, self.position)
        before = self.source[self.position - 1 : self.position]
        if match is None or before not in {"", " ", "\n"} or operator in {"&&", "||", "|"}:
            raise NotPlain("it contains a comment")
        self.position = match.end()

    def _takes_keyword(self, keyword: str) -> bool:
        """Skip the keyword if it is here."""
        end = self.position + len(keyword)
        if not self.source.startswith(keyword, self.position) or self.source[end : end + 1] not in {"", *" \n;|&"}:
            return False
        self.position = end
        return True

    def _read_statement(self, *, can_assign: bool) -> Iterator[ParsedCommand]:
        is_timed = _TIMED.match(self.source, self.position) is not None
        if is_timed:
            self.position += len("time ")
            self.skip_blanks()
        start = self.position
        if self.source.startswith("for ", start):
            commands = list(self._read_loop())
            loop = self.read_redirects(ParsedCommand(self.source[start : self.position], ()))
            if loop.redirected:
                commands[-1] = replace(
                    commands[-1], redirected=True,
                    targets=commands[-1].targets + loop.targets, inputs=commands[-1].inputs + loop.inputs,
                )  # fmt: skip
            yield from commands
            return
        command = self.read_command(can_assign=can_assign)
        if command is not None:
            self._count += 1
            if self._count > MAX_COMMANDS:
                raise NotPlain(f"it contains more than {MAX_COMMANDS} commands")
            yield replace(command, apart=True) if is_timed or self._is_background() else command

    def _is_background(self) -> bool:
        return self.source.startswith("&", self.position) and not self.source.startswith("&&", self.position)

    # ------------------------------------------------------------ for

    def _read_loop(self) -> Iterator[ParsedCommand]:
        self.position += len("for ")
        self.skip_blanks()
        name = _NAME.match(self.source, self.position)
        if name is None or not is_harmless_name(name[0]):
            raise NotPlain("it begins with the keyword for")
        self.position = name.end()
        self.skip_blanks()
        if not self._takes_keyword("in"):
            raise NotPlain("it begins with the keyword for")
        values = list(self._read_values())
        while self.is_at(" ", "\n"):
            self.position += 1
        has_body = self._takes_keyword("do") and self.is_at(" ", "\n")
        if not values or not has_body or self.is_closed or self._depth >= MAX_LOOPS:
            raise NotPlain("it begins with the keyword for")
        start = self.position
        self._depth += 1
        for value in values:
            for _ in range(1 + value.is_pattern):  # the second sees what the first did
                self.scope[name[0]] = value
                self.position = start
                yield from self.read_list("done")
        self._depth -= 1
        self.scope.pop(name[0], None)

    def _read_values(self) -> Iterator[Word]:
        """Yield the words of a loop, up to the end of its line or `;`."""
        while True:
            self.skip_blanks()
            if self.is_at("\n", ";"):
                self.position += 1
                return
            word = self.read_word()
            if word.number or "~" in word.mask:
                raise NotPlain("it begins with the keyword for")
            yield word
