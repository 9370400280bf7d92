"""The words of a command beyond those that a rule spells out: why they may change what it does."""

from __future__ import annotations

from toolcards.core.policy.shell.analysis import analyze_command
from toolcards.core.policy.shell.arguments import read_arguments
from toolcards.core.policy.shell.plain.globs import Globs
from toolcards.core.policy.shell.program_match import match_program


def explain_unspelled_words(words: tuple[str, ...], globs: Globs, spelled_count: int) -> str:
    """Return why so many first words do not allow the others."""
    analysis, place = analyze_command(words, globs), match_program(words, globs)
    if analysis.read_only:
        return ""
    if spelled_count >= len(words):
        return analysis.why if analysis.piped else ""
    if place is None or not place.is_known or spelled_count < place.length:
        return analysis.why
    if _changes_nothing(words, globs, place.length, spelled_count):
        return ""
    start = len(words) - len(analysis.inner[-1].words) if analysis.inner else len(words)
    if place.form.then is not None and start < spelled_count and words[start:] == analysis.inner[-1].words:
        return explain_unspelled_words(words[start:], analysis.inner[-1].globs, spelled_count - start)
    return analysis.why


def _changes_nothing(words: tuple[str, ...], globs: Globs, length: int, spelled_count: int) -> bool:
    """Return whether the words beyond the rule have no effect on the command."""
    place = match_program(words, globs)
    form = place.form if place is not None else None
    if form is None or form.neutral is None:
        return False
    arguments = read_arguments(words, spelled_count, form.kinds, form.style, form.rest, globs.leading)
    operands = [word for _, word in arguments.operands]
    if {place for place in globs.every if place >= spelled_count} - {place for place, _ in arguments.operands}:
        return False  # a value that becomes several words
    if arguments.unknown or arguments.commands or not arguments.names <= form.neutral | (form.read_only or frozenset()):
        return False
    return not operands or (form.arguments is not None and all(map(form.arguments.fullmatch, operands)))
