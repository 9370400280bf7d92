"""The operands of `cmd` and `effect` conditions: first words or effects, matched narrowly or widely."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from toolcards.core.policy.shell.catalogs import EFFECTS, load_programs
from toolcards.core.policy.shell.command_prefix import CommandPrefix
from toolcards.core.policy.shell.script import CommandSegment, Likelihood, Script
from toolcards.core.policy.shell.work.classes import OUTSIDE_WORK, WORK

READ_ONLY, EDITS, LOOKS = "none", "edits", "looks"
_LOOK_KINDS = frozenset({"read", "search", "think", "fetch"})
_CLASSES = frozenset({*WORK, *OUTSIDE_WORK})
_EDIT_KINDS = frozenset({"read", "edit", "move"})


@dataclass(frozen=True)
class CommandOperand:
    """The commands that one rule names, by program: a segment is compared only with those of its program."""

    every: tuple[CommandPrefix, ...]

    @classmethod
    def from_prefixes(cls, every: Iterable[CommandPrefix]) -> CommandOperand:
        """Return the operand for these commands."""
        return cls(tuple(every))

    @cached_property
    def _texts(self) -> tuple[CommandPrefix, ...]:
        """Return the prefixes that are not one plain command; their text is searched."""
        return tuple(words for words in self.every if not words.words)

    @cached_property
    def _first(self) -> dict[str, list[CommandPrefix]]:
        return _group_by_name((words.words[0], words) for words in self.every if words.words)

    @cached_property
    def _programs(self) -> dict[str, list[CommandPrefix]]:
        return _group_by_name((words.head[0], words) for words in self.every if words.words)

    @property
    def heads(self) -> tuple[tuple[str, ...], ...] | None:
        """Return the first words of which one must occur, None if unknown."""
        return None if self._texts else tuple(words.head for words in self.every)

    def match_narrowly(self, segment: CommandSegment) -> tuple[Likelihood, str]:
        """Return whether the rule allows the segment, and the doubt about it."""
        if segment.opaque:
            return Likelihood.MAYBE, segment.opaque
        doubts = [
            segment.explain_refusal(words) for words in self._first.get(segment.words[0], ()) if segment.begins(words)
        ]
        if not doubts:
            return Likelihood.NO, ""
        return (Likelihood.MAYBE, doubts[0]) if all(doubts) else (Likelihood.YES, "")

    def match_widely(self, script: Script) -> Likelihood:
        """Return whether the script may run one of the commands."""
        for name in script.views.keys() & self._programs.keys():
            if any(words.matches(view) for words in self._programs[name] for view in script.views[name]):
                return Likelihood.YES
        if any(words.occurs_in(script.line) for words in (self.every if script.hidden else self._texts)):
            return Likelihood.YES
        if script.hidden:
            return Likelihood.MAYBE
        candidates = (words for name in script.find_named_programs(self._programs) for words in self._programs[name])
        return Likelihood.MAYBE if any(words.has_arguments_in(script.line) for words in candidates) else Likelihood.NO


def _group_by_name(pairs: Iterable[tuple[str, CommandPrefix]]) -> dict[str, list[CommandPrefix]]:
    prefixes_by_name: dict[str, list[CommandPrefix]] = {}
    for name, words in pairs:
        prefixes_by_name.setdefault(name, []).append(words)
    return prefixes_by_name


@dataclass(frozen=True)
class EffectOperand:
    """The effects and classes of work that one rule names; `none` means that the command is read-only.

    `edits` is what edit tools do, and `looks` what reading tools do, which take no command.
    """

    effects: frozenset[str]

    @classmethod
    def from_names(cls, every: Iterable[str]) -> EffectOperand:
        """Return the operand for these effects."""
        return cls(frozenset(every))

    @property
    def heads(self) -> None:
        """Return None: an effect names no program."""
        return

    def covers_tool(self, kinds: Collection[str]) -> bool:
        """Return whether one of them covers a tool of these kinds."""
        is_edit = EDITS in self.effects and "edit" in kinds and _EDIT_KINDS.issuperset(kinds)
        return is_edit or (LOOKS in self.effects and _LOOK_KINDS.issuperset(kinds))

    def match_narrowly(self, segment: CommandSegment) -> tuple[Likelihood, str]:
        """Return whether the segment has only these effects, and the doubt."""
        if not segment.doubt:
            return (Likelihood.YES, "") if READ_ONLY in self.effects else (Likelihood.NO, "")
        if segment.possible_effects and segment.possible_effects <= self.effects:
            return Likelihood.YES, ""
        if segment.work and segment.work <= self.effects:
            return Likelihood.YES, ""
        return (Likelihood.NO if segment.work else Likelihood.MAYBE), segment.doubt  # all that it does is known

    def match_widely(self, script: Script) -> Likelihood:
        """Return whether the script has, or may have, one of the effects."""
        answers = [script.effects[effect] for effect in self.effects & {*EFFECTS}]
        answers += [_match_work(script, self.effects & _CLASSES)] if self.effects & _CLASSES else []
        if READ_ONLY in self.effects:
            answers.append(Likelihood.MAYBE if script.doubt else Likelihood.YES)
        return max(answers, default=Likelihood.NO)


def _match_work(script: Script, classes: frozenset[str]) -> Likelihood:
    """Return whether the script does, or may do, work of one of these classes."""
    if any(segment.work & classes for segment in script.segments):
        return Likelihood.YES
    return Likelihood.MAYBE if any(segment.doubt and not segment.work for segment in script.segments) else Likelihood.NO


def parse_effect(text: str) -> str:
    """Return the effect that a rule names; raise ValueError for other texts."""
    if text not in {*EFFECTS, *_CLASSES, EDITS, LOOKS, READ_ONLY}:
        raise ValueError(f"expects {', '.join((*EFFECTS, *WORK, *OUTSIDE_WORK, EDITS, LOOKS))} or {READ_ONLY}")
    load_programs()  # loaded now and not in the first decision
    return text
