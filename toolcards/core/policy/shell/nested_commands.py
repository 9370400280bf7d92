"""The commands among the words of another command, which runs them."""

from __future__ import annotations

import re

from toolcards.core.policy.shell.arguments import Arguments
from toolcards.core.policy.shell.plain.globs import ExpandedWords, Globs
from toolcards.core.policy.shell.plain.parser import ParsedCommand, parse_line
from toolcards.core.policy.shell.program_forms import ProgramForm

_VARIES = re.compile(r"[*?\[]|\{\}")
_REPLACES = frozenset({"-I", "-i", "--replace"})


def find_nested_commands(
    words: tuple[str, ...], globs: Globs, form: ProgramForm, arguments: Arguments
) -> tuple[tuple[ParsedCommand, ...], bool]:
    """Return the commands among the words, and whether some are unreadable."""
    commands = [_cut_command(words, globs, start, end, form) for start, end in arguments.commands]
    lines = [value for name, value in arguments.options if name in form.lines | form.commands]
    operands = _skip_assignments(form, arguments.operands)
    if form.then is not None and len(operands) > form.then[0] and not lines:
        replaced_words = tuple(value or "{}" for name, value in arguments.options if name in _REPLACES)
        commands.append(_cut_command(words, globs, operands[form.then[0]][0], len(words), form, replaced_words))
    if form.line is not None and len(operands) > form.line[0] and not lines:
        lines.append(" ".join(words[operands[form.line[0]][0] :]))
    if form.line_if & arguments.names and operands:
        lines.append(operands[0][1])
    unread = any(not command.words or not command.words[0] or _is_unsure(command) for command in commands)
    for line in lines:
        parsed_line = parse_line(line)
        unread = unread or bool(parsed_line.opaque)
        commands += parsed_line.commands
    return tuple(command for command in commands if command.words and command.words[0]), unread


def _is_unsure(command: ParsedCommand) -> bool:
    """Return whether the name of the program is uncertain."""
    return 0 in command.globs.every or _VARIES.search(command.words[0]) is not None


def may_expansion_change_meaning(
    words: tuple[str, ...], globs: Globs, form: ProgramForm, length: int, arguments: Arguments
) -> bool:
    """Return whether an expansion may change the meaning of other words.

    Only words after the first `length` expand.
    """
    operands = _skip_assignments(form, arguments.operands)
    runs = form.then is not None and len(operands) > form.then[0]
    start = operands[form.then[0]][0] if form.then is not None and runs else len(words)
    places = frozenset(glob for glob in globs.every if glob >= length)
    return ExpandedWords(form, arguments, places, start).changes_meaning()


def _cut_command(
    words: tuple[str, ...], globs: Globs, start: int, end: int, form: ProgramForm, replaced_words: tuple[str, ...] = ()
) -> ParsedCommand:
    """Return a part of the words as a command. Words that contain a placeholder for file names vary."""
    part, inside = words[start:end], globs.part(start, end)
    varying = {place for place, word in enumerate(part) if place and "{}" in word and word != "{}"}
    varying |= {place for place, word in enumerate(part) if any(sign in word for sign in replaced_words)}
    if form.appends:
        part, varying = (*part, "*"), varying | {len(part)}
    return ParsedCommand(" ".join(part), part, Globs(inside.leading | varying, inside.every | varying))


def _skip_assignments(form: ProgramForm, operands: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the operands without the assignments at their beginning."""
    position = 0
    while form.assign is not None and position < len(operands) and form.assign.fullmatch(operands[position][1]):
        position += 1
    return operands[position:]
