"""A shell command for policy: segments, each with its programs and effects, or one opaque segment.

A segment has two readings. The narrow one is for allow: exactly these first words, and only words that are harmless by
the catalog. The wide one is for ask and deny: everything that it may run or name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from types import MappingProxyType

from toolcards.core.policy.places.project import Project
from toolcards.core.policy.shell.analysis import (
    ALL_EFFECTS,
    CommandAnalysis,
    analyze_command,
    changes_folder,
    depends_on_folder,
)
from toolcards.core.policy.shell.catalogs import EFFECTS, list_names, strip_program_name
from toolcards.core.policy.shell.command_prefix import CommandPrefix, find_program_names
from toolcards.core.policy.shell.plain.globs import GLOB_SIGNS, NO_GLOBS, Globs, may_expand_to
from toolcards.core.policy.shell.plain.parser import MAX_BYTES, ParsedCommand, ParsedLine, parse_line
from toolcards.core.policy.shell.program_match import NO_EFFECTS
from toolcards.core.policy.shell.unspelled_words import explain_unspelled_words
from toolcards.core.policy.shell.work.classes import find_shell_line, find_work, is_emptying, is_local_target
from toolcards.core.policy.shell.work.inline_code import add_document
from toolcards.core.policy.shell.work.templates import fits
from toolcards.core.policy.shell.wrappers import UnwrappedCommand, unwrap_command


class Likelihood(IntEnum):
    """No, unknown, or yes."""

    NO = 0
    MAYBE = 1
    YES = 2


@dataclass(frozen=True)
class CommandSegment:
    """One command of a line. `text` is its exact spelling, `words` what the program receives.

    `opaque` is why the line could not be read; then `text` is the entire line and `glimpses` what is visible of its
    commands. `folder_changed`: an earlier command has changed the folder. `line` is the entire line. `writes`: a
    redirection writes a file; `targets` and `inputs` are the files that redirections write and read. `folder`: the
    project as seen from where the command runs, None if unknown. `apart`: it is timed or in the background.
    """

    text: str
    words: tuple[str, ...] = ()
    globs: Globs = NO_GLOBS
    opaque: str = ""
    line: str = ""
    folder_changed: bool = False
    glimpses: tuple[tuple[str, ...], ...] = ()
    writes: bool = False
    targets: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    folder: Project | None = None
    apart: bool = False

    @cached_property
    def alone(self) -> Script:
        """Return it as a script."""
        return Script((self,))

    @cached_property
    def analysis(self) -> CommandAnalysis:
        """Return what it does, by the catalog."""
        if self.words:
            return analyze_command(self.words, self.globs)
        return CommandAnalysis(why=self.opaque, may=ALL_EFFECTS, hidden=True)

    @cached_property
    def _unwrapped(self) -> UnwrappedCommand:
        return unwrap_command(self.words)

    @property
    def views(self) -> tuple[tuple[str, ...], ...]:
        """Return its own words and those of commands that it may run."""
        return self.glimpses if self.opaque else self._unwrapped.views

    @property
    def hidden(self) -> bool:
        """Whether it runs something that is not visible."""
        return bool(self.opaque) or self._unwrapped.hidden or self.analysis.hidden

    @cached_property
    def mentions(self) -> frozenset[str]:
        """Return every name among its arguments if some are not understood."""
        is_loose = not self.opaque and self._unwrapped.loose
        return find_program_names("\n".join(self.words[1:])) if is_loose else frozenset()

    @cached_property
    def masks(self) -> tuple[str, ...]:
        """Return the patterns among its words that may match a program."""
        is_loose = not self.opaque and self._unwrapped.loose
        return tuple(strip_program_name(word) for word in self.words[1:] if is_loose and GLOB_SIGNS.search(word))

    @cached_property
    def doubt(self) -> str:
        """Return why it might change something, or ""."""
        if self.opaque:
            return self.opaque
        if not self.analysis.read_only:
            return self.analysis.why or "it is not read-only"
        if self.folder_changed and depends_on_folder(self.words):
            return "it depends on the folder that cd changes to"
        if self.writes:
            return "it writes a file"
        return "it is timed or runs in the background" if self.apart else ""

    @cached_property
    def work(self) -> frozenset[str]:
        """Return the classes of work that cover all of it."""
        empties = bool(self.targets and self.words) and is_emptying(self.words) and "<<" not in self.text
        if self.opaque or self.folder_changed or empties:
            return frozenset()
        line = "" if self.analysis.read_only else find_shell_line(self.words, self.globs, self.folder)
        parts = read_line(line, self.folder).segments if line else ()
        words = add_document(self.words, "" if self.inputs else self.text)
        name = "" if line or self.analysis.targets else find_work(words, self.globs, self.folder)
        covers = name or self.analysis.read_only or (line and all(part.work or not part.doubt for part in parts))
        if not covers or not all(is_local_target(each, self.folder) for each in self.targets):
            return frozenset()
        names = {"" if self.analysis.read_only else name, "files" if self.targets else ""} - {""}
        return frozenset(names).union(*(part.work for part in parts))

    def begins(self, prefix: CommandPrefix) -> bool:
        """Return whether the segment begins with exactly these words (the narrow reading)."""
        if prefix.is_template:
            return not self.opaque and fits(prefix.words, self.words, self.globs, self.folder)
        return bool(prefix.words) and not self.opaque and self.words[: len(prefix.words)] == prefix.words

    def explain_refusal(self, prefix: CommandPrefix) -> str:
        """Return why a rule with this prefix is not enough, or ""."""
        if prefix.is_template and self.doubt and not self.folder_changed and not self.opaque:
            is_local = all(is_local_target(target, self.folder) for target in self.targets)
            return (self.analysis.why if self.analysis.piped else "") if is_local else "it writes a file"
        if not self.doubt or self.folder_changed or self.opaque or self.writes or self.apart:
            return self.doubt
        return explain_unspelled_words(self.words, self.globs, len(prefix.words))

    def has_effect(self, effect: str) -> Likelihood:
        """Return whether the command has this effect."""
        sure = effect in self.analysis.does or (self.writes and effect == "writes")
        if not sure and (self.opaque or self.analysis.loose):
            sure = any(effect in analyze_command(view, NO_GLOBS).does for view in self.views)
        doubtful = Likelihood.MAYBE if effect in self.possible_effects else Likelihood.NO
        return Likelihood.YES if sure else doubtful

    @property
    def possible_effects(self) -> frozenset[str]:
        """Return every effect that it has or may have."""
        if not self.doubt:
            return frozenset()
        if self.analysis.read_only and not self.writes:
            return ALL_EFFECTS
        return self.analysis.does | self.analysis.may | (frozenset({"writes"}) if self.writes else NO_EFFECTS)


@dataclass(frozen=True)
class Script:
    """All segments of a command, and what they run together."""

    segments: tuple[CommandSegment, ...]

    @property
    def line(self) -> str:
        """Return the entire text."""
        return self.segments[0].line or self.segments[0].text

    @cached_property
    def hidden(self) -> bool:
        """Whether something runs that is not visible."""
        return any(part.hidden for part in self.segments)

    @cached_property
    def views(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """Return the words of all commands by the names of their programs."""
        by_name: dict[str, tuple[tuple[str, ...], ...]] = {}
        for part in self.segments:
            for view in part.views:
                for name in list_names(view[0]):
                    by_name[name] = (*by_name.get(name, ()), view)
        return MappingProxyType(by_name)

    @cached_property
    def mentions(self) -> frozenset[str]:
        """Return every name among words that the catalog does not know."""
        return frozenset().union(*(part.mentions for part in self.segments))

    def find_named_programs(self, programs: Collection[str]) -> Iterator[str]:
        """Yield the programs that words unknown to the catalog may name."""
        masks = tuple([mask for part in self.segments for mask in part.masks])
        if not masks:  # few names, and perhaps a thousand programs
            yield from [name for name in self.mentions if name in programs]
            return
        for name in programs:
            if name in self.mentions or any(may_expand_to(mask, name) for mask in masks):
                yield name

    @cached_property
    def effects(self) -> Mapping[str, Likelihood]:
        """Return for each effect whether any segment has it."""
        return {effect: max(part.has_effect(effect) for part in self.segments) for effect in EFFECTS}

    @cached_property
    def doubt(self) -> str:
        """Return why it might change something, or ""."""
        return next((part.doubt for part in self.segments if part.doubt), "")


def read_line(line: str, project: Project | None = None) -> Script:
    """Return a command line as segments, or as one opaque segment.

    `project`: as seen from where the line begins.
    """
    return (_read_line if len(line) <= MAX_BYTES else _read_line.__wrapped__)(line, project)  # longer: not parsed


@lru_cache(maxsize=512)
def _read_line(line: str, project: Project | None) -> Script:
    parsed_line = parse_line(line)
    if parsed_line.opaque:
        return _make_opaque_script(line, parsed_line)
    return Script(tuple(_split_segments(parsed_line.commands, line, project)))


def _split_segments(commands: Sequence[ParsedCommand], line: str, project: Project | None) -> Iterator[CommandSegment]:
    """Yield the segments, each with its folder.

    The folder after `cd` is certain as long as the commands run only if it did not fail.
    """
    folder, has_moved = project, False
    before: Project | None = project  # the folder if the last `cd` has failed
    was_move = False
    for number, command in enumerate(commands, 1):
        is_joined = command.operator == "&&" or (command.operator == "|" and not was_move)
        if not is_joined and before != folder:
            folder, before, has_moved = None, None, True
        segment = _make_segment(command, line, folder, folder_changed=has_moved)
        yield segment
        was_move = any(map(changes_folder, segment.views))
        if was_move and (folder is None or len(command.words) != 2 or command.words[0] != "cd" or command.globs.every):
            folder, before, has_moved = None, None, has_moved or number < len(commands)
        elif was_move and folder is not None:
            target = None if command.words[1].startswith("-") else folder.move(command.words[1])
            before, folder, has_moved = (folder, target, has_moved) if target is not None else (None, None, True)


def _make_segment(
    command: ParsedCommand, line: str, folder: Project | None, *, folder_changed: bool = False
) -> CommandSegment:
    analysis = analyze_command(command.words, command.globs)
    targets, inputs = command.targets + analysis.targets, command.inputs + analysis.inputs
    return CommandSegment(
        command.text, command.words, command.globs, line=line, folder_changed=folder_changed,
        writes=bool(targets), targets=targets, inputs=inputs, folder=folder, apart=command.apart,
    )  # fmt: skip


def _make_opaque_script(text: str, line: ParsedLine) -> Script:
    return Script((CommandSegment(text, (), NO_GLOBS, line.opaque, text, False, line.glimpses, line.writes),))


def read_command(value: object, list_of: str = "", project: Project | None = None) -> Script | None:
    """Return a command as segments, None unless it is texts.

    `list_of` is the meaning of a list for the tool, `words` or `lines`. If it is unknown, the command is opaque.
    """
    if type(value) is str:
        return read_line(value, project)
    if type(value) is not list or not value or not all(type(word) is str for word in value):
        return None
    if list_of == "words":
        return _read_word_list(value, project)
    text = "\n".join(value)
    if list_of == "lines" and len(text) > MAX_BYTES:
        return read_line(text)
    parts = [part for line in value if line.strip() for part in read_line(line, project).segments]
    why = "its list may contain words or lines"
    if list_of == "lines":  # of one shell, or of one for each, where no variable of another line is set
        why = next((part.opaque for part in parts if part.opaque), "")
    if not why:
        return read_line(text, project)
    views = tuple(view for view in (tuple(value), *(view for part in parts for view in part.views)) if view[0])
    return _make_opaque_script(text, ParsedLine((), why, views, any(part.writes for part in parts)))


def _read_word_list(words: list[str], project: Project | None) -> Script:
    text = " ".join(words)  # no shell reads it
    if not words[0] or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES or "\0" in text:
        return _make_opaque_script(text, ParsedLine(opaque="it is not a command"))
    return Script((_make_segment(ParsedCommand(text, tuple(words)), text, project),))
