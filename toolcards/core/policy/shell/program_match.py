"""The sub-command that the words of a command name, and the effects of options among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolcards.core.policy.shell.arguments import Arguments, may_mean_option, read_arguments
from toolcards.core.policy.shell.catalogs import ProgramForm, find_program
from toolcards.core.policy.shell.plain.globs import NO_GLOBS, Globs

NO_EFFECTS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProgramMatch:
    """A program or sub-command that the first `length` words name.

    `is_known`: all of them are understood; `safe`: options among them change nothing. `varies`: one of them, or the
    word after them, is a pattern for file names. `effects`: the effects of options among them.
    """

    form: ProgramForm
    length: int
    is_known: bool = True
    safe: bool = True
    varies: bool = False
    effects: frozenset[str] = NO_EFFECTS


def match_program(words: tuple[str, ...], globs: Globs = NO_GLOBS) -> ProgramMatch | None:
    """Return the innermost sub-command that the words name, or None.

    None means that the catalog does not know the program.
    """
    form = find_program(words[0])
    if form is None:
        return None
    place = ProgramMatch(form, 1)
    while place.form.sub or place.form.patterns:
        arguments = read_arguments(words, place.length, place.form.kinds, "posix", patterns=globs.leading)
        position, word = arguments.operands[0] if arguments.operands else (len(words), "")
        varies = place.varies or any(place.length <= glob <= position for glob in globs.every)
        is_known = place.is_known and not arguments.unknown and not varies
        named_effects = find_named_effects(place.form, arguments) | guess_effects(place.form, arguments.unknown)
        harmless = not named_effects and arguments.names <= (place.form.read_only or NO_EFFECTS)
        safe = place.safe and harmless and place.form.takes_values(value for _, value in arguments.options)
        below = place.form.below(word) if word else None
        if below is None:
            return ProgramMatch(
                place.form, place.length, is_known and (not word or bool(place.form.need)), safe, varies
            )
        place = ProgramMatch(below, position + 1, is_known, safe, varies, place.effects | named_effects)
    return place


def find_named_effects(form: ProgramForm, arguments: Arguments) -> frozenset[str]:
    """Return the effects of the options and operands that are understood."""
    named_effects = frozenset(effect for effect, flags in form.effects.items() if flags & arguments.names)
    taken_effects = guess_effects(form, arguments.option_values) if arguments.option_values else NO_EFFECTS
    return named_effects | taken_effects | form.find_marked_effects(tuple(word for _, word in arguments.operands))


def guess_effects(form: ProgramForm, words: Iterable[str]) -> frozenset[str]:
    """Return the effects of options that these words may mean.

    They may be abbreviated or in a bundle.
    """
    words = tuple(words)
    return frozenset(
        effect
        for effect, flags in form.effects.items()
        if any(may_mean_option(word, flag, form.style) for word in words for flag in flags)
    )
