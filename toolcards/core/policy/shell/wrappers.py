"""Commands behind wrappers: every command that a segment may run, in the wide reading.

If an option may or may not take the next word, both readings count. This is for ask and deny; `CommandSegment.analysis`
is for allow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from toolcards.core.policy.shell.analysis import CommandAnalysis, analyze_command
from toolcards.core.policy.shell.arguments import may_mean_option
from toolcards.core.policy.shell.catalogs import ProgramForm, find_program
from toolcards.core.policy.shell.plain.globs import NO_GLOBS
from toolcards.core.policy.shell.plain.parser import parse_line

MAX_VIEWS = 64
MAX_DEPTH = 6
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_GLOB = re.compile(r"[*?\[$`{]|^~")

WordTuple = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UnwrappedCommand:
    """The words of every command that a segment may run, its own first.

    `hidden`: it runs something that is not visible. `loose`: words that are not understood may name a program.
    """

    views: tuple[WordTuple, ...]
    hidden: bool
    loose: bool


@lru_cache(maxsize=1_024)
def unwrap_command(words: WordTuple) -> UnwrappedCommand:
    """Return the commands behind all wrappers of these words."""
    views: dict[WordTuple, None] = {}
    hidden = loose = False
    pending = [(words, 0)]
    while pending:
        view, depth = pending.pop()
        if not view or not view[0] or view in views:
            continue
        if len(views) >= MAX_VIEWS or depth > MAX_DEPTH:
            return UnwrappedCommand(tuple(views), True, loose)
        views[view] = None
        analysis = analyze_command(view, NO_GLOBS)  # the same arguments as for segments, so that the cache has it
        hidden = hidden or analysis.hidden or bool(_GLOB.search(view[0]))
        loose = loose or analysis.loose
        inner_commands, unread = _list_wrapped_commands(view, analysis)
        hidden = hidden or unread
        pending += [(inner, depth + 1) for inner in inner_commands]
    return UnwrappedCommand(tuple(views), hidden, loose)


def _list_wrapped_commands(view: WordTuple, analysis: CommandAnalysis) -> tuple[list[WordTuple], bool]:
    """Return the words of all commands that this one may run, and whether a shell reads lines that are not plain."""
    commands = [command.words for command in analysis.inner]
    form = find_program(view[0])
    if analysis.read_only or form is None or not form.hands_on:  # everything that it runs is known
        return commands, False
    commands += _list_command_words(view)
    parsed_lines = [parse_line(line) for line in _list_shell_lines(view)]
    commands += [
        words for line in parsed_lines for words in (*(command.words for command in line.commands), *line.glimpses)
    ]
    return commands, any(line.opaque for line in parsed_lines)


def _list_forms(view: WordTuple) -> Iterator[tuple[ProgramForm, int]]:
    """Yield the forms of the program and of all sub-commands among its words, each with the position after it."""
    top = find_program(view[0])
    pending = [] if top is None else [(top, 1)]
    while pending:
        form, start = pending.pop()
        yield form, start
        if form.sub or form.patterns:
            places = ((form.below(word), place + 1) for place, word in enumerate(view[start:], start))
            pending += [(below, end) for below, end in places if below is not None]


def _list_command_words(view: WordTuple) -> Iterator[WordTuple]:
    for form, end in _list_forms(view):
        if form.then is not None:
            yield from (view[start:] for start in _find_command_starts(view, end, form.then))
        for flag in form.rest:
            yield from (
                view[place + 1 :] for place, word in enumerate(view[:-1]) if may_mean_option(word, flag, form.style)
            )


def _list_shell_lines(view: WordTuple) -> Iterator[str]:
    """Yield the texts that the program may pass to a shell."""
    for form, end in _list_forms(view):
        if form.line is not None:
            yield from (" ".join(view[start:]) for start in _find_command_starts(view, end, form.line))
        if any(may_mean_option(word, flag, form.style) for word in view[end:] for flag in form.line_if):
            yield from (word for word in view[end:] if not word.startswith("-"))
        for flag in form.lines | form.commands:
            yield from _list_option_values(view, end, flag, form.style)
        for effect, mark in form.marks.items():
            if effect == "runs":
                yield from (word.partition("=")[2] for word in view[end:] if mark.fullmatch(word))


def _list_option_values(view: WordTuple, first: int, flag: str, style: str) -> Iterator[str]:
    """Yield every word that may be the value of this option."""
    for place in range(first, len(view)):
        word = view[place]
        if not may_mean_option(word, flag, style):
            continue
        if "=" in word:
            yield word.partition("=")[2]
        if len(flag) == 2 and not word.startswith("--"):
            attached_value = word.partition(flag[1])[2]
            if attached_value:
                yield attached_value
        if place + 1 < len(view):
            yield view[place + 1]


def _find_command_starts(view: WordTuple, first: int, counts: tuple[int, int]) -> list[int]:
    """Return the positions where the command may begin; an option may or may not take the next word."""
    starts: list[int] = []
    pending = [(first, skip) for skip in range(counts[0], counts[1] + 1)]
    visited_places: set[tuple[int, int]] = set()
    while pending:
        place, skip = pending.pop()
        if place >= len(view) or (place, skip) in visited_places:
            continue
        visited_places.add((place, skip))
        if view[place].startswith("-"):
            pending += [(place + 1, skip), (place + 2, skip)]
        elif _ASSIGNMENT.match(view[place]):
            pending.append((place + 1, skip))
        elif skip:
            pending.append((place + 1, skip - 1))
        else:
            starts.append(place)
    return sorted(set(starts))
