"""The commands that stand in the words of another one, which runs them."""

from __future__ import annotations

import re

from toolcards.core.policy.shell.arguments import Arguments
from toolcards.core.policy.shell.globs import Globs, Scatter
from toolcards.core.policy.shell.parser import Command, parse_line
from toolcards.core.policy.shell.program_forms import Form

_VARIES = re.compile(r"[*?\[]|\{\}")
_REPLACES = frozenset({"-I", "-i", "--replace"})


def inner_commands(
    words: tuple[str, ...], globs: Globs, form: Form, arguments: Arguments
) -> tuple[tuple[Command, ...], bool]:
    """Return the commands that stand in the words, and whether some of them cannot be read."""
    commands = [_part(words, globs, start, end, form) for start, end in arguments.commands]
    lines = [value for name, value in arguments.options if name in form.lines | form.commands]
    operands = _after_assignments(form, arguments.operands)
    if form.then is not None and len(operands) > form.then[0] and not lines:
        replaced = tuple(value or "{}" for name, value in arguments.options if name in _REPLACES)
        commands.append(_part(words, globs, operands[form.then[0]][0], len(words), form, replaced))
    if form.line is not None and len(operands) > form.line[0] and not lines:
        lines.append(" ".join(words[operands[form.line[0]][0] :]))
    if form.line_if & arguments.names and operands:
        lines.append(operands[0][1])
    unread = any(not one.words or not one.words[0] or _is_unsure(one) for one in commands)
    for line in lines:
        parsed = parse_line(line)
        unread = unread or bool(parsed.opaque)
        commands += parsed.commands
    return tuple(one for one in commands if one.words and one.words[0]), unread


def _is_unsure(command: Command) -> bool:
    """Return whether the name of the program may be another one."""
    return 0 in command.globs.every or _VARIES.search(command.words[0]) is not None


def scatters(words: tuple[str, ...], globs: Globs, form: Form, length: int, arguments: Arguments) -> bool:
    """Return whether a word after the first `length` that becomes several may change what the others mean."""
    operands = _after_assignments(form, arguments.operands)
    runs = form.then is not None and len(operands) > form.then[0]
    start = operands[form.then[0]][0] if form.then is not None and runs else len(words)
    places = frozenset(glob for glob in globs.every if glob >= length)
    return Scatter(form, arguments, places, start).changes_meaning()


def _part(
    words: tuple[str, ...], globs: Globs, start: int, end: int, form: Form, replaced: tuple[str, ...] = ()
) -> Command:
    """Return a part of the words as a command. Where file names take the place of `{}`, words that hold it may vary."""
    part, inside = words[start:end], globs.part(start, end)
    varying = {place for place, word in enumerate(part) if place and "{}" in word and word != "{}"}
    varying |= {place for place, word in enumerate(part) if any(sign in word for sign in replaced)}
    if form.appends:
        part, varying = (*part, "*"), varying | {len(part)}
    return Command(" ".join(part), part, Globs(inside.leading | varying, inside.every | varying))


def _after_assignments(form: Form, operands: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the operands without the assignments at their beginning."""
    at = 0
    while form.assign is not None and at < len(operands) and form.assign.fullmatch(operands[at][1]):
        at += 1
    return operands[at:]
