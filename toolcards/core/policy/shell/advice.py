"""What the author of a rule should know about the command that it names."""

from __future__ import annotations

from toolcards.core.policy.shell.judgement import locate
from toolcards.core.policy.shell.programs import EFFECTS, Form

_VERBS = {"runs": "run other programs", "deletes": "delete", "writes": "change things", "sends": "send data"}


def why_only_some_forms(words: tuple[str, ...]) -> str:
    """Return why a rule that allows these first words does not allow all that may follow; empty if it does."""
    place = locate(words)
    if place is None:
        return "the catalogue does not know this program, so a rule allows only the exact command"
    effects = _effects(place.form)
    if not effects:
        return ""
    verb = next(_VERBS[effect] for effect in _VERBS if effect in effects)
    return f"{place.form.name} can {verb}; a rule allows only its harmless forms or the exact command"


def _effects(form: Form) -> frozenset[str]:
    """Return what the program can do in any form, its sub-commands included."""
    effects: set[str] = set()
    for one in form.all_forms():
        effects |= one.does | one.may | {*one.effects} | {*one.marks}
        if one.wraps or one.rest or one.lines or one.code or one.stdin:
            effects.add("runs")
    return frozenset(effect for effect in EFFECTS if effect in effects)
