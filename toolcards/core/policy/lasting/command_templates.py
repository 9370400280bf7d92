"""The templates of a command line: what a lasting answer may leave open in each of its commands.

Where a command sends something, only numbers, texts for people, the rest of a branch's name and the path of an address
are open. Where it deletes, runs code that it is given, or says that its work leaves the project, nothing is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from toolcards.core.policy.shell.catalogs import list_names
from toolcards.core.policy.shell.script import CommandSegment, Script
from toolcards.core.policy.shell.work.classes import OUTSIDE_WORK
from toolcards.core.policy.shell.work.tame_words import is_loud
from toolcards.core.policy.shell.work.templates import NUMBER, PATH, REMAINDER, SLOT, TEXT, is_number, is_path

_MAX_COMMANDS = 5  # of a line, in one rule
_TEXT_OPTIONS = frozenset({"-m", "--message", "-b", "--body", "-t", "--title", "--notes"})
_TEXT_PROGRAMS = frozenset({"git", "gh", "glab"})
_FETCHERS = frozenset({"curl", "lychee", "http", "xh"})
_FETCH_OPTIONS = re.compile(
    r"-[sSfiILNv46qk]+|--(?:silent|show-error|fail|head|location|no-progress|compressed|include|spider|quiet)"
)
_ADDRESS = re.compile(r"(https?://[\w.-]+(?::\d+)?/)[\w./?&=%,:~+-]*", re.ASCII)
_BRANCH = re.compile(r"([\w.-]+/)[\w.-]+")
# They change what a number or a path says, whatever it is.
_EXACT = frozenset(
    {"chmod", "chown", "rm", "rmdir", "dd", "truncate", "shred", "mkfs", "mount", "ln", "kill", "pkill", "killall",
     "xargs", "find", "sed", "awk", "perl", "docker", "podman", "kubectl", "helm", "aws", "gcloud", "az", "ssh", "scp",
     "rsync", "sudo", "env", "systemctl", "crontab", "patch", "tar", "unzip"}
)  # fmt: skip


def list_templates(script: Script) -> list[str]:
    """Return a template for each command that changes something.

    [] if nothing may be left open.
    """
    templates: dict[str, None] = {}
    for segment in script.segments:
        if segment.doubt and not segment.work - {*OUTSIDE_WORK}:
            words = _find_template(segment)
            if words is None:
                return []
            templates[_join(words)] = None
    return list(templates) if len(templates) <= _MAX_COMMANDS and any(map(SLOT.search, templates)) else []


def _join(words: tuple[str, ...]) -> str:
    return " ".join(word if SLOT.search(word) else shlex.quote(word) for word in words)


def _find_template(segment: CommandSegment) -> tuple[str, ...] | None:
    """Return the words with slots; without any if nothing may be open, None if no rule can spell them."""
    words, does = segment.words, segment.analysis.does
    if segment.opaque or segment.folder_changed or segment.hidden or any(SLOT.search(word) for word in words):
        return None
    if "deletes" in does or _EXACT & {*list_names(words[0])}:
        return words
    template: list[str] = []
    for place, word in enumerate(words):
        part = _open(segment, place, word, sends="sends" in does)
        if part != PATH or template[-1] != PATH:
            template.append(part)
    loud = any(is_loud(word) for word in template[1:] if word not in {"push"})
    return words if loud else tuple(template)


def _open(segment: CommandSegment, place: int, word: str, *, sends: bool) -> str:
    """Return the slot that this word may become, or the word."""
    words = segment.words
    before = words[place - 1] if place else ""
    if not place or word.startswith("-"):
        return word
    if words[0] in _TEXT_PROGRAMS and before in _TEXT_OPTIONS:
        return TEXT
    if sends:
        return next(_open_sent(words, place, word), word)
    if is_number(word):
        return NUMBER
    return PATH if place > 1 and is_path(word, segment.folder) else word


def _open_sent(words: tuple[str, ...], place: int, word: str) -> Iterator[str]:
    address = _ADDRESS.fullmatch(word)
    if address is not None and words[0] in _FETCHERS and _only_fetches(words):
        yield address[1] + REMAINDER
    if words[0] == "gh" and words[1:2] in {("pr",), ("issue",)} and is_number(word):
        yield NUMBER
    branch = _BRANCH.fullmatch(word)
    if words[:2] == ("git", "push") and place > 2 and branch is not None and not is_loud(word):
        yield branch[1] + REMAINDER


def _only_fetches(words: tuple[str, ...]) -> bool:
    return all(_FETCH_OPTIONS.fullmatch(word) or _ADDRESS.fullmatch(word) for word in words[1:])
