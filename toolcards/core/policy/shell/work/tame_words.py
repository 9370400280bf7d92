"""Words of a command that stay inside the project: paths of it, addresses of this computer, and plain values."""

from __future__ import annotations

import re

from toolcards.core.policy.places.project import Project
from toolcards.core.policy.truth import TRUE

# Parts of names of scripts, targets and arguments that say that the work does not stay here, or removes something.
_LOUD = re.compile(
    r"deploy|publish|release|push|upload|destroy|drop|prod|stag(?:e|ing)|remote|delete|remov|purge|wipe|flush|reset|clean"
    r"|truncat|send|mail|notify|pay(?!load)|refund|charge|transfer|merge|token|secret|passw|credential|private|login|logout"
    r"|downgrade|rollback|install|sudo|shell|eval|exec|inject|exploit|grant|revoke|curl|wget|tunnel|ngrok|sync|backup"
    r"|killswitch|breakglass|agentkey|undo|(?<!\w)(?:dis)?connect(?!\w)|restore|migrat(?:e|ion)s?[:_-]?(?:undo|down|fresh|refresh)|kill|shutdown|unlink|erase|nuke|seed[:_-]prod|--force",
    re.IGNORECASE,
)
_SCRATCH = re.compile(r"/tmp/[\w-][\w.-]*(?:/[\w-][\w.-]*)*/?")  # noqa: S108 - where agents keep outputs
_LOCAL_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:[\w.~-]+(?::[\w.~-]*)?@)?(?:localhost|127\.0\.0\.1|\[::1\]|0\.0\.0\.0)(?::\d{1,5})?"
    r"(?:/[\w./?&=%,:~+-]*)?",
    re.IGNORECASE,
)
PLAIN_ADDRESS = (
    r"(?i)https?://(?:[a-z0-9-]{1,40}\.){1,6}[a-z]{2,24}(?::\d{1,5})?(?:/[\w.,:~+%-]{0,64}){0,12}"
    r"(?:\?(?:[\w.-]{1,32}=[\w.,:%+-]{0,32}&?){1,6})?"
)
_PLAIN_ADDRESS = re.compile(PLAIN_ADDRESS)
_PIECES = re.compile(r"[=,]+")
_PLAIN = re.compile(r"[\w.,:=@%+/*?\[\]^-]*")
_NAME = re.compile(r"[A-Za-z][\w-]*")  # no path of anything that is protected
_VARIABLE = re.compile(
    r"(?:[A-Z][A-Z0-9]*_)*(?:LOG|LOGS|DEBUG|LEVEL|URL|URI|ADDR|ADDRESS|HOST|PORT|DSN|BACKEND|MODULE|ENV|PROFILE|ACTIVE"
    r"|UPDATE|SEED|THREADS|JOBS|WORKERS|COUNT|CASES|TIMEOUT|MODE|VERBOSE|QUIET|COLOR|TZ|CI|MPLBACKEND|GOMAXPROCS|TEST"
    r"|TESTS|LIMIT|SIZE|PYTHONPATH|CYPRESS|HEADLESS|BROWSER|STATIC|FEATURES|STRICT|SNAPSHOTS)"
)
_HARMLESS_ASSIGNMENTS = frozenset(
    {"RUSTFLAGS=-D warnings", "RUSTDOCFLAGS=-D warnings", "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "EDITOR=true"}
)
_HOST = re.compile(r"(?:^|_)(?:HOST|URL|URI|ADDR|ADDRESS|DSN)$")
_MAX_WORD = 256


def is_tame(word: str, project: Project) -> bool:
    """Return whether a word names nothing outside of the project.

    Nor work that leaves it. It may be an option with a value, a path, an address of this computer, a number or a name.
    """
    if len(word) > _MAX_WORD or _LOUD.search(word):
        return False
    return _LOCAL_ADDRESS.fullmatch(word) is not None or all(_is_tame_piece(piece, project) for piece in _split(word))


def is_tame_assignment(word: str, project: Project | None) -> bool:
    """Return whether `NAME=value` may stand before a program of the project."""
    if word in _HARMLESS_ASSIGNMENTS:
        return project is not None
    name, sign, value = word.partition("=")
    if not sign or project is None or not _VARIABLE.fullmatch(name) or "/tmp" in value:  # noqa: S108
        return False
    names_host = _HOST.search(name) is not None and "." in value
    return _LOCAL_ADDRESS.fullmatch(value) is not None if names_host else is_tame(value, project)


def is_local_address(word: str) -> bool:
    """Return whether a word is an address of this computer."""
    return _LOCAL_ADDRESS.fullmatch(word) is not None


def is_plain_address(word: str) -> bool:
    """Return whether a word is a public address.

    The agent could have put only little into it.
    """
    return _PLAIN_ADDRESS.fullmatch(word) is not None


def is_inside(word: str, project: Project) -> bool:
    """Return whether a word is a path of the project or `/tmp`.

    Protected places do not count.
    """
    return _SCRATCH.fullmatch(word) is not None or (bool(word) and project.locate(word) is TRUE)


def is_loud(word: str) -> bool:
    """Return whether a word names work that leaves or removes something."""
    return _LOUD.search(word) is not None


def _split(word: str) -> list[str]:
    """Return what may be a path or a value in a word."""
    if word.startswith("-"):
        name, _, value = word.partition("=")
        return [*_PIECES.split(value)] if name.startswith("--") or len(name) <= 2 else [name[2:], value]
    return _PIECES.split(word)


def _is_tame_piece(piece: str, project: Project) -> bool:
    if not piece:
        return True
    if _LOCAL_ADDRESS.fullmatch(piece):
        return True
    if not _PLAIN.fullmatch(piece) or "://" in piece:
        return False
    if _SCRATCH.fullmatch(piece) or _NAME.fullmatch(piece):
        return True
    return all(project.locate(name) is TRUE for name in piece.split(":") if name)  # tests/a.py::test_x, :app:lint
