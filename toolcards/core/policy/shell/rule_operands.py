"""What a condition of a rule wants of a command: some first words, or an effect. Each is asked narrowly or widely."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from toolcards.core.policy.shell.command_prefix import Words
from toolcards.core.policy.shell.program_catalog import EFFECTS, catalogue
from toolcards.core.policy.shell.script import Answer, Script, Segment

ONLY_LOOKS = "none"


@dataclass(frozen=True)
class WantedCommands:
    """The commands that one rule names, by what they begin with: a segment is held against those it could be."""

    every: tuple[Words, ...]

    @cached_property
    def _texts(self) -> tuple[Words, ...]:
        """Return those that are no single plain command; their text is looked for."""
        return tuple(words for words in self.every if not words.words)

    @cached_property
    def _first(self) -> dict[str, list[Words]]:
        return _by_name((words.words[0], words) for words in self.every if words.words)

    @cached_property
    def _programs(self) -> dict[str, list[Words]]:
        return _by_name((words.head[0], words) for words in self.every if words.words)

    @property
    def heads(self) -> tuple[tuple[str, ...], ...] | None:
        """Return the first words of which one must be found; None where a text is no single plain command."""
        return None if self._texts else tuple(words.head for words in self.every)

    def ask_narrowly(self, segment: Segment) -> tuple[Answer, str]:
        """Return whether the rule surely allows the segment, and why that cannot be told."""
        if segment.opaque:
            return Answer.MAYBE, segment.opaque
        doubts = [
            segment.why_not_allowed(words) for words in self._first.get(segment.words[0], ()) if segment.begins(words)
        ]
        if not doubts:
            return Answer.NO, ""
        return (Answer.MAYBE, doubts[0]) if all(doubts) else (Answer.YES, "")

    def ask_widely(self, script: Script) -> Answer:
        """Return whether the script may run one of the commands."""
        for name in script.views.keys() & self._programs.keys():
            if any(words.begin(view) for words in self._programs[name] for view in script.views[name]):
                return Answer.YES
        if any(words.occur_in(script.line) for words in (self.every if script.hidden else self._texts)):
            return Answer.YES
        if script.hidden:
            return Answer.MAYBE
        named = (words for name in script.names_in(self._programs) for words in self._programs[name])
        return Answer.MAYBE if any(words.named_in(script.line) for words in named) else Answer.NO


def _by_name(pairs: Iterable[tuple[str, Words]]) -> dict[str, list[Words]]:
    grouped: dict[str, list[Words]] = {}
    for name, words in pairs:
        grouped.setdefault(name, []).append(words)
    return grouped


@dataclass(frozen=True)
class WantedEffects:
    """The effects that one rule names; `none` stands for a command that only looks."""

    effects: frozenset[str]

    @property
    def heads(self) -> None:
        """Return None: an effect names no program."""
        return

    def ask_narrowly(self, segment: Segment) -> tuple[Answer, str]:
        """Return whether the segment surely has one of the effects and surely no other, and why that cannot be told."""
        if not segment.doubt:
            return (Answer.YES, "") if ONLY_LOOKS in self.effects else (Answer.NO, "")
        if segment.possible_effects and segment.possible_effects <= self.effects:
            return Answer.YES, ""
        return Answer.MAYBE, segment.doubt

    def ask_widely(self, script: Script) -> Answer:
        """Return whether the script has, or may have, one of the effects."""
        answers = [script.effects[effect] for effect in self.effects & {*EFFECTS}]
        if ONLY_LOOKS in self.effects:
            answers.append(Answer.MAYBE if script.doubt else Answer.YES)
        return max(answers, default=Answer.NO)


def read_effect(text: str) -> str:
    """Return the effect that a rule names; raise ValueError if there is no such effect."""
    if text not in {*EFFECTS, ONLY_LOOKS}:
        raise ValueError(f"expects {', '.join(EFFECTS)} or {ONLY_LOOKS}")
    catalogue()  # read it now, not in the first decision
    return text
