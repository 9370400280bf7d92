"""Patterns that the shell replaces by file names, and where that may change what a command does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from toolcards.core.policy.shell.arguments import Arguments
from toolcards.core.policy.shell.program_forms import ProgramForm

NOWHERE: frozenset[int] = frozenset()
GLOB_SIGNS = re.compile(r"[*?\[]")


class Globs(NamedTuple):
    """Positions of the words of a command that are patterns for file names.

    `every`: all of them; each may become several words. `leading`: those that begin with a pattern, so that a name may
    be an option.
    """

    leading: frozenset[int] = NOWHERE
    every: frozenset[int] = NOWHERE

    def part(self, start: int, end: int) -> Globs:
        """Return the positions in a part of the words."""
        if not self.every:
            return self
        return Globs(*(frozenset(place - start for place in places if start <= place < end) for places in self))


NO_GLOBS = Globs()


def may_expand_to(word: str, target: str) -> bool:
    """Return whether the word or pattern matches the target."""
    return word == target or (GLOB_SIGNS.search(word) is not None and fnmatchcase(target, word))


@dataclass(frozen=True, slots=True)
class ExpandedWords:
    """The words after a program that may become several.

    `start`: where the command that it runs begins.
    """

    form: ProgramForm
    arguments: Arguments
    places: frozenset[int]
    start: int

    def changes_meaning(self) -> bool:
        """Return whether more words there may change the meaning of others."""
        ranges = self.arguments.commands
        places = {place for place in self.places if not any(start <= place < end for start, end in ranges)}
        form = self.form
        if not places:
            return False
        if form.line is not None or form.line_if:
            return True
        if form.then is not None:
            return min(places) < self.start
        operands = [place for place, _ in self.arguments.operands]
        if places - set(operands):
            moves = form.script is not None or form.operands is not None or form.limited
            return moves or form.values is not None or bool(form.lines | form.commands)
        if form.script is None:
            return form.operands is not None or form.limited
        return not self.arguments.names & form.scripts and (form.script_at > 0 or operands[0] in places)
