"""Shell commands as sentences, by a table of phrases (`command_phrases.toml`).

The words are those that policy reads. Nothing is guessed: a command with a word, a flag or a sign that its phrase does
not know has no sentence, and people read the command itself.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from toolcards.core.policy.shell.command_lines import spell_commands
from toolcards.core.policy.shell.plain.globs import NO_GLOBS
from toolcards.core.policy.shell.plain.parser import MAX_BYTES
from toolcards.core.policy.shell.script import read_line
from toolcards.core.risk.commands import find_command_hints
from toolcards.core.risk.hints import LONG
from toolcards.core.summaries.statement_phrases import describe_statement

MAX_PROGRAM_WORDS = 3  # words that name a table
SHORT = 60  # characters of a line that is shown as it is
_OPERAND = re.compile(r"[\w.@/][\w.@/:,=%~^-]*", re.ASCII)
_REF = re.compile(r"[\w.@][\w.@/-]*", re.ASCII)
_REFS = frozenset({"ref", "remote"})


class _Form(NamedTuple):
    flags: Mapping[str, str]  # the slot of each flag's value, "" for a flag without one
    slots: tuple[str, ...]  # of operands
    is_open: bool  # the last slot takes several
    text: str


class _Phrases(NamedTuple):
    silent: frozenset[str]
    forms: tuple[_Form, ...]


@lru_cache(maxsize=1_024)
def describe_command(line: str) -> str:
    """Return a plain command as a sentence, "" without one."""
    text = line.strip()
    if text.partition(" ")[0] not in _load_programs() or len(line) > MAX_BYTES:
        return ""
    segments = read_line(text).segments
    if len(segments) != 1 or segments[0].text != text:
        return ""
    command = segments[0]
    has_signs = command.opaque or command.writes or command.targets or command.inputs or command.apart
    if text.count("<") != sum(word.count("<") for word in command.words):  # a document or a text as input
        return ""
    return "" if has_signs or command.globs != NO_GLOBS else _describe_words(command.words)


def describe_marked(line: str, judgements: Sequence[Sequence[str]]) -> str:
    """Name the commands of a long line that need a look.

    A count of the others follows. "" where all are alike. Policy's judgements or hints of risk point at a command.
    """
    commands = [command.text for command in spell_commands(line)]
    effects = [effect for effect, _ in judgements] if len(judgements) == len(commands) else ["allow"] * len(commands)
    hints = [set(find_command_hints(command)) for command in commands]
    risky = [
        command
        for command, effect, found_hints in zip(commands, effects, hints, strict=True)
        if effect != "allow" or found_hints or command.split(None, 1)[0] in {"cd", "pushd"}
    ]
    is_explained = set(find_command_hints(line)) - {LONG} <= set().union(*hints)
    other_count = len(commands) - len(risky)
    if not risky or not other_count or not is_explained:
        return ""
    sentences = [describe_command(each) or f"run {each}" for each in risky]
    return f"{'; '.join(sentences)} and {other_count} more part{'s' * (other_count > 1)}"


def _describe_words(words: tuple[str, ...]) -> str:
    for count in range(min(MAX_PROGRAM_WORDS, len(words)), 0, -1):
        phrases = load_phrases().get(words[:count])
        if phrases is not None:
            sentences = (_fill(form, words[count:], phrases.silent) for form in phrases.forms)
            return next(filter(None, sentences), "")
    return ""


def _fill(form: _Form, words: tuple[str, ...], silent: frozenset[str]) -> str:
    """Return the sentence with its slots filled, "" if the words do not fit."""
    flags, values = dict(form.flags), dict[str, str]()
    operands = []
    rest_words = iter(words)
    for word in rest_words:
        name, sign, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in flags:
            slot = flags.pop(name)
            if slot and not sign:
                value = next(rest_words, "")
            if bool(slot) != bool(value):
                return ""
            values[slot] = value
        elif word.startswith("-"):
            if word not in silent:
                return ""
        else:
            operands.append(word)
    lack = len(form.slots) - len(operands)
    if flags or lack > 0 or (lack < 0 and not form.is_open):
        return ""
    for number, slot in enumerate(form.slots):
        is_last = number == len(form.slots) - 1
        items = operands[number:] if is_last else operands[number : number + 1]
        pattern = _REF if slot in _REFS else _OPERAND
        if slot != "sql" and not all(map(pattern.fullmatch, items)):
            return ""
        values[slot] = join_names(items)
    if "sql" in values:
        values["sql"] = describe_statement(values["sql"])
        if not values["sql"]:
            return ""
    return form.text.format(**values)


def join_names(names: Sequence[str]) -> str:
    """Return the names with commas, and "and" before the last."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


@cache
def load_phrases() -> Mapping[tuple[str, ...], _Phrases]:
    """Return the table, by the first words of the commands."""
    document = tomllib.loads(files(__package__).joinpath("command_phrases.toml").read_text(encoding="utf-8"))
    return {
        tuple(name.split()): _Phrases(
            frozenset(row.get("silent", "").split()),
            tuple(_read_form(words.split(), text) for words, text in row["forms"].items()),
        )
        for name, row in document.items()
    }


@cache
def _load_programs() -> frozenset[str]:
    return frozenset(words[0] for words in load_phrases())


def _read_form(words: list[str], text: str) -> _Form:
    flags: dict[str, str] = {}
    slots: list[str] = []
    is_open = False
    for word in words:
        flag, _, slot = word.partition("=") if word.startswith("-") else ("", "", word)
        if flag:
            flags[flag] = slot.strip("{}")
        else:
            slots.append(slot.strip("{.}"))
            is_open = is_open or "..." in slot
    return _Form(flags, tuple(slots), is_open, text)
