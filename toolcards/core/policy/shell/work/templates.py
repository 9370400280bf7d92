"""Commands that are alike: words in which `{path}`, `{number}`, `{text}` and `{rest}` leave something open.

`{path}`: one or more paths inside of the project. `{number}`: one number. `{text}`: text for people. `{rest}`, at the
end of a word: what is left of a branch or of an address, as in `fix/{rest}` or `https://a.example/{rest}`.
"""

from __future__ import annotations

import re

from toolcards.core.policy.places.project import Project
from toolcards.core.policy.shell.plain.globs import Globs
from toolcards.core.policy.shell.work.tame_words import is_inside, is_loud

PATH, NUMBER, TEXT, REMAINDER = "{path}", "{number}", "{text}", "{rest}"
SLOT = re.compile(r"\{(path|number|text|rest)\}")
_NUMBER = re.compile(r"%?[0-9]{1,9}")
_BRANCH = re.compile(r"(?!.*(?:\.\.|//|\.lock))\w[\w./-]*")
_ADDRESS = re.compile(r"[\w./?&=%,:~+-]*", re.ASCII)
_FILE = re.compile(r".*/.*|.*\.\w{1,8}")


def has_slots(words: tuple[str, ...]) -> bool:
    """Return whether the words leave something open."""
    return any(SLOT.search(word) for word in words)


def is_path(word: str, project: Project | None) -> bool:
    """Return whether `{path}` may be this word."""
    if project is None or word.startswith("-") or "://" in word or is_loud(word):
        return False
    return _FILE.fullmatch(word) is not None and is_inside(word, project)


def is_number(word: str) -> bool:
    """Return whether `{number}` may be this word."""
    return _NUMBER.fullmatch(word) is not None


def fits(template: tuple[str, ...], words: tuple[str, ...], globs: Globs, project: Project | None) -> bool:
    """Return whether a whole command is like the template."""
    place = 0
    for index, part in enumerate(template):
        following = template[index + 1] if index + 1 < len(template) else ""
        count = 1
        if part == PATH:
            count = _count_paths(words[place:], following, project)
        elif place >= len(words) or place in globs.every or not _fits_word(part, words[place]):
            return False
        if not count or any(each in globs.leading for each in range(place, place + count)):
            return False
        place += count
    return place == len(words)


def _count_paths(words: tuple[str, ...], following: str, project: Project | None) -> int:
    """Return how many of the next words are paths, up to the word that follows in the template."""
    for count, word in enumerate(words):
        if (count and word == following) or not is_path(word, project):
            return count
    return len(words)


def _fits_word(part: str, word: str) -> bool:
    if part == NUMBER:
        return is_number(word)
    if part == TEXT:
        return not word.startswith(("-", "@"))
    if part.endswith(REMAINDER):
        start = part.removesuffix(REMAINDER)
        remainder = (_ADDRESS if "://" in start else _BRANCH).fullmatch(word.removeprefix(start))
        return word.startswith(start) and remainder is not None
    return word == part
