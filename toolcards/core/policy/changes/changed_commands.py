"""What the commands of a line change, by their words and redirections, and whether all of it is inside of the project.

A command may run in each folder that the `cd` before it leads to, and in the one before: `cd` may fail.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from toolcards.core.policy.changes.edit_tools import locate_edits, names_code
from toolcards.core.policy.evaluation_context import CHARACTERS, EvaluationContext, count_characters
from toolcards.core.policy.matching.conditions import format_pointer
from toolcards.core.policy.places.project import Project
from toolcards.core.policy.shell.analysis import changes_folder
from toolcards.core.policy.shell.catalogs import find_tool, strip_program_name
from toolcards.core.policy.shell.script import CommandSegment, Script
from toolcards.core.policy.truth import FALSE, TRUE, UNKNOWN, Truth

_PIECES = re.compile(r"[=@,;&|<>()\s'\"`]+")
_SCRATCH = re.compile(r"/tmp/[A-Za-z0-9_][A-Za-z0-9_.-]*")  # noqa: S108 - a path of a command
_SHOWN_EFFECTS = frozenset({"writes", "deletes"})
_MAX_FOLDERS, _LONGEST_OPTION = 8, 128
Folders = tuple[Project, ...]


@dataclass(frozen=True, slots=True)
class _CommandWords:
    elsewhere: frozenset[str]
    trees: frozenset[str]
    texts: dict[str, frozenset[str]]


@cache
def _load_words() -> _CommandWords:
    document = tomllib.loads(files(__package__).joinpath("commands.toml").read_text(encoding="utf-8"))
    texts = {name: frozenset(options.split()) for name, options in document["texts"].items()}
    return _CommandWords(frozenset(document["elsewhere"]), frozenset(document["trees"].split()), texts)


def locate_commands(script: Script | None, project: Project, *, names_command: bool) -> tuple[Truth, ...]:
    """Return for each segment whether it changes only what is inside.

    `names_command`: another condition says which commands may run. Without one, a command that may run or send
    something is UNKNOWN.
    """
    if script is None:
        return (UNKNOWN,)
    answers: list[Truth] = []
    folders: Folders = (project,)
    for segment in script.segments:
        answers.append(_locate_segment(segment, folders, names_command))
        folders = _follow(segment, folders)
    return tuple(answers)


def _follow(segment: CommandSegment, folders: Folders) -> Folders:
    """Return the folders in which the next command may run, () if they are not known."""
    if segment.opaque:
        return ()
    if not any(map(changes_folder, segment.views)):
        return folders
    if segment.words[:1] != ("cd",) or len(segment.words) != 2 or segment.words[1].startswith("-"):
        return ()
    reached_folders = [folder.move(segment.words[1]) for folder in folders]
    if None in reached_folders:
        return ()
    every = tuple(dict.fromkeys((*folders, *filter(None, reached_folders))))
    return every if len(every) <= _MAX_FOLDERS else ()


def _locate_segment(segment: CommandSegment, folders: Folders, names_command: bool) -> Truth:
    if segment.opaque or not folders:
        return UNKNOWN
    answer = min((_locate_target(target, folders) for target in segment.targets), default=TRUE)
    analysis = segment.analysis
    if any(map(changes_folder, segment.views)):  # a later call may run there, too
        return min(answer, TRUE if _follow(segment, folders) else UNKNOWN)
    if analysis.read_only:
        return answer
    if names_command and segment.work and segment.folder in folders:  # a class covers only what stays inside
        return answer
    if segment.hidden or not (names_command or segment.possible_effects <= _SHOWN_EFFECTS):
        return min(answer, UNKNOWN)
    return min(answer, _locate_words(segment, folders))


def _locate_target(target: str, folders: Folders) -> Truth:
    if _SCRATCH.fullmatch(target):
        return TRUE
    return min(folder.locate(target) for folder in folders)


def _locate_words(segment: CommandSegment, folders: Folders) -> Truth:
    """Return whether every word that may be a path is inside."""
    catalog = _load_words()
    names = [strip_program_name(view[0]) for view in segment.views]
    actions = {f"{name} {word}" for name, view in zip(names, segment.views, strict=True) for word in view[1:]}
    if catalog.elsewhere & {*names, *actions}:
        return UNKNOWN
    recursive = bool(catalog.trees & set(names))
    text_options = frozenset().union(*(catalog.texts.get(name, frozenset()) for name in names))
    answer = TRUE
    for before, word in zip(("", *segment.words), segment.words, strict=False):
        if (word == segment.words[0] and not before and "=" not in word) or before in text_options:
            continue
        if word.startswith("-") and any(word.startswith(f"{option}=") for option in text_options if option[:2] == "--"):
            continue
        for piece in _list_pieces(word):
            answer = min(answer, UNKNOWN if piece is None else _locate_piece(piece, folders, recursive))
            if answer is FALSE:
                return FALSE
    return answer


def _locate_piece(piece: str, folders: Folders, recursive: bool) -> Truth:
    if piece == "..." or piece.endswith("/..."):  # in Go, every package below the folder
        piece = piece[:-3] or "."
    return min(folder.locate(piece, recursive=recursive) for folder in folders)


def _list_pieces(word: str) -> Iterator[str | None]:
    """Yield everything in a word that may be a path; None if there may be more."""
    if word in {"-", "--"}:
        return
    pieces = [piece for piece in _PIECES.split(word) if piece]
    if word.startswith("--"):
        yield from pieces[1:]
    elif word.startswith("-"):  # `-xo/etc/a`: any of the letters may be the last option
        if len(word) > _LONGEST_OPTION:
            yield None
        yield from (word[start:] for start in range(2, len(word)))
        yield from (piece for piece in pieces if not piece.startswith("-"))
    else:
        yield word
        yield from (piece for piece in pieces if piece != word)


# The condition `inside_project`: whether what a call changes is inside of the project, and not protected there.
_PATH_STEPS = 16  # to locate one path


@dataclass(frozen=True, slots=True)
class InsideCondition:
    """Whether the paths at `path` are inside of the project; of the whole input, everything that the call changes.

    `every`: all of them must be, else one is enough. `names_command`: the clause also says which commands may run.
    `manifests`: names of protected files that edit tools may change, as long as the change names no code.
    """

    path: tuple[str, ...]
    every: bool
    names_command: bool = False
    manifests: frozenset[str] = frozenset()
    cost: int = 3

    @property
    def name(self) -> str:
        """Return the path and the operator."""
        return f"{format_pointer(self.path)} inside_project"

    def check(self, context: EvaluationContext, segment: CommandSegment | None) -> Truth:
        """Return the answer over everything that changes."""
        key = ("inside", self.path, self.names_command, self.manifests)
        answers: tuple[Truth, ...] | None = context.remember(key, lambda: self._read(context))
        context.step()
        if segment is not None and answers is not None:
            answers = self._select(context, segment, answers)
        if answers is None:
            return UNKNOWN
        if not answers:
            return FALSE
        return min(answers) if self.every else max(answers)

    def _read(self, context: EvaluationContext) -> tuple[Truth, ...] | None:
        project = context.request.project
        values = context.values(self.path)
        if project is None or values is None:
            return None
        if self._takes_command(context):
            return self._locate_command(context)
        if self.manifests and not names_code(context.request.input):
            project = replace(project, manifests=self.manifests)
        if not self.path:
            context.step(1 + count_characters(context.request.input) // CHARACTERS)
            answers = locate_edits(context.request, project)
            context.step(_PATH_STEPS * len(answers))
            return answers
        context.step(_PATH_STEPS * len(values))
        return tuple([_locate_value(project, value) for value in values])

    def _takes_command(self, context: EvaluationContext) -> bool:
        paths = find_tool(context.request.tool).paths
        return bool(paths) and (not self.path or self.path in paths)

    def _locate_command(self, context: EvaluationContext) -> tuple[Truth, ...] | None:
        scripts, project = context.scripts(self.path), context.project
        if not scripts or project is None:
            return None
        answers = locate_commands(scripts[0], project, names_command=self.names_command)
        words = sum(len(segment.words) for segment in scripts[0].segments) if scripts[0] else 0
        context.step(_PATH_STEPS * (words + len(answers)))
        if len(scripts) > 1 or context.explain_argument_doubt(self.path, frozenset(), names_tool=True):
            return (*answers, UNKNOWN)
        return answers

    def _select(
        self, context: EvaluationContext, segment: CommandSegment, answers: tuple[Truth, ...]
    ) -> tuple[Truth, ...]:
        """Return the answers for one segment of the command, and for what is no segment."""
        scripts = context.scripts(self.path) if self._takes_command(context) else None
        if not scripts or scripts[0] is None:
            return answers
        segments = scripts[0].segments
        own = [answer for each, answer in zip(segments, answers, strict=False) if each is segment or each == segment]
        return (*(own or answers), *answers[len(segments) :])

    def actual(self, context: EvaluationContext) -> Any:
        """Return the value, or the values."""
        values = context.values(self.path) or ()
        return values[0] if len(values) == 1 else list(values)


def _locate_value(project: Project, value: Any) -> Truth:
    return project.locate(value) if isinstance(value, str) else UNKNOWN
