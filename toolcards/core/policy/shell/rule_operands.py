"""What a condition of a rule wants of a command: some first words, or an effect. Each is asked narrowly or widely."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from toolcards.core.policy.shell.command_prefix import CommandPrefix
from toolcards.core.policy.shell.program_catalog import EFFECTS, load_programs
from toolcards.core.policy.shell.script import CommandSegment, Likelihood, Script

ONLY_LOOKS = "none"


@dataclass(frozen=True)
class CommandOperand:
    """The commands that one rule names, by what they begin with: a segment is held against those it could be."""

    every: tuple[CommandPrefix, ...]

    @cached_property
    def _texts(self) -> tuple[CommandPrefix, ...]:
        """Return those that are no single plain command; their text is looked for."""
        return tuple(words for words in self.every if not words.words)

    @cached_property
    def _first(self) -> dict[str, list[CommandPrefix]]:
        return _group_by_name((words.words[0], words) for words in self.every if words.words)

    @cached_property
    def _programs(self) -> dict[str, list[CommandPrefix]]:
        return _group_by_name((words.head[0], words) for words in self.every if words.words)

    @property
    def heads(self) -> tuple[tuple[str, ...], ...] | None:
        """Return the first words of which one must be found; None where a text is no single plain command."""
        return None if self._texts else tuple(words.head for words in self.every)

    def ask_narrowly(self, segment: CommandSegment) -> tuple[Likelihood, str]:
        """Return whether the rule surely allows the segment, and why that cannot be told."""
        if segment.opaque:
            return Likelihood.MAYBE, segment.opaque
        doubts = [
            segment.why_not_allowed(words) for words in self._first.get(segment.words[0], ()) if segment.begins(words)
        ]
        if not doubts:
            return Likelihood.NO, ""
        return (Likelihood.MAYBE, doubts[0]) if all(doubts) else (Likelihood.YES, "")

    def ask_widely(self, script: Script) -> Likelihood:
        """Return whether the script may run one of the commands."""
        for name in script.views.keys() & self._programs.keys():
            if any(words.begin(view) for words in self._programs[name] for view in script.views[name]):
                return Likelihood.YES
        if any(words.occur_in(script.line) for words in (self.every if script.hidden else self._texts)):
            return Likelihood.YES
        if script.hidden:
            return Likelihood.MAYBE
        named = (words for name in script.names_in(self._programs) for words in self._programs[name])
        return Likelihood.MAYBE if any(words.named_in(script.line) for words in named) else Likelihood.NO


def _group_by_name(pairs: Iterable[tuple[str, CommandPrefix]]) -> dict[str, list[CommandPrefix]]:
    grouped: dict[str, list[CommandPrefix]] = {}
    for name, words in pairs:
        grouped.setdefault(name, []).append(words)
    return grouped


@dataclass(frozen=True)
class EffectOperand:
    """The effects that one rule names; `none` stands for a command that only looks."""

    effects: frozenset[str]

    @property
    def heads(self) -> None:
        """Return None: an effect names no program."""
        return

    def ask_narrowly(self, segment: CommandSegment) -> tuple[Likelihood, str]:
        """Return whether the segment surely has one of the effects and surely no other, and why that cannot be told."""
        if not segment.doubt:
            return (Likelihood.YES, "") if ONLY_LOOKS in self.effects else (Likelihood.NO, "")
        if segment.possible_effects and segment.possible_effects <= self.effects:
            return Likelihood.YES, ""
        return Likelihood.MAYBE, segment.doubt

    def ask_widely(self, script: Script) -> Likelihood:
        """Return whether the script has, or may have, one of the effects."""
        answers = [script.effects[effect] for effect in self.effects & {*EFFECTS}]
        if ONLY_LOOKS in self.effects:
            answers.append(Likelihood.MAYBE if script.doubt else Likelihood.YES)
        return max(answers, default=Likelihood.NO)


def parse_effect(text: str) -> str:
    """Return the effect that a rule names; raise ValueError if there is no such effect."""
    if text not in {*EFFECTS, ONLY_LOOKS}:
        raise ValueError(f"expects {', '.join(EFFECTS)} or {ONLY_LOOKS}")
    load_programs()  # read it now, not in the first decision
    return text
