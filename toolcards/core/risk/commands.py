"""Hints in shell commands, by the parser and catalog of programs that the gate uses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache

from toolcards.core.policy.shell.analysis import analyze_command
from toolcards.core.policy.shell.catalogs import find_program, strip_program_name
from toolcards.core.policy.shell.plain.parser import MAX_BYTES
from toolcards.core.policy.shell.script import Likelihood, Script, read_command
from toolcards.core.policy.shell.wrappers import unwrap_command
from toolcards.core.redaction.masks import replace_masks
from toolcards.core.risk.hints import (
    ACCESS_FILES,
    DELETES,
    DOWNLOADED_CODE,
    LONG,
    NETWORK,
    NOT_ANALYZED,
    OPEN_PERMISSIONS,
    OTHER_RIGHTS,
    SECRETS,
    TOO_LARGE,
    WHOLE_FOLDER,
    Hint,
)
from toolcards.core.risk.values import find_written_hints, is_destructive_sql, is_secret_place

LONG_COMMAND = 400  # characters
MAX_TEXT = 32 * 1024  # characters that are searched; a longer text has its own hint
MAX_PARTS = 2_000  # commands in a text that the grammar cannot parse
MAX_WORDS = 40  # words of one of these
Words = tuple[str, ...]

_ELEVATES = frozenset({"sudo", "doas", "su", "pkexec", "runas"})
_COPIES = frozenset({"cp", "ln", "install", "scp", "rsync", "copy"})  # they write to the last word only
_SOURCES = frozenset({"eval", "source", "."})
_SUBSTITUTION = re.compile(r"\$\(|`|<\(")
_VERB = re.compile(
    r"(?:-X|--request=|--method=)?delete|-{0,2}(?:[a-z-]+:)?(?:destroy|purge|terminate|wipe|nuke|drop)", re.I
)
_CODE_DELETES = re.compile(
    r"\brmtree\b|\bos\.(?:remove|unlink|rmdir|removedirs)\b|\.unlink(?:Sync)?\(|\brm(?:dir)?Sync\b|\bfs(?:\.promises)?\.rm\b"
    r"|\brimraf\b|\bRemove-Item\b|\bFileUtils\.rm|\bDirectory\.Delete\b|\bformat-volume\b",
    re.I,
)
_CODE_KEYS = re.compile(r"authorized_keys|/etc/(?:sudoers|shadow)", re.I)
_REDIRECT = re.compile(r">[>|&]?\s*[\"']?([^\s\"';|&<>()]+)")
_SEPARATORS = re.compile(r"[\n;|&(){}`]+")
_CODE_SEPARATORS = re.compile(r"[\n;|&(){}`\"'\[\],]+")
_PREFIX = re.compile(r"(?:\w+=\S*|then|do|else|elif|if|while|until|time|!)$")
_RIGHTS = frozenset({"chmod", "chown", "chgrp", "setfacl"})
_RECURSIVE = re.compile(r"-[a-zA-Z]*R[a-zA-Z]*|--recursive")
_OPENS_TO_ALL = re.compile(r"[0-7]?[0-7]{2}[2367]|(?:[ugo]*[ao][ugo]*|)\+[rwxXst]*w[rwxXst]*")


def find_command_hints(text: str) -> tuple[Hint, ...]:
    """Return the hints of a command line."""
    return _find_short(text) if len(text) <= MAX_BYTES else _find_long(text)


def find_word_list_hints(words: Words) -> Iterator[Hint]:
    """Yield the hints of a command that is a list of words."""
    script = read_command(list(words), "words")
    if script is not None:
        yield from _find_script_hints(script)


def find_masked_hints(text: str, visible_text: str) -> Iterator[Hint]:
    """Yield a hint if masks hide commands.

    Compares the commands of the text with those of the visible text, which has the masks. A program is named only if
    the catalog lists it: another name may be a secret.
    """
    hidden = _count_programs(text) - _count_programs(replace_masks(visible_text, "x"))
    if hidden:
        program_names = sorted(name for name in set(map(strip_program_name, hidden)) if find_program(name) is not None)
        names = ", ".join(program_names[:3]) or "a command"
        yield Hint(f"runs {names} in a masked part", is_grave=True)


def _count_programs(text: str) -> Counter[str]:
    script = read_command(text) if len(text) <= MAX_BYTES else None
    if script is None:
        return Counter(words[0] for words in _split_parts(text[:MAX_TEXT], _SEPARATORS))
    views = (view for part in script.segments for view in part.views)
    return Counter(view[0] for view in views if view[0] and "=" not in view[0])  # `TOKEN=a` names no program


@lru_cache(maxsize=64)
def find_code_hints(text: str) -> tuple[Hint, ...]:
    """Return the hints of code in another language, and of its commands."""
    head = text[:MAX_TEXT]
    parts = _split_parts(head, _CODE_SEPARATORS)
    hints = list(_find_text_hints(head))
    hints += [hint for hint in _find_view_hints(parts[:MAX_PARTS]) if hint in (DELETES, DOWNLOADED_CODE)]
    hints += [TOO_LARGE] * (len(parts) > MAX_PARTS or len(text) > MAX_TEXT)
    return tuple(dict.fromkeys(hints))


@lru_cache(maxsize=1_024)
def _find_short(text: str) -> tuple[Hint, ...]:
    script = read_command(text)
    return tuple(dict.fromkeys(_find_script_hints(script))) if script is not None else ()


@lru_cache(maxsize=64)
def _find_long(text: str) -> tuple[Hint, ...]:
    too_large = [TOO_LARGE] * (len(text) > MAX_TEXT)
    return tuple(dict.fromkeys([*_find_unparsed_hints(text[:MAX_TEXT]), *too_large, NOT_ANALYZED, LONG]))


def _find_script_hints(script: Script) -> Iterator[Hint]:
    line = script.line
    views = [view for part in script.segments for view in part.views]
    if not views:  # the grammar did not read it
        yield from _find_unparsed_hints(line)
    if script.effects["deletes"] is Likelihood.YES:
        yield DELETES
    yield from _find_view_hints(views)
    if script.hidden:
        yield from _find_text_hints(line)
    for place in (target for part in script.segments for target in part.targets):
        yield from find_written_hints(place)
    if any(part.opaque for part in script.segments):
        for place in _REDIRECT.findall(line):
            yield from find_written_hints(place)
        yield NOT_ANALYZED
    if len(line) > LONG_COMMAND:
        yield LONG


def _find_unparsed_hints(text: str) -> Iterator[Hint]:
    """Yield the hints of a line that the grammar cannot parse, split between commands."""
    parts = _split_parts(text, _SEPARATORS)
    if len(parts) > MAX_PARTS:
        yield TOO_LARGE
    yield from _find_view_hints(parts[:MAX_PARTS])
    yield from _find_text_hints(text)
    for place in _REDIRECT.findall(text):
        yield from find_written_hints(place)


def _split_parts(text: str, separators: re.Pattern[str]) -> list[Words]:
    """Return the words of each part that begins with a known program, and of the commands that it runs."""
    parts: list[Words] = []
    for piece in separators.split(text):
        words = [word.strip("\"'\\") for word in piece.split(None, MAX_WORDS)]
        while words and (not words[0] or _PREFIX.match(words[0])):
            del words[0]
        if words and find_program(words[0]) is not None:
            parts += unwrap_command(tuple(words)).views
            if len(parts) > MAX_PARTS:
                break
    return parts


def _find_text_hints(text: str) -> Iterator[Hint]:
    """Yield the hints in the text of code that the catalog does not cover."""
    if is_destructive_sql(text) or _CODE_DELETES.search(text):
        yield DELETES
    if _CODE_KEYS.search(text):
        yield ACCESS_FILES


def _find_view_hints(views: Collection[Words]) -> Iterator[Hint]:
    """Yield the hints of each command, also if one downloads what another runs."""
    senders = [view for view in views if "sends" in analyze_command(view).does and not analyze_command(view).read_only]
    downloads = {
        word.rpartition("/")[2].partition("?")[0] for view in senders for word in view[1:] if not word.startswith("-")
    }
    for view in views:
        analysis = analyze_command(view)
        program = strip_program_name(view[0])
        yield from (SECRETS for word in view if is_secret_place(word))
        if analysis.read_only:
            continue
        sends = "sends" in analysis.does
        if "deletes" in analysis.does or (sends and any(map(_VERB.fullmatch, view[1:]))):
            yield DELETES
        if senders and not sends and (_runs_stdin(view) or _get_file_run(view) in downloads):
            yield DOWNLOADED_CODE
        if sends:
            yield NETWORK
        if program in _ELEVATES:
            yield OTHER_RIGHTS
        if program == "chmod" and any(map(_OPENS_TO_ALL.fullmatch, view[1:])):
            yield OPEN_PERMISSIONS
        if program in _RIGHTS and any(map(_RECURSIVE.fullmatch, view[1:])):
            yield WHOLE_FOLDER
        if "writes" in analysis.does:
            for word in view[-1:] if program in _COPIES else view[1:]:
                yield from find_written_hints(word.removeprefix("of="))


def _runs_stdin(view: Words) -> bool:
    """Return whether the command runs the output of another one."""
    if strip_program_name(view[0]) in _SOURCES:
        return len(view) == 1 or any(map(_SUBSTITUTION.search, view[1:]))
    form = find_program(view[0])
    if form is None:
        return False
    if form.line_if and any(map(_SUBSTITUTION.search, view[1:])):
        return True
    has_code = not form.line_if and any(re.match(r"-(?:[A-Za-z]*[ceEprn]|-eval|-print)$", word) for word in view[1:])
    return form.stdin and not has_code and analyze_command(view).piped


def _get_file_run(view: Words) -> str | None:
    """Return the name of the file that the command runs, None if it runs none."""
    if "/" in view[0]:
        return view[0].rpartition("/")[2]
    form = find_program(view[0])
    if form is None or not (form.stdin or strip_program_name(view[0]) in _SOURCES):
        return None
    return next((word.rpartition("/")[2] for word in view[1:] if not word.startswith("-")), None)
